"""The extras of the package, as pyproject.toml names them, and how to install one."""

from __future__ import annotations

from typing import Literal

Extra = Literal["cuda12", "cuda13", "cudf", "ray", "warc", "report", "compat", "text"]


def install(extra: Extra) -> str:
    """The command that does it, in every shell: some take brackets without quotes for a pattern, some know one quote.

    >>> print(install("warc"))
    pip install "gpulsh[warc]"
    """
    return f'pip install "gpulsh[{extra}]"'
