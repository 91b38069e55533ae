"""JSON that is read back: whatever is not of the shape that gpulsh writes is told in a few words."""

from __future__ import annotations

import pytest

from gpulsh.errors import DamagedInputError
from gpulsh.store.durable import FileFact
from gpulsh.store.shapes import ShapeError, count, field, file_facts, strict_json


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is not JSON"),
        (b"[1]", "it is no JSON object"),
        (b'{"a": 1, "a": 2}', "it has a name twice"),
        (b'{"a": NaN}', "it has the number NaN"),
        (b'{"a": ' + b"[" * 100_000, "it is nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "it is not JSON"),
        (b'{"a": "\xff"}', "it is not JSON"),
    ],
)
def test_other_json_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(ShapeError, match=told):
        strict_json(content)


@pytest.mark.parametrize(
    ("value", "told"),
    [("-1", "a number beyond what can be"), (str(2**63), "beyond"), ("true", "True"), ("1.5", "1.5"), ("[]", "list")],
)
def test_other_counts_are_refused(value: str, told: str) -> None:
    with pytest.raises(ShapeError, match=f"'n' is .*{told}"):
        count(strict_json(b'{"n": ' + value.encode() + b"}"), "n")


def test_what_has_the_shape_is_taken() -> None:
    told = strict_json(b'{"n": 3, "files": {"a": {"size": 1, "crc32": 2}}}')
    assert (count(told, "n"), field(told, "n", int, str)) == (3, 3)
    assert file_facts(told, "files") == {"a": FileFact(1, 2)}
    with pytest.raises(ShapeError, match="it lacks 'm'"):
        field(told, "m", int)
    with pytest.raises(DamagedInputError, match="a manifest is damaged: it lacks 'm'"):
        told["m"]
