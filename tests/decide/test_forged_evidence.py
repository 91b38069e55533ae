"""Text forged to hash like other text drops no document: evidence is computed under a secret."""

import errno
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import gpulsh
from gpulsh.arrays import Fingerprints
from gpulsh.backends.unicode_table import SEPARATOR, unicode_table
from gpulsh.errors import ParameterError
from gpulsh.index.folder import read_manifest
from gpulsh.run.output.work_folder import LOCK, LOCK_TEXT
from gpulsh.secret import chosen_secret, evidence_keys
from tests.kernels.cuts import texts
from tests.support import naive
from tests.support.files import write_rows
from tests.support.runs import interrupting
from tests.support.texts import SECRET, SECRETS

# Pairs of texts that share no word but hashes: public fingerprints, or exact hashes under SECRET. They were found by
# lattice reduction (LLL) and Wagner's generalised birthday search; the tests below show that they are forgeries.
FORGED = json.loads((Path(__file__).parents[1] / "golden" / "forged.json").read_text("utf-8"))
VICTIM, LIKE_VICTIM = FORGED["of its words"]
COPIED, LIKE_COPIED = FORGED["of the whole"]
PAIRS = {
    "words": (FORGED["of its words"], gpulsh.Shingling()),
    "one word a shingle": (FORGED["of its words"], gpulsh.Shingling(size=1)),
    "a shingle": (FORGED["of a shingle"], gpulsh.Shingling(size=16)),
}


@pytest.mark.parametrize(("kind", "backend"), [*((kind, "cpu") for kind in PAIRS), ("words", "reference")])
def test_text_with_forged_public_hashes_is_kept(kind: str, backend: Any) -> None:
    pair, shingling = PAIRS[kind]
    rows: Fingerprints = gpulsh.shingle(pair, shingling=shingling, backend=backend)
    assert set(pair[0].split()).isdisjoint(pair[1].split())
    # The forgery works: the two have equal public fingerprints, and so they are compared.
    assert gpulsh.jaccard(rows, [[0, 1]]).tolist() == [1.0]
    estimated = gpulsh.deduplicate(pair, shingling=shingling, backend=backend, verify="signature")
    assert estimated.keep.tolist() == [True, False]
    found = gpulsh.deduplicate(pair, shingling=shingling, backend=backend)
    assert found.keep.tolist() == [True, True] and len(found.pairs) == 0
    assert (found.funnel.candidates, found.funnel.exact_copies) == (1, 0)


def test_a_forged_exact_hash_needs_the_secret() -> None:
    victim, page = COPIED, LIKE_COPIED
    assert set(victim.split()).isdisjoint(page.split())
    # The forgery works: with the secret, a document is dropped as the copy of an unrelated one.
    known = gpulsh.deduplicate([page, victim], backend="cpu", secret=SECRET)
    assert known.keep.tolist() == [True, False] and known.funnel.exact_copies == 1
    for secret in (None, *SECRETS):
        found = gpulsh.deduplicate([page, victim], backend="cpu", secret=secret)
        assert found.keep.all() and found.funnel.exact_copies == 0


def test_a_large_bucket_of_forged_pages_drops_no_unrelated_page() -> None:
    """In a bucket of more than 256 documents the prefix filter uses evidence, too."""
    pages = [f"{VICTIM} {number}" for number in range(300)]
    found = gpulsh.deduplicate([*pages, LIKE_VICTIM], backend="cpu", num_perm=16, bands=16)
    assert found.funnel.crowded > 256
    assert found.keep.tolist() == [True] + [False] * 299 + [True]


@pytest.mark.parametrize("order", [1, -1])
def test_an_index_is_not_deceived_by_forged_text(order: int, tmp_path: Path) -> None:
    known, new = [VICTIM, LIKE_VICTIM][::order]
    with gpulsh.Index(backend="cpu") as index:
        index.add(["known"], [known])
        index.save(tmp_path / "index")
    with gpulsh.Index.open(tmp_path / "index", backend="cpu") as index:
        assert index.query([new]).keys.tolist() == []
        assert index.add(["new"], [new]).keep.tolist() == [True]
        index.save()
    with gpulsh.Index.open(tmp_path / "index", backend="cpu") as index:  # under the same secret
        assert index.query([VICTIM]).keys.tolist() == ["known" if order == 1 else "new"]


def test_runs_over_files_are_not_deceived_by_forged_text(tmp_path: Path) -> None:
    victim, page = COPIED, LIKE_COPIED
    for name, text in (("first", page), ("second", victim), ("third", VICTIM), ("fourth", LIKE_VICTIM)):
        (tmp_path / f"{name}.txt").write_text(text)
    together = gpulsh.deduplicate_files([tmp_path / "*.txt"], tmp_path / "out", backend="cpu")
    assert together.funnel["dropped"] == 0
    for name in ("first", "second", "third", "fourth"):
        options: dict[str, Any] = {"backend": "cpu", "index": tmp_path / "index"}
        run = gpulsh.deduplicate_files(tmp_path / f"{name}.txt", tmp_path / f"out-{name}", **options)
        assert run.funnel["dropped"] == 0


def documents() -> list[str]:
    found = [text or "" for text in texts(120)]
    return [*found, *(f"{VICTIM} {number % 7}" for number in range(270)), "", " ".join(["again"] * 300)]


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        *(("cpu", options) for options in ({}, {"resolve": "components"}, {"verify": "signature"}, {"verify": "none"})),
        ("reference", {}),
    ],
)
def test_no_decision_depends_on_the_secret(backend: Any, options: dict[str, Any]) -> None:
    secrets = SECRETS if backend == "cpu" else SECRETS[:2]  # the reference takes its time
    results = [gpulsh.deduplicate(documents(), backend=backend, secret=secret, **options) for secret in secrets]
    assert not results[0].keep.all()
    for other in results[1:]:
        assert other == results[0]
        assert {**other.funnel, "seconds": None} == {**results[0].funnel, "seconds": None}


