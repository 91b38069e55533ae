"""A file that a command writes never takes the place of one that gpulsh did not write."""

from pathlib import Path
from typing import Any

import pytest

from gpulsh.errors import OutputError
from gpulsh.run.index.jobs import add_to_index, build_index, query_index
from gpulsh.run.signatures import sign_files
from tests.support.files import write_rows

OURS: dict[str, Any] = {"backend": "reference"}


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
@pytest.mark.parametrize("command", ["sign", "build", "add", "query"])
def test_only_a_file_of_ours_is_replaced(command: str, ending: str, tmp_path: Path) -> None:
    if (command, ending) == ("sign", "jsonl"):
        return
    given, out, index = tmp_path / "in.jsonl", tmp_path / f"out.{ending}", tmp_path / "index"
    write_rows(given, ["one two", "one two", "three"])
    if command in ("add", "query"):
        build_index(index, [str(given)], **OURS)

    def write(number: int, **options: Any) -> None:
        if command == "sign":
            sign_files([str(given)], out, **options, **OURS)
        elif command == "build":
            build_index(tmp_path / f"index{number}", [str(given)], output=out, **options, **OURS)
        elif command == "add":
            again = tmp_path / f"in{number}.jsonl"
            again.write_bytes(given.read_bytes())
            add_to_index(index, [str(again)], output=out, **options, **OURS)
        else:
            query_index(index, [str(given)], output=out, **options, **OURS)

    write(1)
    with pytest.raises(OutputError, match="is there already; give another file, or overwrite=True if gpulsh wrote it"):
        write(2)
    write(3, overwrite=True)
    write_rows(out, ["mine"])
    before = out.read_bytes()
    for options in ({}, {"overwrite": True}):
        with pytest.raises(OutputError):
            write(4, **options)
    assert out.read_bytes() == before
