"""`gpulsh sample`: pairs of the user's own documents by similarity, and what to compare them by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from gpulsh.cli.options import backend_options, form_of, method_options, parsed, sample_option, text_options
from gpulsh.cli.terminal import marks, say, say_marked

if TYPE_CHECKING:  # numpy is loaded only when the command runs
    from gpulsh.backends.select import BackendName
    from gpulsh.io.files.file_texts import FileTexts
    from gpulsh.studies.sample import Pair, Resemblance


@click.command(short_help="Show pairs of a sample of files by similarity, and recommend what to compare.")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--threshold",
    "thresholds",
    type=float,
    multiple=True,
    metavar="J",
    help="Show pairs around this similarity; may be given several times.  [default: 0.5 0.6 0.7 0.8 0.9]",
)
@click.option(
    "--examples", type=int, default=2, show_default=True, metavar="N", help="Pairs to show on either side of each."
)
@sample_option
@method_options("shingle", otherwise="chosen by what the texts are like where not given")
@method_options("normalize", "seed")
@text_options()
@backend_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def sample(
    inputs: Sequence[str],
    thresholds: Sequence[float],
    text_column: str,
    backend: BackendName,
    threads: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare all pairs of a sample of INPUT exactly, and show those around some thresholds.

    Documents are drawn so that similar ones come together. What is recommended goes to `gpulsh dedup` as it stands: the
    shingles that suit texts of this kind, and 0.8 for the threshold, or one with less than half as many documents near.
    Whether pairs around a threshold are duplicates to you only you can see: they are shown, their differences marked.
    """
    from gpulsh.studies.corpus import open_corpus
    from gpulsh.studies.sample import sample as sampled

    form = form_of(options)
    given = parsed(options) | ({"thresholds": thresholds} if thresholds else {})
    corpus = open_corpus(inputs, text_column=text_column, backend=backend, threads=threads, **form)
    found = sampled(corpus, backend=backend, threads=threads, **given)
    if as_json:
        say(json.dumps(found.facts(), indent=2))
        return
    say_marked("\n".join(_told(found, corpus)))


def _told(found: Resemblance, corpus: FileTexts) -> Iterator[str]:
    kind = found.kind
    yield f"{found.sample:,} of {found.documents:,} documents were compared, drawn so that similar ones come together."
    yield (
        f"Half of them have {kind.tokens:,} words or more, {kind.brief:.0%} have fewer than five; of what is written"
        f" {kind.signs:.0%} are signs, {kind.single:.0%} of the rest is of scripts without spaces."
    )
    chosen = f": {kind.why}" if found.shingling == kind.shingling else ""
    yield f"Compared are shingles {found.shingling}{chosen}."
    for row in reversed(found.thresholds):
        if row.examples:
            yield f"\naround {row.threshold:g}"
        for pair in row.examples:
            yield from _shown(pair, found, corpus)
    yield ""
    yield "threshold  pairs at or above it  documents of all with another one, about  just so, within 0.05"
    for row in found.thresholds:
        mark = "  recommended" if row.threshold == found.recommended else ""
        yield f"{row.threshold:>9g}  {row.pairs:>20,}  {row.resembling:>39,.0f}  {row.near:>20,.0f}{mark}"
    yield ""
    yield f"Threshold {found.recommended:g}: {found.why}."
    normalize = f" --normalize {found.folding.form}" if found.folding.form else ""
    yield f"recommended: --shingle {found.shingling}{normalize} --threshold {found.recommended:g}"


def _shown(pair: Pair, found: Resemblance, corpus: FileTexts) -> Iterator[str]:
    import numpy as np

    from gpulsh.report.excerpts import differences, excerpts

    files, rows = corpus.locate(np.array(pair.positions))
    sides = differences(excerpts(*pair.texts), found.shingling, found.folding.form)
    for place, (file, row, pieces) in enumerate(zip(files.tolist(), rows.tolist(), sides, strict=True)):
        yield f"{f'  {pair.similarity:.4f}' if place == 0 else '':<8}  {corpus.files[file].name}:{row}"
        yield f"            {marks(pieces, kept=place == 0)}"
