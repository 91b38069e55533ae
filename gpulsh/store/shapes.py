"""JSON that gpulsh reads back, checked for its shape: a checksum guards against accidents alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from gpulsh.errors import DamagedInputError
from gpulsh.store.durable import FileFact

MOST = 1 << 62  # of any count


class ShapeError(ValueError):
    """JSON of another shape than it should have."""


def strict_json(content: bytes) -> dict[str, Any]:
    """Parse an object; repeated names, numbers that JSON lacks, and endless depths or digits are refused."""
    try:
        told = json.loads(content, object_pairs_hook=_unrepeated, parse_constant=_refused)
    except RecursionError as error:
        raise ShapeError("it is nested too deeply") from error
    except ShapeError:
        raise
    except ValueError as error:
        raise ShapeError(f"it is not JSON ({error})") from error
    if not isinstance(told, dict):
        raise ShapeError("it is no JSON object")
    return told


def field(told: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """`told[name]`, of one of `kinds`."""
    if name not in told:
        raise ShapeError(f"it lacks {name!r}")
    value = told[name]
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise ShapeError(f"{name!r} is {_short(value)}")
    return value


def count(told: Mapping[str, Any], name: str) -> int:
    """`told[name]`, a count."""
    return counted(field(told, name, int), name)


def counted(value: object, name: str) -> int:
    """`value` if it is a count."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise ShapeError(f"{name!r} is {_short(value)}")
    return value


def file_facts(told: Mapping[str, Any], name: str) -> dict[str, FileFact]:
    """`told[name]`, facts of files by name."""
    found = field(told, name, dict)
    return {each: FileFact(count(fact, "size"), count(fact, "crc32")) for each, fact in _objects(found).items()}


class Told(dict[str, Any]):
    """A JSON object; what is looked up in it later is there, or a clear error."""

    def __missing__(self, name: str) -> Any:
        raise DamagedInputError(f"a manifest is damaged: it lacks {name!r}; begin again with --overwrite")


def _objects(told: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    for name in told:
        field(told, name, dict)
    return told


def _unrepeated(pairs: list[tuple[str, object]]) -> Told:
    found = Told(pairs)
    if len(found) != len(pairs):
        raise ShapeError("it has a name twice")
    return found


def _refused(name: str) -> NoReturn:
    raise ShapeError(f"it has the number {name}")


def _short(value: object) -> str:
    if value is None or isinstance(value, (bool, float, str)):
        return repr(value)[:60]
    return "a number beyond what can be" if isinstance(value, int) else f"of type {type(value).__name__}"
