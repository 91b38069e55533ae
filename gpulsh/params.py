"""The parameters that decide the bits: frozen, keyword-only, written into every file by `to_json()` and `digest()`."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from math import comb
from typing import Any, ClassVar, Literal, Protocol, get_args

from gpulsh.errors import ParameterError

MAX_NUM_PERM = 65536  # the longest signature
MOST_TABLES = 1024  # of a Hamming search
SCHEME = 1  # version of the definition of all bits; CHANGELOG.md tells what each changed

Unit = Literal["word", "char"]
NormalForm = Literal["NFC", "NFKC"]
MinHashFamily = Literal["affine32", "affine61", "multiply_shift", "xor", "tabulation"]
FamilyName = Literal[MinHashFamily, "one_permutation", "fast_similarity", "c_minhash"]
SKETCHES: dict[FamilyName, str] = {  # and the file of each backend that makes it
    "affine32": "minhash",
    "affine61": "affine61",
    "multiply_shift": "multiply_shift",
    "xor": "xor_masks",
    "tabulation": "tabulation",
    "one_permutation": "one_permutation",
    "fast_similarity": "fast_similarity",
    "c_minhash": "c_minhash",
}


def check_integer(name: str, value: object, low: int, high: int) -> int:
    """`value` as an int within [low, high], or a ParameterError that names the parameter."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ParameterError(f"{name} is {value!r}; give an integer from {low} to {high}")
    number = int(value.__index__())
    if not low <= number <= high:
        raise ParameterError(f"{name} is {number}; give an integer from {low} to {high}")
    return number


def check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """A ParameterError unless `value` is one of `allowed`."""
    if value not in allowed:
        raise ParameterError(f"{name} is {value!r}; give one of {', '.join(map(repr, allowed))}")


def check_type(name: str, value: object, *allowed: type) -> None:
    """A ParameterError unless `value` is an instance of one of `allowed`."""
    if not isinstance(value, allowed):
        shown = repr(value) if isinstance(value, (str, int, float, type(None))) else f"of type {type(value).__name__}"
        raise ParameterError(f"{name} is {shown}; give an object of {' or '.join(kind.__name__ for kind in allowed)}")


