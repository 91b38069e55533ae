"""Hints about parameters that probably give results that the user does not want."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from gpulsh.errors import Advice, ParameterError
from gpulsh.method import Method
from gpulsh.params import NearBits
from gpulsh.stats.stages import Funnel
from gpulsh.theory import SCurve, default_banding, default_distance, meeting_probability, near_probability

FOUND = 0.95  # probability of finding a pair at the threshold, below which a banding or a distance misses much
BRIEF = 1.5  # shingles a document, below which at least half of the documents have a single one

_log = logging.getLogger("gpulsh")


def hints(method: Method, funnel: Funnel) -> list[str]:
    """A line each, with the command's options."""
    return [*_of_banding(method), *_of_bits(method), *_of_brevity(method, funnel), *_of_encoding(funnel)]


def give_hints(method: Method, funnel: Funnel) -> list[str]:
    """The same, and each is logged as a warning."""
    found = hints(method, funnel)
    for hint in found:
        _log.warning(Advice(hint))
    return found


def _of_banding(method: Method) -> Iterator[str]:
    if method.near is not None or method.measure != "jaccard":
        return
    bands, rows, threshold = method.banding.bands, method.banding.rows, method.threshold
    found = float(SCurve(bands=bands, rows=rows).probability(threshold))
    if found < FOUND:
        yield (
            f"{bands} bands of {rows} rows find only {found:.0%} of the pairs of similarity {threshold:g};"
            f" {_remedy(method)}"
        )


def _remedy(method: Method) -> str:
    try:
        bands, rows = default_banding(method.family.num_perm, method.threshold)
    except ParameterError:
        return "give a larger --num-perm"
    return f"without bands and rows given, {bands} of {rows} are taken"


def _of_bits(method: Method) -> Iterator[str]:
    if method.measure != "jaccard":
        return
    for option, near, probability in (
        ("--sketch", method.near, meeting_probability),
        ("--and", method.also, near_probability),
    ):
        if near is not None:
            yield from _of_distance(option, near, method.threshold, probability)


def _of_distance(
    option: str, near: NearBits, threshold: float, probability: Callable[[NearBits, float], float]
) -> Iterator[str]:
    found = probability(near, threshold)
    if found < FOUND:
        better = default_distance(near, threshold, probability).distance
        yield (
            f"a distance of {near.distance} of {near.bits} bits ({option}) finds only {_percent(found)} of the pairs of"
            f" similarity {threshold:g}; without a distance, {better} are taken"
        )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.1%}"


def _of_brevity(method: Method, funnel: Funnel) -> Iterator[str]:
    size, unit = method.shingling.size, method.shingling.unit
    some = funnel.documents - funnel.empty
    if size > 1 and some and funnel.shingles <= BRIEF * some:
        tokens = "words" if unit == "word" else "characters"
        shorter = "--shingle word:1 or --shingle char:4" if unit == "word" else "--shingle char:3"
        yield (
            f"at least half of the documents have no more than {size} {tokens}, a single shingle: they duplicate only"
            f" what has the same {tokens} in the same order; take shorter shingles, as {shorter}, which `gpulsh sample`"
            " helps to choose"
        )


def _of_encoding(funnel: Funnel) -> Iterator[str]:
    if funnel.not_utf8:
        documents = f"{funnel.not_utf8:,} document{'s' if funnel.not_utf8 > 1 else ''}"
        yield (
            f"{funnel.stray_bytes:,} bytes in {documents} are not UTF-8, or not of the given encoding, and are read as"
            " U+FFFD; for CSV and text give --encoding, as latin-1"
        )