def result_files(out: Path) -> dict[str, bytes]:
    files = [path for path in out.rglob("*") if path.is_file() and path.suffix not in (".html", ".json")]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("indexed", [False, True], ids=["files", "index"])
def test_no_byte_of_the_results_depends_on_the_secret(indexed: bool, tmp_path: Path) -> None:
    for part in range(3):
        rows = [{"text": text, "id": number} for number, text in enumerate(documents()) if number % 3 == part]
        write_rows(tmp_path / f"{part}.jsonl", rows)
    found, counts = [], []
    for number, secret in enumerate(SECRETS):
        out = tmp_path / f"out{number}"
        index = {"index": tmp_path / f"index{number}"} if indexed else {}
        files = [tmp_path / f"{part}.jsonl" for part in range(3)]
        result = gpulsh.deduplicate_files(files, out, backend="cpu", id_column="id", secret=secret, **index)
        found.append(result_files(out))
        counts.append({**result.funnel, "seconds": None})
        reports = (out / "report.json").read_text() + (out / "report.html").read_text()
        assert secret.hex() not in reports
        assert not (out / "_work").exists()
    assert all(other == found[0] for other in found[1:]) and len(found[0]) == (4 if indexed else 5)
    assert all(other == counts[0] for other in counts[1:]) and counts[0]["dropped"] > 200


def test_a_file_system_without_permissions_does_not_stop_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFS, and Windows' disks under WSL, show all files to everyone and refuse to change that."""
    (tmp_path / "a.txt").write_text("some words")
    work = tmp_path / "out" / "_work"
    work.mkdir(parents=True, mode=0o755)
    (work / LOCK).write_bytes(LOCK_TEXT)
    monkeypatch.setattr(os, "chmod", Mock(side_effect=PermissionError(errno.EPERM, "not here")))
    gpulsh.deduplicate_files(tmp_path / "a.txt", tmp_path / "out", backend="cpu", overwrite=True)
    assert (tmp_path / "out" / "data" / "a.txt").exists()


def test_files_that_hold_the_secret_are_private(tmp_path: Path) -> None:
    """Work folders, old ones too, and index files are private: hashes are linear in the keys."""
    (tmp_path / "a.txt").write_text("some words")
    work = tmp_path / "out" / "_work"
    work.mkdir(parents=True, mode=0o755)
    (work / LOCK).write_bytes(LOCK_TEXT)
    options: dict[str, Any] = {"backend": "cpu", "index": tmp_path / "i", "overwrite": True}
    with interrupting():
        gpulsh.deduplicate_files(tmp_path / "a.txt", tmp_path / "out", **options)
    modes = [path.stat().st_mode & 0o777 for path in (work, work / "manifest.jsonl", tmp_path / "i")]
    assert modes == [0o700, 0o600, 0o700]
    (tmp_path / "made before").mkdir(mode=0o755)
    for path in (tmp_path / "new", tmp_path / "made before"):
        with gpulsh.Index.create(path, backend="cpu") as index:
            index.add(["a", "b"], documents()[:2])
            index.save()
            index.remove(["b"])
            index.save()
        modes = {file.name.split("-")[0]: file.stat().st_mode & 0o777 for file in path.iterdir() if file.name != "lock"}
        assert len(modes) == 8 and set(modes.values()) == {0o600}, modes


def test_no_printed_object_shows_the_secret(tmp_path: Path) -> None:
    """Neither a printed object nor an error with --verbose shows it."""
    keys = evidence_keys(SECRET)
    with gpulsh.Index(backend="cpu", secret=SECRET) as index:
        index.save(tmp_path / "index")
        shown = [keys, read_manifest(tmp_path / "index"), index, index.parameters]
        printed = " ".join(repr(each) for each in shown)
    assert SECRET.hex() not in printed and repr(SECRET) not in printed
    assert not any(str(word) in printed for word in keys.words.tolist() if word != 1)


def test_code_points_differ_modulo_the_documented_powers() -> None:
    stage1, stage2 = unicode_table()
    point = np.arange(0x110000)
    entry = stage2[stage1[point >> 7].astype(np.int64) << 7 | point & 127].astype(np.int64)
    folded = np.unique(point[entry & 3 != SEPARATOR] + (entry >> 2)[entry & 3 != SEPARATOR])
    values = np.append(folded, 0)  # where a token has no such place
    for some, v in ((values, 18), (values[values < 0x80], 6)):
        assert len(np.unique(some % (1 << v))) < len(some) == len(np.unique(some % (1 << v + 1)))


def test_a_secret_is_32_bytes() -> None:
    for wrong in (b"short", bytes(33), "0" * 32, 7):
        with pytest.raises(ParameterError, match="give 32 bytes"):
            gpulsh.deduplicate(["a"], backend="cpu", secret=wrong)  # type: ignore[arg-type]
    assert len({chosen_secret(None) for _ in range(9)}) == 9


def test_keys_are_odd_and_far_ones_of_digit_0_are_1() -> None:
    words = evidence_keys(SECRET).words
    assert (words % 2 == 1).all() and len(set(words.tolist())) == len(words) - 8
    assert words.tolist()[:64] == naive.secret_words(SECRET)[:64]
