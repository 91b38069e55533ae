"""Sketches by name, as the command and the functions take them: NAME or NAME:NUM_PERM."""

from __future__ import annotations

from gpulsh.errors import ParameterError
from gpulsh.params import MAX_NUM_PERM, BitSketch, Family, Sketch
from gpulsh.sketch.base import SetSketch
from gpulsh.sketch.bits import MAX_BITS, WORD_BITS
from gpulsh.sketch.minhash import CMinHash, FastSimilarity, MinHash, OnePermutation
from gpulsh.sketch.simhash import SimHash

SETS: dict[str, type[SetSketch]] = {  # sketches of sets; the families of MinHash are one
    "minhash": MinHash,
    "c-minhash": CMinHash,
    "fast": FastSimilarity,
    "one-permutation": OnePermutation,
}


def sketches_by_name(
    sketch: Sketch | BitSketch | str | None,
    also: BitSketch | str | None = None,
    num_perm: int | None = None,
    seed: int | None = None,
    distance: int | None = None,
) -> tuple[Sketch | BitSketch | None, BitSketch | None]:
    """`sketch` and `also`; sketches given by name are made, with `num_perm` and `seed`.

    >>> sketches_by_name("simhash:64:3", "simhash:128")
    (NearBits(bits=64, weights='set', seed=1, distance=3), SimHash(bits=128, seed=1, weights='set'))
    """
    for name, given in (("sketch", sketch), ("also", also)):
        if isinstance(given, type):
            raise ParameterError(f"{name} is the class {given.__name__}; give an object, such as gpulsh.SimHash()")
    if isinstance(also, str):
        also = _simhash_by_name("--and", also, seed, distance)
    if not isinstance(sketch, str):
        return sketch, also
    if sketch.split(":")[0] == "simhash":
        return _simhash_by_name("sketch", sketch, seed, distance), also
    left_open = ":" in sketch and num_perm == Family().num_perm  # the default, so probably not given
    return parse_sketch(sketch, None if left_open else num_perm, seed), also


def _simhash_by_name(name: str, text: str, seed: int | None, distance: int | None) -> BitSketch:
    sketch, own = parse_bits(text, seed, name)
    if own is None:
        return sketch
    if distance not in (None, own):
        raise ParameterError(f"{name} is {text!r} and distance is {distance}; give one distance")
    return sketch.near(own)


def is_count(text: str) -> bool:
    """Whether a text is a number of at most eight digits."""
    return text.isascii() and text.isdigit() and len(text) < 9


def parse_bits(text: str, seed: int | None = None, parameter: str = "method") -> tuple[SimHash, int | None]:
    """The SimHash that `text`, the value of `parameter`, names, and the distance; None if the threshold chooses it.

    A single number below 64 is a distance; a larger one is a number of bits.

    >>> parse_bits("simhash:64:3")
    (SimHash(bits=64, seed=1, weights='set'), 3)
    >>> [parse_bits(text)[1] for text in ("simhash", "simhash:128", "simhash:16")]
    [None, None, 16]
    """
    name, *numbers = text.split(":")
    if name != "simhash" or len(numbers) > 2 or not all(map(is_count, numbers)):
        raise ParameterError(f"{parameter} is {text!r}; give simhash[:BITS][:DISTANCE], such as simhash:64:16")
    given = [int(number) for number in numbers]
    bits = given.pop(0) if len(given) == 2 or (given and given[0] >= WORD_BITS) else WORD_BITS
    distance = given[0] if given else None
    if bits % WORD_BITS or not 1 <= bits <= MAX_BITS:
        raise ParameterError(f"{parameter} is {text!r}; give a multiple of {WORD_BITS} bits, at most {MAX_BITS}")
    if distance is not None and distance >= bits:
        raise ParameterError(f"{parameter} is {text!r}; give a distance from 0 to {bits - 1}")
    return SimHash(bits=bits, seed=1 if seed is None else seed), distance


def parse_sketch(
    text: str, num_perm: int | None = None, seed: int | None = None, parameter: str = "sketch"
) -> SetSketch:
    """The sketch that `text`, the value of `parameter`, names; `num_perm` is used where the text gives none.

    >>> parse_sketch("one-permutation:256")
    OnePermutation(num_perm=256, seed=1)
    """
    name, colon, size = text.partition(":")
    kind = SETS.get(name.replace("_", "-"))
    if kind is None or (colon and not is_count(size)):
        names = ", ".join(sorted(SETS))
        raise ParameterError(
            f"{parameter} is {text!r}; give one of {names}, or one with its number of values, such as minhash:128,"
            " or simhash[:BITS][:DISTANCE]"
        )
    if colon and not 1 <= int(size) <= MAX_NUM_PERM:
        raise ParameterError(f"{parameter} is {text!r}; give 1 to {MAX_NUM_PERM} values, such as {name}:128")
    if colon and num_perm is not None and num_perm != int(size):
        raise ParameterError(f"sketch is {text!r} and num_perm is {num_perm}; give the number of values once")
    given = {"num_perm": int(size) if colon else num_perm, "seed": seed}
    return kind(**{name: value for name, value in given.items() if value is not None})