class Parameters:
    """What all parameter objects share: one canonical JSON form and its digest."""

    kind: ClassVar[str]  # in the digest; the class's name, unless that was another when the scheme began

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = vars(cls).get("kind", cls.__name__)

    def to_json(self) -> str:
        """Canonical JSON of the fields: sorted names, no spaces."""
        return json.dumps(self.fields(), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """SHA-256 of the kind, the scheme and `to_json()`, in hexadecimal."""
        text = f"{self.kind}:{SCHEME}:{self.to_json()}"
        return hashlib.sha256(text.encode()).hexdigest()

    def fields(self) -> dict[str, Any]:
        """What `to_json()` tells."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True, kw_only=True)
class Folding(Parameters):
    """What is done to code points before tokens are cut.

    Simple case folding by the shipped Unicode table always; before it, when `form` says so, Unicode normalization.

    >>> Folding(form="NFKC").to_json()
    '{"form":"NFKC"}'
    """

    form: NormalForm | None = None

    def __post_init__(self) -> None:
        check_choice("form", self.form, (None, *get_args(NormalForm)))


@dataclass(frozen=True, kw_only=True)
class Shingling(Parameters):
    """`size` consecutive tokens make a shingle; a token is a word or a folded code point.

    >>> Shingling(unit="char", size=9)
    Shingling(unit='char', size=9)
    """

    unit: Unit = "word"
    size: int = 5

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, get_args(Unit))
        object.__setattr__(self, "size", check_integer("size", self.size, 1, 64))

    @classmethod
    def parse(cls, text: str) -> Shingling:
        """The command line's form.

        >>> Shingling.parse("word:5")
        Shingling(unit='word', size=5)
        """
        found = re.fullmatch(rf"({'|'.join(get_args(Unit))}):([0-9]{{1,2}})", text)
        if not found or not 1 <= int(found[2]) <= 64:
            raise ParameterError(f"shingle is {text!r}; give word:SIZE or char:SIZE with SIZE from 1 to 64, as word:5")
        return cls(unit=found[1], size=int(found[2]))  # type: ignore[arg-type]


def checked_text_parameters(shingling: Shingling | None, folding: Folding | None) -> tuple[Shingling, Folding]:
    """Both, the defaults where they are None, or a ParameterError where one is something else."""
    shingling = Shingling() if shingling is None else shingling
    folding = Folding() if folding is None else folding
    check_type("shingling", shingling, Shingling)
    check_type("folding", folding, Folding)
    return shingling, folding


@dataclass(frozen=True, kw_only=True)
class Family(Parameters):
    """How signatures of `num_perm` values are made, with what `permutations` draws from `seed`.

    `gpulsh.backends.protocol.SketchFold` defines each by its name.
    """

    name: FamilyName = "affine32"
    num_perm: int = 128
    seed: int = 1

    def __post_init__(self) -> None:
        check_choice("family", self.name, tuple(SKETCHES))
        object.__setattr__(self, "num_perm", check_integer("num_perm", self.num_perm, 1, MAX_NUM_PERM))
        object.__setattr__(self, "seed", check_integer("seed", self.seed, 0, 2**64 - 1))

    @property
    def sketch(self) -> str:
        """The name of the file in each backend's `sketches` that makes it."""
        return SKETCHES[self.name]

    @property
    def value_type(self) -> Literal["uint32", "uint64"]:
        """The dtype of its signatures, in which all ones mean *no value*."""
        return "uint64" if self.name == "affine61" else "uint32"


@dataclass(frozen=True, kw_only=True)
class NearBits(Parameters):
    """Documents whose SimHash signatures of `bits` bits differ in at most `distance`."""

    bits: int
    weights: Literal["set", "count"]
    seed: int
    distance: int

    def __post_init__(self) -> None:
        most = min(self.bits, MOST_TABLES) - 1
        object.__setattr__(self, "distance", check_integer("distance", self.distance, 0, most))

    @property
    def tables(self) -> int:
        """How many tables a search takes: those of `distance` + 2 blocks where they are not too many, else of + 1."""
        pairs = comb(self.distance + 2, 2)
        return pairs if pairs <= MOST_TABLES else self.distance + 1


class BitSketch(Protocol):
    """A sketch of bits, as its user chooses it."""

    def near(self, distance: int) -> NearBits:
        """Documents whose bits differ in at most `distance`."""
        ...


class Sketch(Protocol):
    """A sketch of sets, as its user chooses it."""

    @property
    def functions(self) -> Family:
        """What the backends make signatures by."""


def chosen_family(sketch: object, num_perm: int, seed: int) -> Family:
    """That of `sketch`, where it is given; `num_perm` and `seed` then are its own, or the defaults."""
    if sketch is None:
        return Family(num_perm=num_perm, seed=seed)
    family = getattr(sketch, "functions", None)
    if not isinstance(family, Family):
        raise ParameterError(
            f"sketch is of type {type(sketch).__name__}; give a sketch of sets, as gpulsh.MinHash(num_perm=128)"
        )
    for name, value in (("num_perm", num_perm), ("seed", seed)):
        own = getattr(family, name)
        if value not in (getattr(Family(), name), own):
            raise ParameterError(f"{name} is {value!r} and the sketch has {own}; give {name} to the sketch alone")
    return family


@dataclass(frozen=True, kw_only=True)
class BandShape(Parameters):
    """`bands` bands of `rows` signature values each; two documents meet where one band agrees in all its rows."""

    bands: int
    rows: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bands", check_integer("bands", self.bands, 1, MAX_NUM_PERM))
        object.__setattr__(self, "rows", check_integer("rows", self.rows, 1, MAX_NUM_PERM))
