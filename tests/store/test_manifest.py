"""Which steps of a job are done: what a crash or a hand leaves of its manifest."""

import os
from pathlib import Path

import pytest

from gpulsh.errors import OutputError
from gpulsh.store.durable import FileFact, durable_file
from gpulsh.store.manifest import AT_ONCE, NAME, Manifest

SECRET = bytes(range(32))


def test_steps_are_found_again_with_their_files_and_facts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manifest = Manifest.begin(tmp_path, {"a": 1}, SECRET)
    with durable_file(tmp_path / "made") as file:
        file.write(b"content")
        fact = file.fact()
    manifest.add("one", {"made": fact}, {"n": 1})
    manifest.add("one", {"made": fact}, {"n": 2})  # done again: the last counts
    found = Manifest.open(tmp_path)
    assert found is not None and (found.job, found.secret) == ({"a": 1}, SECRET)
    ((name, step),) = found.steps()
    assert (name, step.files, step.facts) == ("one", {"made": fact}, {"n": 2})
    assert found.finished("one") == {"n": 2} and found.finished("two") is None
    (tmp_path / "made").write_bytes(b"contend")
    assert found.finished("one") is None
    (tmp_path / "made").unlink()
    assert found.finished("one") is None
    assert caplog.text.count("made is missing or damaged; it is computed again") == 2
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_a_torn_line_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    manifest = Manifest.begin(tmp_path, {"a": 1}, SECRET)
    manifest.add("one", {}, {"n": 1})
    whole = (tmp_path / NAME).read_bytes()
    manifest.add("two", {}, {"n": 2})
    both = (tmp_path / NAME).read_bytes()
    for length in range(len(whole), len(both)):
        (tmp_path / NAME).write_bytes(both[:length])
        found = Manifest.open(tmp_path)
        assert found is not None and found.find("one") is not None and found.find("two") is None
        found.add("three", {}, {})
        again = Manifest.open(tmp_path)
        assert again is not None and again.find("three") is not None
    for length in range(whole.index(b"\n") + 1):
        (tmp_path / NAME).write_bytes(whole[:length])
        assert Manifest.open(tmp_path) is None


def test_brief_steps_are_made_durable_many_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, synced = Manifest.begin(tmp_path, {}, SECRET), list[int]()
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    for number in range(2 * AT_ONCE):
        manifest.add(f"brief-{number}", {}, {}, brief=True)
    assert len(synced) == 2
    manifest.add("brief", {}, {}, brief=True)
    manifest.add("long", {}, {})  # which is so, and whatever came before it
    assert len(synced) == 3 and synced[-1] == (tmp_path / NAME).stat().st_size
    found = Manifest.open(tmp_path)
    assert found is not None and len(list(found.steps())) == 2 * AT_ONCE + 2


def test_no_secret_of_an_older_version_is_said(tmp_path: Path) -> None:
    Manifest.begin(tmp_path, {}, b"short")
    with pytest.raises(OutputError, match="holds no secret of 32 bytes"):
        Manifest.open(tmp_path)


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "data/../../out", "a\0b"])
def test_a_step_with_a_file_outside_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    Manifest.begin(tmp_path, {}, SECRET).add("one", {name: FileFact(8, 1)}, {})
    with pytest.raises(OutputError, match="is damaged: it names the file"):
        Manifest.open(tmp_path)
