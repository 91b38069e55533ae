"""Tables of an index in memory, by the names that datasketch's pickles have for them. Server storages are refused."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from gpulsh.errors import ParameterError


class DictListStorage(dict[Hashable, Any]):
    """Lists of values by their key."""

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take the values from the state of datasketch's class of this name."""
        self.update(state["_dict"])


class DictSetStorage(DictListStorage):
    """Sets of values by their key."""


def check_in_memory(storage_config: Mapping[str, Any] | None) -> None:
    """ParameterError for tables outside of this process."""
    kind = (storage_config or {}).get("type", "dict")
    if kind != "dict":
        raise ParameterError(
            f"storage_config has the type {kind!r}, and gpulsh keeps tables in memory only; leave it out, or use"
            " datasketch, or gpulsh.Index for files"
        )
