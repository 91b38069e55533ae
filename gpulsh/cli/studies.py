"""`gpulsh sample`, `gpulsh curve` and `gpulsh compare`: studies of a sample of files, and the curve of a banding."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, log1p
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpulsh.cli import options as opt
from gpulsh.cli.terminal import aligned_lines, mark_differences, say, say_marked
from gpulsh.errors import install_command

if TYPE_CHECKING:  # numpy is loaded only when the command runs
    from gpulsh.io.files.file_texts import FileTexts
    from gpulsh.studies.curve import BandingStudy
    from gpulsh.studies.sample import Pair, Resemblance
    from gpulsh.studies.study import Study
    from gpulsh.theory import SCurve

# The defaults of `gpulsh dedup` and choose_banding(); repeated here because --help must not load NumPy.
DEFAULT_THRESHOLD = 0.8
DEFAULT_NUM_PERM = 128
DEFAULT_CAPTURE = (0.5, 0.99)
DEFAULT_REJECT = (0.05, 0.01)

STEPS = 20  # of similarity, in the table of a curve
BAR = 30  # characters of the longest bar

sample_option = opt.number("--sample", "N", "Number of documents to draw; all if there are fewer.", default=10_000)
inputs_argument = click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
json_option = opt.flag("--json as_json", "Print one JSON object instead of text.")
of_files = opt.combine_options(opt.text_options(), opt.backends)


def _run(
    inputs: Sequence[str], as_json: bool, options: Mapping[str, Any], function: Callable[..., Study]
) -> tuple[Any, FileTexts]:
    """The study of the files that `function` makes, and the files; with `as_json` it is printed."""
    from gpulsh.studies.study import open_corpus

    given = dict(options)
    read_options = {name: given.pop(name) for name in ("text_column", "lines", "as_text", "delimiter", "encoding")}
    where = {name: given.pop(name) for name in ("backend", "threads")}
    corpus = open_corpus(inputs, **read_options, **where)
    found = function(corpus, **where, **opt.given_options(given))
    if as_json:
        say(json.dumps(found.facts(), indent=2))
    return found, corpus


@click.command(short_help="Show pairs of a sample of files by similarity, and recommend shingles and threshold.")
@inputs_argument
@opt.value(
    "--threshold thresholds",
    "J",
    "Similarity around which to show pairs; may be repeated.  [default: 0.5 0.6 0.7 0.8 0.9]",
    type=float,
    multiple=True,
)
@opt.number("--examples", "N", "Show N pairs on each side of a threshold.", default=2)
@sample_option
@opt.method_options("shingle", otherwise="default: chosen for this kind of text")
@opt.method_options("normalize", "seed")
@of_files
@json_option
def sample(inputs: Sequence[str], as_json: bool, thresholds: Sequence[float], **options: Any) -> None:
    """Compare all pairs of a sample of INPUT exactly, and show pairs around some thresholds.

    gpulsh draws similar documents together. It recommends options for `gpulsh dedup`: shingles for this kind of text,
    and a threshold. The threshold is 0.8, unless another one has fewer than half as many documents near it. Look at the
    pairs around a threshold, with their differences marked. Only you can decide whether they are duplicates.
    """
    from gpulsh.studies.sample import sample as sampled

    given = {**options, "thresholds": thresholds or None}
    found, corpus = _run(inputs, as_json, given, sampled)
    if not as_json:
        say_marked("\n".join(_sample_lines(found, corpus)))


def _sample_lines(found: Resemblance, corpus: FileTexts) -> Iterator[str]:
    from gpulsh.report.wording import share

    kind = found.kind
    brief, signs, single = (share(part, 1) for part in (kind.brief, kind.signs, kind.single))
    yield f"{found.drawn} compared, drawn so that similar ones come together."
    if kind.documents:
        yield (
            f"Half of them have {kind.tokens:,} words or more; {brief} have fewer than five. Symbols are"
            f" {signs} of the characters; {single} of the others are in scripts without spaces."
        )
    chosen = f", because {kind.why}" if found.shingling == kind.shingling else ""
    yield f"Shingles: {found.shingling}{chosen}."
    for row in reversed(found.thresholds):
        if row.examples:
            yield f"\naround {row.threshold:g}"
        for pair in row.examples:
            yield from _pair_lines(pair, found, corpus)
    yield ""
    yield from aligned_lines(found.table())
    yield ""
    yield f"Threshold {found.recommended:g}: {found.why}."
    normalize = f" --normalize {found.folding.form}" if found.folding.form else ""
    yield f"recommended: --shingle {found.shingling}{normalize} --threshold {found.recommended:g}"


def _pair_lines(pair: Pair, found: Resemblance, corpus: FileTexts) -> Iterator[str]:
    import numpy as np

    from gpulsh.report.excerpts import differences, excerpts

    files, rows = corpus.locate(np.array(pair.positions))
    sides = differences(excerpts(*pair.texts), found.shingling, found.folding.form)
    for place, (file, row, pieces) in enumerate(zip(files.tolist(), rows.tolist(), sides, strict=True)):
        yield f"{f'  {pair.similarity:.4f}' if place == 0 else '':<8}  {corpus.files[file].name}:{row}"
        yield f"            {mark_differences(pieces, kept=place == 0)}"


@click.command(short_help="Run several methods on a sample of files, and judge them by brute force.")
@inputs_argument
@opt.value(
    "--methods",
    "NAME[,NAME...]",
    "Methods, with the names of dedup's --sketch and others.  [default: minhash:128,fast:128,one-permutation:128,"
    "c-minhash:128,simhash:64]",
)
@opt.value(
    "--verify",
    "HOW[,HOW...]",
    "Ways to verify candidates, one row each: none, signature, exact.",
    default="none,exact",
    show_default=True,
)
@sample_option
@opt.method_options("threshold", "shingle", "normalize", "seed")
@opt.value(
    "--truth",
    "PAIRS",
    "Parquet file of all true pairs: i, j, and jaccard to select by --threshold.  [default: brute force]",
)
@of_files
@json_option
def compare(
    inputs: Sequence[str], as_json: bool, methods: str | None, verify: str, truth: str | None, **options: Any
) -> None:
    """Run METHODS on a sample of INPUT and judge them by brute force.

    True pairs have an exact Jaccard similarity of --threshold or more. For each method and verification, the table
    shows candidate pairs, found pairs, precision, recall and F1, seconds from text to pairs, and bytes per document.
    """
    from gpulsh.studies.compare import METHODS, read_pairs
    from gpulsh.studies.compare import compare as compared

    threshold = DEFAULT_THRESHOLD if options["threshold"] is None else options["threshold"]
    given = {
        **options,
        "methods": METHODS if methods is None else methods.split(","),
        "verify": verify.split(","),
        "truth": None if truth is None else read_pairs(truth, threshold),
    }
    found, _ = _run(inputs, as_json, given, compared)
    if not as_json:
        say("\n".join([f"{found}", "", *aligned_lines(found.table(), left=2)]))


def _requirement(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, float] | None:
    """The two numbers of S:P, or a usage error; `choose_banding` checks their values."""
    if value is None:
        return None
    similarity, _, probability = value.partition(":")
    try:
        return float(similarity), float(probability)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not SIMILARITY:PROBABILITY, such as 0.5:0.99", ctx, param) from None


@click.command(short_help="Show which similarities a banding finds, alone or in your own files.")
@opt.number("--bands", "B", "Number of bands.")
@opt.number("--rows", "R", "Rows of a band.")
@opt.number("--num-perm", "K", "Maximum number of signature values.  [default: 128]")
@opt.value(
    "--capture",
    "S:P",
    "Find pairs of similarity S with probability P or more.  [default with --reject: 0.5:0.99]",
    callback=_requirement,
)
@opt.value(
    "--reject",
    "S:P",
    "Find pairs of similarity S with probability P or less.  [default with --capture: 0.05:0.01]",
    callback=_requirement,
)
@json_option
@opt.value(
    "--study",
    "INPUT",
    "Compare all pairs of a sample of these files, show what bandings find, and recommend one.",
    multiple=True,
)
@sample_option
@opt.method_options("threshold", "shingle", "normalize", "seed")
@opt.number(
    "--recall",
    "P",
    "Minimum probability that the recommended banding finds a pair at the threshold.  [default: 0.995]",
    kind=float,
)
@of_files
@opt.value("--plot", "FILE", f"Draw the curve to a file, .png or .svg ({install_command('report')}).")
@opt.flag("--overwrite", "Replace FILE, if gpulsh drew it.")
@click.pass_context
def curve(
    ctx: click.Context, /, study: tuple[str, ...], as_json: bool, plot: str | None, overwrite: bool, **options: Any
) -> None:
    """Show which similarities a banding finds.

    Two documents become a candidate pair with probability 1 - (1 - s^rows)^bands, where s is their Jaccard similarity.
    The default is the banding of `gpulsh dedup` at --threshold. Give another with --bands and --rows. Or give --capture
    and --reject: gpulsh then chooses the banding with the most rows that meets both.

    With --study, gpulsh recommends the banding with the fewest expected candidates below --threshold in INPUT. Then
    --capture replaces --threshold and --recall.
    """
    if plot is not None:
        from gpulsh.studies.curve import check_plot, plot_curves

        check_plot(plot, overwrite=overwrite)
    elif overwrite:
        raise click.UsageError("--overwrite needs --plot FILE")
    if study:
        from gpulsh.studies.curve import study as studied

        found, _ = _run(study, as_json, options, studied)
        if plot is not None:
            found.plot(plot, overwrite=overwrite)
        if not as_json:
            say("\n".join(_study_lines(found)))
        return
    for name in options.keys() - {"bands", "rows", "num_perm", "capture", "reject", "threshold"}:
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --study INPUT")
    chosen, threshold = _chosen_curve(options)
    if plot is not None:
        plot_curves(plot, [chosen], threshold, overwrite=overwrite)
    figures = _figures(chosen, threshold)
    points = {step / STEPS: float(chosen.probability(step / STEPS)) for step in range(STEPS + 1)}
    if as_json:
        listed = [{"similarity": s, "probability": p} for s, p in points.items()]
        say(json.dumps({**{name: value for name, (value, _) in figures.items()}, "curve": listed}, indent=2))
    else:
        say("\n".join(_curve_lines(figures, points)))


def _chosen_curve(options: Mapping[str, Any]) -> tuple[SCurve, float | None]:
    """The banding that the options ask for, and the threshold that chose it."""
    from gpulsh.theory import SCurve, choose_banding, default_banding

    bands, rows, threshold = options["bands"], options["rows"], options["threshold"]
    capture, reject = options["capture"], options["reject"]
    given, required = bands is not None or rows is not None, capture is not None or reject is not None
    if given + required + (threshold is not None) > 1:
        raise click.UsageError("give --bands and --rows, or --capture and --reject, or --threshold")
    if bands is not None and rows is not None and options["num_perm"] is None:
        return SCurve(bands=bands, rows=rows), None  # of any length
    num_perm = DEFAULT_NUM_PERM if options["num_perm"] is None else options["num_perm"]
    if required:
        return choose_banding(num_perm, capture or DEFAULT_CAPTURE, reject or DEFAULT_REJECT), None
    if not given:
        threshold = DEFAULT_THRESHOLD if threshold is None else threshold
    # With bands or rows given, the threshold decides nothing.
    bands, rows = default_banding(num_perm, 1.0 if given else threshold, bands=bands, rows=rows)
    return SCurve(bands=bands, rows=rows), threshold


def _figures(curve: SCurve, threshold: float | None) -> Mapping[str, tuple[Any, str]]:
    """The figures of the curve, each with its meaning, in the order in which they are printed."""
    low, high = curve.similarity_at(0.05), curve.similarity_at(0.95)
    return {
        "bands": (curve.bands, ""),
        "rows": (curve.rows, ""),
        "num_perm": (curve.bands * curve.rows, "signature values used"),
        "threshold": (threshold, f"probability of finding a pair there: {curve.probability(threshold or 1):.4f}"),
        "steepest": (curve.threshold, "similarity at which the curve is steepest"),
        "approximately": (curve.approximate_threshold, "the same by (1 / bands) ^ (1 / rows)"),
        "slope": (curve.slope, "rise of the probability there"),
        "width": (curve.width, f"probability 0.05 at {low:.4f}, 0.95 at {high:.4f}"),
    }


def _curve_lines(figures: Mapping[str, tuple[Any, str]], points: Mapping[float, float]) -> Iterator[str]:
    for name, (value, meaning) in figures.items():
        if value is not None:
            number = f"{value:.4f}" if isinstance(value, float) else str(value)
            yield f"{name.replace('_', ' '):<22}{number:>8}  {meaning}".rstrip()
    yield ""
    yield "similarity  probability"
    for similarity, probability in points.items():
        yield f"{similarity:>10.2f}  {probability:>11.6f}  {'#' * round(BAR * probability)}".rstrip()


def _study_lines(study: BandingStudy) -> Iterator[str]:
    from gpulsh.checks import plural

    best, spread = study.recommended, study.spread
    yield f"{study.drawn}, all {plural(spread.pairs, 'pair')} compared exactly:"
    sharing = f"{int(spread.counts.sum()):,} share a shingle"
    yield f"{sharing}, and {study.similar:,} have a similarity of {study.threshold:g} or more."
    yield ""
    counts = study.histogram().tolist()
    wide, most = max(len("pairs"), len(f"{max(counts):,}")), log1p(max(counts)) or 1.0
    yield f"similarity   {'pairs':>{wide}}  P(found)  (by the recommended banding; bars are logarithmic)"
    for step, count in enumerate(counts):
        low, high = step / len(counts), (step + 1) / len(counts)
        found = float(best.curve.probability((low + high) / 2))
        bar = "#" * ceil(BAR * log1p(count) / most)
        yield f"{low:.2f} - {high:.2f}  {count:>{wide},}    {found:.4f}  {bar}".rstrip()
    yield ""
    yield from aligned_lines(study.table())
    yield ""
    yield "recall: share of the similar pairs that this banding found; found: its candidate pairs; expected: their mean"
    yield f"number; wasted: expected ones below {study.threshold:g}; corpus: expected ones of all documents."
    yield f"recommended: --num-perm {best.bands * best.rows} --bands {best.bands} --rows {best.rows}"
