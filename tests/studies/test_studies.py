"""Studies and comparisons beside plain sets: samples, brute force, bandings, methods, and their commands."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import acos, comb, pi
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.cli.studies import curve as curve_command
from gpulsh.cli.terminal import aligned_lines
from gpulsh.errors import InputError, ParameterError
from gpulsh.studies import study as brute_force
from gpulsh.studies import study as drawing
from gpulsh.studies.compare import KINDS, METHODS, SIMHASH, read_pairs
from gpulsh.theory import SCurve, default_banding
from tests.support.command import Command
from tests.support.files import write_rows
from tests.support.traced import at_most

SHINGLING = gpulsh.Shingling(size=2)
THRESHOLD = 0.6
BANDS = default_banding(128, THRESHOLD)


def pages(count: int, seed: int = 5) -> list[str | None]:
    random = np.random.default_rng(seed)
    texts: list[str | None] = []
    for number in range(count):
        words = [f"f{number // 4}w{place}" for place in range(12)]
        for place in random.integers(0, 12, random.integers(0, 5)):
            words[place] = f"own{number}x{place}"
        texts.append(" ".join(["read", "this", "page", *words]))
    texts[7], texts[20], texts[21] = texts[5], None, "..."
    return texts


def naive_similarity(texts: Sequence[str | None]) -> dict[tuple[int, int], float]:
    """The similarity of each pair of texts that share a run of two words."""
    words = [(text or "").replace(".", "").split() for text in texts]
    sets = [set(pairwise(row)) for row in words]
    pairs = {(i, j): (sets[i] & sets[j], sets[i] | sets[j]) for i, j in combinations(range(len(sets)), 2)}
    return {pair: len(both) / len(either) for pair, (both, either) in pairs.items() if both}


TEXTS = pages(60)
NAIVE = naive_similarity(TEXTS)
COPIES = sum(one == other and one not in (None, "...") for one, other in combinations(TEXTS, 2))
TRUE = sorted(pair for pair, similarity in NAIVE.items() if similarity >= THRESHOLD)


@pytest.mark.parametrize("frequent", [1, 16, 10**9])
def test_brute_force_equals_plain_sets(frequent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brute_force, "FREQUENT", frequent)
    monkeypatch.setattr(brute_force, "CELLS", 150)
    monkeypatch.setattr(brute_force, "COLUMNS", 1)
    texts = [*TEXTS, *TEXTS[:3]]
    naive = naive_similarity(texts)
    read = gpulsh.shingle(texts, shingling=SHINGLING, backend="cpu")
    rows = [np.unique(read.values[start:stop]) for start, stop in pairwise(read.offset)]
    sets = gpulsh.Fingerprints(np.concatenate(rows), np.cumsum([0, *map(len, rows)]))
    threshold = sorted(naive.values())[-40]  # that of a pair
    blocks: list[Any] = []
    spread = brute_force.spread_of(sets, lambda *block: blocks.append(block))
    i, j, similarity = map(np.concatenate, zip(*blocks, strict=True))
    sharing = np.stack([i, j], axis=1)
    assert dict(zip(map(tuple, sharing.tolist()), similarity.tolist(), strict=True)) == naive
    assert len(blocks) > 1 and sharing.tolist() == sorted(sharing.tolist())
    assert (similarity == gpulsh.jaccard(read, sharing, backend="cpu")).all()
    similar, pairs = brute_force.brute_force(sets, threshold)
    assert similar == spread and pairs.tolist() == [[*pair] for pair in sorted(naive) if naive[pair] >= threshold]
    assert spread.pairs == 63 * 62 // 2
    steps = Counter(min(int(s * 20), 19) for s in naive.values())
    assert spread.histogram(20).tolist() == [steps[step] for step in range(20)]
    curve = SCurve(bands=20, rows=5)
    assert spread.expected(curve) == pytest.approx(sum(float(curve.probability(s)) for s in naive.values()), 1e-3)
    with pytest.raises(ParameterError, match="bins is 7; give a divisor of 1000"):
        spread.histogram(7)


def test_a_sample_depends_on_no_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(500)]
    lots = drawing.words_at("sample", 3, np.arange(500, dtype=np.uint64))
    wanted = sorted(np.argsort(lots)[:9].tolist())
    pq.write_table(pa.table({"body": texts}), tmp_path / "a.parquet", row_group_size=77)
    for batch_bytes in (200, 1 << 20):
        monkeypatch.setattr(drawing, "BATCH_BYTES", batch_bytes)
        for corpus in (texts, drawing.open_corpus([str(tmp_path)], text_column="body", backend="cpu")):
            drawn = drawing.draw_sample(corpus, 9, 3)
            assert drawn.positions.tolist() == wanted and drawn.documents == 500
            values, offset = drawn.texts.values.tobytes(), drawn.texts.offset.tolist()
            found = [values[start:stop].decode() for start, stop in pairwise(offset)]
            assert found == [texts[position] for position in wanted]
    assert drawn.pairs_in_sample(np.array([[wanted[2], wanted[7]], [wanted[0], (wanted[0] + 1)]])).tolist() == [[2, 7]]
    assert len(drawing.draw_sample(texts[:4], 9, 3).positions) == 4
    assert drawing.draw_sample([], 9, 3).texts.offset.tolist() == [0]
    everywhere = np.concatenate([drawing.draw_sample(texts, 50, seed).positions for seed in range(40)])
    assert np.histogram(everywhere, 4, (0, 500))[0].min() > 430  # of 500 expected


def test_a_study_recommends_the_cheapest_sufficient_banding() -> None:
    options: dict[str, Any] = {"shingling": SHINGLING, "backend": "cpu", "threshold": THRESHOLD}
    found = gpulsh.study(TEXTS, num_perm=32, recall=0.9, bands=3, rows=2, **options)
    assert (found.documents, found.sample, found.similar) == (60, 60, len(TRUE))
    every = [SCurve(bands=bands, rows=rows) for rows in range(1, 33) for bands in range(1, 32 // rows + 1)]

    def cost(curve: SCurve, below: float = THRESHOLD) -> float:
        return sum(float(curve.probability(similarity)) for similarity in NAIVE.values() if similarity < below)

    best = min((curve for curve in every if curve.probability(THRESHOLD) >= 0.9), key=cost)
    assert found.recommended.curve == best
    assert found.recommended.wasted == pytest.approx(cost(best), 1e-3)
    assert found.recommended.expected == pytest.approx(cost(best, 2), 1e-3)
    assert (3, 2) in {(row.bands, row.rows) for row in found.bandings}
    signatures = gpulsh.MinHash(num_perm=32).from_texts(TEXTS, shingling=SHINGLING, backend="cpu")
    for row in found.bandings:
        digests = gpulsh.Banding(bands=row.bands, rows=row.rows)(signatures, backend="cpu")
        pairs = set(map(tuple, gpulsh.candidate_pairs(digests, backend="cpu").tolist()))
        assert (row.candidates, row.recall) == (len(pairs), len(pairs & set(TRUE)) / len(TRUE))
        assert row.expected_of_all == pytest.approx(row.expected)

    strict = gpulsh.study(TEXTS, num_perm=32, capture=(0.7, 0.9), reject=(0.1, 0.01), **options).recommended.curve
    meets = [curve for curve in every if curve.probability(0.7) >= 0.9 and curve.probability(0.1) <= 0.01]
    assert strict == min(meets, key=cost)
    # Where all pairs are above the similarity to capture, a flat curve has the fewest candidates.
    alike = [" ".join(["the same", *"abcdefghijklm", f"{number} ends"]) for number in range(9)]
    flat: dict[str, Any] = {**options, "num_perm": 32, "threshold": 0.99, "capture": (0.5, 0.8)}
    assert gpulsh.study(alike, **flat).recommended.rows == 1
    assert gpulsh.study(alike, reject=(0.05, 0.05), **flat).recommended.rows > 1
    half = gpulsh.study([*TEXTS, *[None] * 60], sample=60, num_perm=32, recall=0.9, **options)
    assert (half.documents, half.sample) == (120, 60)
    assert half.recommended.expected_of_all == pytest.approx(half.recommended.expected * 120 * 119 / (60 * 59))
    edge = [f"{' '.join(f'c{n // 2}w{k}' for k in range(8))} own{n}" for n in range(20)]  # ten pairs at 0.8
    assert gpulsh.study(edge, threshold=0.8, shingling="word:1", backend="cpu").recommended.wasted == 0
    nothing = gpulsh.study([], backend="cpu")
    assert (nothing.similar, nothing.recommended.recall, nothing.histogram(5).sum()) == (0, None, 0)
    assert "-0" not in str(nothing.recommended.expected_of_all)
    assert repr(nothing.spread) == "Spread(pairs=0)"  # without its thousand counts


def test_a_study_of_copies_takes_memory_for_pairs_but_not_for_their_bands() -> None:
    with at_most(500 * comb(600, 2)):  # a pair has 42 bands of two digests of 8 bytes
        assert gpulsh.study(["one two three"] * 600, backend="cpu").recommended.recall == 1.0


def test_a_study_refuses_wrong_parameters() -> None:
    calls: list[tuple[Any, dict[str, Any], str]] = [
        (gpulsh.compare, {"methods": [gpulsh.MinHash()]}, "a method is of type MinHash; give an object of str"),
        (gpulsh.compare, {"methods": 5}, "methods is 5; give a list of one or more names"),
        (gpulsh.compare, {"verify": "none"}, "verify is 'none'; give a list of one or more names"),
        (gpulsh.study, {"threshold": 0}, "threshold is 0.0"),
        (gpulsh.study, {"recall": 1.0}, "probability of recall is 1.0"),
        (gpulsh.study, {"capture": (0.5,)}, r"capture is \(0.5,\)"),
        (gpulsh.study, {"capture": (0.5, 0.99), "reject": (0.05, 1e-9)}, "no banding of num_perm=128 .* closest"),
        (gpulsh.study, {"num_perm": 2}, "num_perm is 2"),
        (gpulsh.study, {"sample": 1}, "sample is 1"),
    ]
    for function, given, message in calls:
        with pytest.raises(ParameterError, match=message):
            function(TEXTS, backend="cpu", **given)


def test_methods_are_judged_by_the_pairs_of_sets() -> None:
    names = [*METHODS, *(f"{name}:128:20" for name in SIMHASH), *KINDS]
    verify: Any = ("none", "signature", "exact")
    options: dict[str, Any] = {"threshold": THRESHOLD, "shingling": SHINGLING, "backend": "cpu", "threads": 1}
    found = gpulsh.compare(TEXTS, names, verify=verify, **options)
    assert found.similar == len(TRUE)
    rows = {(row.method, row.verify): row for row in found.methods}
    assert {name for name, _ in rows} == set(names)
    for row in found.methods:
        assert row.found <= row.candidates and row.true <= min(row.found, len(TRUE)), row
        assert row.precision == (row.true / row.found if row.found else None)
        assert row.recall == row.true / len(TRUE)
        if row.precision and row.recall:
            assert row.f1 == pytest.approx(2 / (1 / row.precision + 1 / row.recall))
        if row.verify == "exact":
            assert row.precision in (1.0, None) and row.true == rows[row.method, "none"].true
    signatures = gpulsh.MinHash().from_texts(TEXTS, shingling=SHINGLING, backend="cpu")
    bands = gpulsh.Banding(bands=BANDS[0], rows=BANDS[1])(signatures, backend="cpu")
    pairs = gpulsh.candidate_pairs(bands, backend="cpu")
    alike = gpulsh.jaccard(signatures, pairs, backend="cpu") >= THRESHOLD
    for verification, wanted in (("none", pairs), ("signature", pairs[alike])):
        true = len(set(map(tuple, wanted.tolist())) & set(TRUE))
        row = rows["minhash:128", verification]
        assert (row.candidates, row.found, row.true) == (len(pairs), len(wanted), true)
    assert rows["md5", "none"].found == COPIES > 0 and rows["md5", "none"].bytes == 16
    assert rows["minhash:128", "none"].bytes == 512 and ("md5", "signature") not in rows
    assert rows["bottom-s", "none"].found == rows["bottom-s", "none"].true == len(TRUE)  # 128 hold all of such sets

    def near(bits: int, weights: Any, pairs: Any, distance: int) -> int:
        """The number of pairs of texts with words that differ in at most so many bits."""
        words = gpulsh.SimHash(bits=bits, weights=weights).from_texts(TEXTS, shingling=SHINGLING, backend="cpu")
        pairs = [pair for pair in pairs if not {20, 21} & set(pair)]
        return int((gpulsh.hamming(words, pairs, backend="cpu") <= distance).sum())

    for name, weights in SIMHASH.items():
        assert rows[f"{name}:128:20", "none"].found == near(128, weights, combinations(range(60), 2), 20) > COPIES


def test_henzingers_combination_keeps_as_many_pairs_as_in_theory() -> None:
    """Pairs have a Jaccard of about 0.9: 6 adjoining words of 200 differ."""
    generator, pairs, words, changed = np.random.default_rng(1), 300, 200, 6
    texts = []
    for pair in range(pairs):
        one = [f"w{word}x{pair}" for word in generator.integers(0, 1 << 40, words)]
        place = int(generator.integers(4, words - changed - 4))
        other = [*one[:place], *(f"n{word}" for word in one[:changed]), *one[place + changed :]]
        texts += [" ".join(one), " ".join(other)]
    options: dict[str, Any] = {"shingling": "word:5", "backend": "cpu"}
    sets = gpulsh.shingle(texts, **options)
    similarity = gpulsh.jaccard(sets, np.arange(2 * pairs).reshape(-1, 2), backend="cpu")
    assert abs(similarity - (words - 8 - changed) / (words + changed)).max() < 1e-9
    broder, both = gpulsh.compare(texts, ["supershingles", "henzinger"], verify=["none"], **options).methods
    # A bit of two texts differs with the probability that their angle is of a half turn; 29 of 384 bits may.
    p = acos((words - changed) / words) / pi
    wanted = sum(comb(384, bits) * p**bits * (1 - p) ** (384 - bits) for bits in range(30))
    assert broder.found > pairs / 4
    deviation = np.sqrt(wanted * (1 - wanted) / broder.found)
    assert abs(both.found / broder.found - wanted) < 4 * deviation + 0.01


def test_given_truth_equals_computed_truth() -> None:
    options: dict[str, Any] = {"threshold": THRESHOLD, "shingling": SHINGLING, "backend": "cpu", "sample": 30}
    given = gpulsh.compare(TEXTS, ["minhash:64"], truth=np.array(TRUE)[:, ::-1], **options)
    computed = gpulsh.compare(TEXTS, ["minhash:64"], **options)
    assert 0 < given.similar == computed.similar < len(TRUE)
    assert [row.true for row in given.methods] == [row.true for row in computed.methods]
    with pytest.raises(ParameterError, match="truth pairs row 2 with itself; leave such pairs out"):
        gpulsh.compare(TEXTS, ["minhash:64"], truth=[[0, 1], [2, 2]], **options)


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    return write_rows(tmp_path / "a.jsonl", TEXTS)


def test_wrong_options_are_one_line_and_status_2(corpus: str, command: Command) -> None:
    for line, message in (
        (f"compare {corpus} --methods minhush:128", "there is no method 'minhush:128'; give some of affine32,"),
        (f"compare {corpus} --methods b-bit:x", "there is no method 'b-bit:x'; give b-bit or b-bit:1"),
        (f"compare {corpus} --methods md5:3", "there is no method 'md5:3'; give md5"),
        (f"compare {corpus} --methods simhash:64:3:1", "method is 'simhash:64:3:1'"),
        (f"compare {corpus} --verify maybe", "verify is 'maybe'"),
        (f"curve --study {corpus} --recall 2", "the probability of --recall is 2.0"),
        (f"curve --study {corpus} --plot a.txt", "give a file that ends with .png or .svg"),
        ("curve --bands 4 --rows 2 --recall 0.9", "--recall needs --study INPUT"),
    ):
        refused = command(line)
        assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1) and message in refused.error


def test_the_command_curve_shows_the_study(
    corpus: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    studied = gpulsh.study(TEXTS, recall=0.95, threshold=THRESHOLD, shingling=SHINGLING, backend="cpu")
    line = f"curve --threshold {THRESHOLD} --shingle word:2 --backend cpu --recall 0.95 --study"
    assert json.loads(command(f"{line} {corpus} --json").out) == json.loads(json.dumps(studied.facts()))
    lines, best = command(f"{line} {corpus} --plot {tmp_path}/study.svg").out.splitlines(), studied.recommended
    assert lines[-1] == f"recommended: --num-perm {best.bands * best.rows} --bands {best.bands} --rows {best.rows}"
    assert [line.split()[:2] for line in lines if line.endswith("  recommended")] == [[str(best.bands), str(best.rows)]]
    drawn = (tmp_path / "study.svg").read_text()
    assert f"<!-- {best.bands} bands of {best.rows} rows, recommended -->" in drawn and len(studied.bandings) > 3
    for banding in studied.bandings:
        assert banding == best or f"<!-- {banding.bands} x {banding.rows} -->" in drawn
    gpulsh.study([], backend="cpu").plot(tmp_path / "empty.svg")
    assert "10^{0}" in drawn and "10^{-" not in (tmp_path / "empty.svg").read_text()  # no part of a pair
    monkeypatch.setattr("gpulsh.studies.curve.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r'not installed: pip install "gpulsh\[report\]"'):
        studied.plot("study.svg")
    assert [option.default for option in curve_command.params if option.name == "sample"] == [drawing.SAMPLE]


def test_the_command_compare_shows_the_comparison(corpus: str, tmp_path: Path, command: Command) -> None:
    i, j = np.array([*TRUE, (0, 59)]).T
    pairs = pa.table({"i": i, "j": j, "jaccard": [1.0] * len(TRUE) + [0.1]})
    pq.write_table(pairs, tmp_path / "pairs.parquet")
    options: dict[str, Any] = {"threshold": THRESHOLD, "shingling": SHINGLING, "backend": "cpu"}
    compared = gpulsh.compare(TEXTS, ["fast:64", "md5"], verify=["none"], **options)
    line = (
        f"compare --threshold {THRESHOLD} --shingle word:2 --backend cpu --methods fast:64,md5 --verify none {corpus}"
    )
    found = json.loads(command(f"{line} --truth {tmp_path}/pairs.parquet --json").out)
    assert found["similar"] == len(TRUE)
    assert [(row["method"], row["true"]) for row in found["methods"]] == [(r.method, r.true) for r in compared.methods]
    lines = command(line).out.splitlines()
    assert max(map(len, lines)) <= 80 and lines[-1].split()[:4] == ["md5", "none", str(COPIES), str(COPIES)]
    damaged: list[dict[str, list[Any]]] = [{"i": [0, None]}, {"i": [0.5, 1]}, {"jaccard": ["a", "b"]}]
    for number, columns in enumerate(damaged):
        pq.write_table(pa.table({"i": [0, 1], "j": [2, 3], **columns}), tmp_path / f"{number}.parquet")
    (tmp_path / "folder").mkdir()
    pq.write_table(pairs, tmp_path / "folder/pairs.parquet")
    for wrong in (
        corpus,
        str(tmp_path / "folder"),
        *(str(tmp_path / f"{number}.parquet") for number in range(len(damaged))),
    ):
        with pytest.raises(InputError, match="cannot be read as pairs"):
            read_pairs(wrong, 0.5)
    with pytest.raises(InputError, match="nothing: no such file; give Parquet"):
        read_pairs("nothing", 0.5)
    with pytest.raises(InputError, match="truth is empty; give Parquet"):
        read_pairs("", 0.5)


def test_tables_of_large_counts_fit_a_terminal() -> None:
    studied = gpulsh.study(TEXTS, threshold=0.65, shingling=SHINGLING, backend="cpu")
    many = [replace(row, candidates=10**6, expected=1e9, wasted=1e9, expected_of_all=1e15) for row in studied.bandings]
    for found in (studied, replace(studied, bandings=tuple(many))):
        lines = list(aligned_lines(found.table()))
        assert max(map(len, lines)) <= 80
        assert [line.endswith(" recommended") for line in lines[1:]].count(True) == 1
    assert lines[1].split()[-4:] == ["1.0e+06", "1.0e+09", "1.0e+09", "1.0e+15"]
