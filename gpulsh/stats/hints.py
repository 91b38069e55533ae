"""Hints about parameters that probably give results that the user does not want."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from gpulsh.checks import banding_name, plural
from gpulsh.errors import Advice, ParameterError
from gpulsh.method import Method
from gpulsh.stats.stages import Funnel
from gpulsh.theory import SCurve, default_banding, default_distance, meeting_probability, near_probability

USUAL_PROBABILITY = 0.95  # least usual probability of finding a pair at the threshold
FEW_SHINGLES = 1.5  # shingles per document; with fewer, at least half of the documents have a single one

_log = logging.getLogger("gpulsh")


def give_hints(method: Method, funnel: Funnel) -> list[str]:
    """The hints, each logged as a warning."""
    found = list(hints(method, funnel))
    for hint in found:
        _log.warning(Advice(hint))
    return found


def hints(method: Method, funnel: Funnel) -> Iterator[str]:
    """A line each, with the command's options."""
    if method.measure == "jaccard":
        yield from _sketch_hints(method)
    size, some = method.shingling.size, funnel.documents - funnel.empty
    if size > 1 and 0 < funnel.shingles <= FEW_SHINGLES * some:
        of_words = method.shingling.unit == "word"
        tokens = "words" if of_words else "characters"
        shorter = "word:1 or --shingle char:4" if of_words else f"char:{min(3, size - 1)}"
        yield (
            f"at least half of the documents have at most {size} {tokens}, so they duplicate only documents"
            f" with the same {tokens}; use shorter shingles, such as --shingle {shorter}"
        )
    if funnel.not_utf8:
        documents = plural(funnel.not_utf8, "document")
        stray, are = plural(funnel.stray_bytes, "byte"), "are" if funnel.stray_bytes > 1 else "is"
        yield (
            f"{stray} in {documents} {are} invalid in UTF-8 or the given encoding, and {are} read as U+FFFD; for CSV"
            " and text give --encoding, such as latin-1"
        )


def _sketch_hints(method: Method) -> Iterator[str]:
    threshold, (bands, rows) = method.threshold, (method.banding.bands, method.banding.rows)
    pairs = f"of the pairs of similarity {threshold:g}"
    found = float(SCurve(bands=bands, rows=rows).probability(threshold))
    if method.near is None and found < USUAL_PROBABILITY:
        try:
            usual = default_banding(method.family.num_perm, threshold)
            remedy = f"without bands and rows, gpulsh uses {banding_name(*usual)}"
        except ParameterError:
            remedy = "give a larger --num-perm"
        yield f"{banding_name(bands, rows)} find{'s' * (bands == 1)} only {100 * found:.1f} % {pairs}; {remedy}"
    for option, near, probability in (
        ("--sketch", method.near, meeting_probability),
        ("--and", method.also, near_probability),
    ):
        if near is not None and (found := probability(near, threshold)) < USUAL_PROBABILITY:
            better = default_distance(near, threshold, probability).distance
            yield (
                f"a distance of {near.distance} of {near.bits} bits ({option}) finds only {100 * found:.1f} %"
                f" {pairs}; without a distance, gpulsh uses {better}"
            )
