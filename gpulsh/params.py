"""The parameters that decide the bits: frozen, keyword-only, written into every file by `to_json()` and `digest()`."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import wraps
from inspect import signature
from math import comb
from operator import index
from types import NoneType
from typing import Any, ClassVar, Literal, NamedTuple, ParamSpec, Protocol, TypeGuard, TypeVar, get_args

from gpulsh.errors import ParameterError, UnknownParameterError, nearest
from gpulsh.words import Stems, stems, stop_words

SHOWN = 80  # characters of a value that a message repeats
MAX_NUM_PERM = 65536  # the longest signature
MAX_SEED = 2**64 - 1
MOST_TABLES = 1024  # of a Hamming search
FLAGS = ("symbols", "labels")  # of a shingling that the command line can set
ITEM_TOKENS = 3  # of an item that begins with a stop word
SCHEME = 1  # version of the definition of all bits; CHANGELOG.md tells what each changed

# What other libraries call parameters whose names here are not like these.
ELSEWHERE = {"num_hashes": "num_perm", "num_permutations": "num_perm", "ngram": "shingling", "ngram_size": "shingling"}

Given = ParamSpec("Given")
Result = TypeVar("Result")
Unit = Literal["word", "char"]
Hash = Literal["mix64", "rabin", "karp_rabin"]
NormalForm = Literal["NFC", "NFKC"]
MinHashFamily = Literal["affine32", "affine61", "multiply_shift", "xor", "tabulation"]
FamilyName = Literal[MinHashFamily, "one_permutation", "fast_similarity", "c_minhash"]
SKETCHES: dict[str, str] = {  # and the file of each backend that makes it
    "affine32": "minhash",
    "affine61": "affine61",
    "multiply_shift": "multiply_shift",
    "xor": "xor_masks",
    "tabulation": "tabulation",
    "one_permutation": "one_permutation",
    "fast_similarity": "fast_similarity",
    "c_minhash": "c_minhash",
}
ForeignName = Literal["affine64", "wrapped61", "wrapped61_low", "wrapped32", "wrapped16", "splitmix_rounds"]
FOREIGN: dict[str, str] = {  # the same of sketches that other libraries make
    "affine64": "affine64",
    "wrapped61": "wrapped",
    "wrapped61_low": "wrapped",
    "wrapped32": "wrapped",
    "wrapped16": "wrapped",
    "splitmix_rounds": "splitmix_rounds",
}
_FILES: Mapping[str, str] = ChainMap(SKETCHES, FOREIGN)


class Wrap(NamedTuple):
    """How a word overflows before it is divided."""

    bits: int  # of the word
    modulus: int


WRAPPED = {
    "wrapped61": Wrap(64, 2**61 - 1),
    "wrapped61_low": Wrap(64, 2**61 - 1),
    "wrapped32": Wrap(32, 2**32 - 5),
    "wrapped16": Wrap(16, 2**16 - 15),
}
_WIDE = ("affine61", "affine64", "wrapped61", "splitmix_rounds")  # their values have 64 bits


def shown(value: object) -> str:
    """What a message says of a value: itself where that is one short line, otherwise its type."""
    told = repr(value)
    return told if len(told) <= SHOWN and "\n" not in told else f"of type {type(value).__name__}"


def refuse_unknown(call: str, given: Iterable[str], known: Collection[str]) -> None:
    """UnknownParameterError at a keyword that is not among the `known` ones, with the one that was probably meant."""
    for name in given:
        if name not in known:
            meant = ELSEWHERE.get(name, nearest(name, known))
            shown_names = f"its parameters are {', '.join(known)}" if meant not in known else f"did you mean {meant}?"
            raise UnknownParameterError(f"{call} has no parameter {name!r}; {shown_names}")


def known_keywords(call: Callable[Given, Result]) -> Callable[Given, Result]:
    """A public function that answers unknown keywords as `refuse_unknown` does."""
    known = [name for name in signature(call).parameters if name not in ("self", "cls")]
    told = call.__qualname__.removesuffix(".__init__")

    @wraps(call)
    def checked(*args: Given.args, **keywords: Given.kwargs) -> Result:
        refuse_unknown(told, keywords, known)
        return call(*args, **keywords)

    return checked


def check_integer(name: str, value: object, low: int, high: int) -> int:
    """`value` as an int within [low, high], or a ParameterError that names the parameter."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ParameterError(f"{name} is {shown(value)}; give an integer from {low} to {high}")
    if not low <= number <= high:
        raise ParameterError(f"{name} is {number}; give an integer from {low} to {high}")
    return number


def set_integer(owner: object, name: str, low: int, high: int) -> None:
    """Make the field `name` of a frozen object an int within [low, high], or raise what `check_integer` does."""
    object.__setattr__(owner, name, check_integer(name, getattr(owner, name), low, high))


def set_multiple(owner: object, name: str, unit: int, most: int) -> None:
    """Make the field `name` of a frozen object a multiple of `unit` up to `most`, or raise a ParameterError."""
    value = getattr(owner, name)
    try:
        number = check_integer(name, value, unit, most)
    except ParameterError:
        number = 1
    if number % unit:
        raise ParameterError(f"{name} is {shown(value)}; give a multiple of {unit} from {unit} to {most}")
    object.__setattr__(owner, name, number)


def check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """A ParameterError unless `value` is one of `allowed`."""
    if not isinstance(value, (str, int, NoneType)) or value not in allowed:  # an array compares value by value
        raise ParameterError(f"{name} is {shown(value)}; give one of {', '.join(map(repr, allowed))}")


def check_type(name: str, value: object, *allowed: type) -> None:
    """A ParameterError unless `value` is an instance of one of `allowed`."""
    if not isinstance(value, allowed):
        told = repr(value) if isinstance(value, (str, int, float, type(None))) else f"of type {type(value).__name__}"
        raise ParameterError(f"{name} is {told}; give an object of {' or '.join(kind.__name__ for kind in allowed)}")


def checked_folder(name: str, path: object) -> str:
    """The path of a folder as a str, or a ParameterError that names the parameter."""
    if not is_path(path) or path == "":
        raise ParameterError(f"{name} is {shown_type(path)}; give the path of a folder")
    told = os.fspath(path)
    try:
        named = os.fsencode(told)
    except UnicodeEncodeError:
        named = b"\0"
    if b"\0" in named:
        raise ParameterError(f"{name} is {shown(told)}, which no file can have as its name; give the path of a folder")
    return told


def is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether it is a path of characters; one of bytes is none."""
    return isinstance(value, (str, os.PathLike)) and isinstance(os.fspath(value), str)


def shown_type(value: object) -> str:
    """What a message says of a value that is no path."""
    if value is None:
        return "None"
    return "empty" if isinstance(value, str) and not value else f"of type {type(value).__name__}"


class Reading(NamedTuple):
    """How code points are read: which are tokens, and whether those that fold are."""

    symbols: bool = False
    case: bool = True

    @property
    def plain(self) -> bool:
        """Whether of ASCII letters and digits alone belong to tokens, and fold: what has ways of its own."""
        return self == PLAIN


PLAIN = Reading()


LATER = {"later": True}  # metadata of a field that came after files were written: at its default it is told nowhere


class Parameters:
    """What all parameter objects share: one canonical JSON form and its digest."""

    kind: ClassVar[str]  # in the digest; the class's name, unless that was another when the scheme began

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = vars(cls).get("kind", cls.__name__)

    def to_json(self) -> str:
        """Canonical JSON of the fields: sorted names, no spaces."""
        return json.dumps(self.facts(), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """SHA-256 of the kind, the scheme and `to_json()`, in hexadecimal."""
        text = f"{self.kind}:{SCHEME}:{self.to_json()}"
        return hashlib.sha256(text.encode()).hexdigest()

    def facts(self) -> dict[str, Any]:
        """The fields as JSON values, by name."""
        told = ((own.name, getattr(self, own.name)) for own in self._told())
        return {name: _fact(value) for name, value in told}

    def __repr__(self) -> str:
        told = (f"{own.name}={getattr(self, own.name)!r}" for own in self._told())
        return f"{type(self).__name__}({', '.join(told)})"

    def _told(self) -> list[Field[Any]]:
        own = fields(self)  # type: ignore[arg-type]
        return [one for one in own if "later" not in one.metadata or getattr(self, one.name) != one.default]


def _fact(value: object) -> object:
    if isinstance(value, Parameters):
        return value.facts()
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True, repr=False)
class Folding(Parameters):
    """What is done to code points before tokens are cut.

    Simple case folding by the shipped Unicode table, unless `case` is False; before it, when `form` says so, "NFC" or
    "NFKC", Unicode normalization. Raises ParameterError for other forms.

    >>> Folding(form="NFKC").to_json()
    '{"form":"NFKC"}'
    """

    form: NormalForm | None = None
    case: bool = field(default=True, metadata=LATER)

    def __post_init__(self) -> None:
        check_choice("form", self.form, (None, *get_args(NormalForm)))
        check_type("case", self.case, bool)


@dataclass(frozen=True, kw_only=True, repr=False)
class Shingling(Parameters):
    """`size` consecutive tokens make a shingle; a token is a word or a folded code point.

    With `symbols` each code point of general category P or S is a token of its own, as a character is: "C++", "C#" and
    "C" differ, and "!!!" has three tokens. With `labels` every occurrence of a shingle counts (option A of Broder 1997,
    *On the resemblance and containment of documents*): the second and the third of a document are members of their own.

    `stop` leaves words out before shingles are cut: those of a list, or of a language's stop list, named by its code
    or, as "stopwords", by `language`. `stem` puts a Snowball stem for each word: "snowball" takes the algorithm of
    `language`, and any other name or code is one. With `anchor="stopwords"` a shingle is made of items, each a stop
    word and the two words behind it (Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.2), and `size` counts
    these; `stop` then names the stop words, which stay. Lists and stems need `pip install "gpulsh[text]"`.

    `hash`, "mix64", "rabin" or "karp_rabin", chooses how token hashes become a fingerprint; `gpulsh.backends.protocol`
    defines each. Rabin's bound on collisions holds for a polynomial drawn at random; ours is fixed. Raises
    ParameterError for a `unit` that is neither "word" nor "char", a `size` outside 1 to 64, and whatever else is not
    allowed.

    >>> Shingling(unit="char", size=9)
    Shingling(unit='char', size=9)
    """

    folds: ClassVar[bool] = True  # of the case; see `under`

    unit: Unit = "word"
    size: int = 5
    symbols: bool = field(default=False, metadata=LATER)
    labels: bool = field(default=False, metadata=LATER)
    anchor: Literal["stopwords"] | None = field(default=None, metadata=LATER)
    language: str = field(default="en", metadata=LATER)
    stop: str | Sequence[str] | None = field(default=None, metadata=LATER)
    stem: str | None = field(default=None, metadata=LATER)
    hash: Hash = field(default="mix64", metadata=LATER)

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, get_args(Unit))
        set_integer(self, "size", 1, 64)
        check_type("symbols", self.symbols, bool)
        check_type("labels", self.labels, bool)
        check_choice("hash", self.hash, get_args(Hash))
        check_choice("anchor", self.anchor, (None, "stopwords"))
        check_type("language", self.language, str)
        check_type("stem", self.stem, str, NoneType)
        self._check_words()

    def _check_words(self) -> None:
        if self.stop is not None and not isinstance(self.stop, str):
            several = isinstance(self.stop, Iterable) and getattr(self.stop, "shape", None) != ()
            words = (*self.stop,) if several else (self.stop,)
            for word in words:
                check_type("a word of stop", word, str)
            object.__setattr__(self, "stop", tuple(sorted(set(words))))
        if self.by_words and self.unit == "char":
            raise ParameterError("unit is 'char', and anchor, stop and stem are of words; give unit='word' for them")
        named = self.stem == "snowball" or self.stop == "stopwords" or (self.anchor and self.stop is None)
        if self.language != "en" and not named:
            raise ParameterError(
                f"language is {self.language!r}, which nothing asks for; give anchor='stopwords', stop='stopwords' or"
                " stem='snowball' with it"
            )
        if self.by_words:
            _ = self.stop_words, self.stems  # or an error, before there is work to lose

    @classmethod
    def parse(cls, text: str) -> Shingling:
        """The command line's form. Raises ParameterError for any other.

        >>> Shingling.parse("word:5+symbols")
        Shingling(unit='word', size=5, symbols=True)
        """
        check_type("shingling", text, str)
        found = re.fullmatch(rf"({'|'.join(get_args(Unit))}):([0-9]{{1,2}})((?:\+(?:{'|'.join(FLAGS)}))*)", text)
        flags = found[3].split("+")[1:] if found else []
        if not found or not 1 <= int(found[2]) <= 64 or len(set(flags)) < len(flags):
            raise ParameterError(
                f"--shingle is {text!r}; give word:SIZE or char:SIZE with SIZE from 1 to 64, as word:5, and behind it"
                f" what else is wanted of {', '.join('+' + flag for flag in FLAGS)}, as word:5+{FLAGS[0]}"
            )
        return cls(unit=found[1], size=int(found[2]), **dict.fromkeys(flags, True))  # type: ignore[arg-type]

    def __str__(self) -> str:
        """What `parse` takes."""
        return "+".join([f"{self.unit}:{self.size}", *(flag for flag in FLAGS if getattr(self, flag))])

    def under(self, folding: Folding) -> Shingling:
        """How backends read texts: this, and of the folding whether case is folded, which is done with the tokens."""
        if folding.case:
            return self
        return _Unfolded(**{own.name: getattr(self, own.name) for own in fields(self)})

    @property
    def by_words(self) -> bool:
        """Whether it depends on what the words are."""
        return self.anchor is not None or self.stop is not None or self.stem is not None

    @property
    def stop_words(self) -> frozenset[str]:
        """Those that are left out or, with `anchor`, begin an item."""
        if isinstance(self.stop, str):
            return stop_words(self.language if self.stop == "stopwords" else self.stop)
        if self.stop is not None:
            return frozenset(self.stop)
        return stop_words(self.language) if self.anchor else frozenset()

    @property
    def stems(self) -> Stems | None:
        """What words are replaced by, if anything."""
        return stems(self.language if self.stem == "snowball" else self.stem) if self.stem is not None else None

    @property
    def in_one_pass(self) -> bool:
        """Whether the backends have passes of their own from text to what is asked for; see `backends.composed`."""
        return not self.labels and not self.by_words and self.hash == "mix64"

    @property
    def reading(self) -> Reading:
        """How code points are read."""
        return Reading(self.symbols, self.folds)


class _Unfolded(Shingling):
    folds = False


def checked_text_parameters(shingling: Shingling | str | None, folding: Folding | None) -> tuple[Shingling, Folding]:
    """Both, the defaults where they are None, or a ParameterError where one is something else.

    A str is a shingling as the command line takes it, as "word:5".
    """
    shingling = Shingling() if shingling is None else shingling
    shingling = Shingling.parse(shingling) if isinstance(shingling, str) else shingling
    folding = Folding() if folding is None else folding
    check_type("shingling", shingling, Shingling)
    check_type("folding", folding, Folding)
    return shingling, folding


def normalizing(folding: Folding | None, normalize: NormalForm | None) -> Folding | None:
    """The folding with that form, or as it is without one; a ParameterError where it has another form."""
    if normalize is None:
        return folding
    check_choice("normalize", normalize, get_args(NormalForm))
    folding = Folding() if folding is None else folding
    check_type("folding", folding, Folding)
    if folding.form not in (None, normalize):
        raise ParameterError(f"normalize is {normalize!r} and the folding's form {folding.form!r}; give one of them")
    return replace(folding, form=normalize)


def text_reading(shingling: Shingling | str | None, folding: Folding | None) -> tuple[Shingling, Folding]:
    """The same, the shingling as backends are given it."""
    shingling, folding = checked_text_parameters(shingling, folding)
    return shingling.under(folding), folding


@dataclass(frozen=True, kw_only=True)
class Family(Parameters):
    """How signatures of `num_perm` values are made, with what `permutations` draws from `seed`.

    `gpulsh.backends.protocol.SketchFold` defines each by its name.
    """

    name: FamilyName | ForeignName = "affine32"
    num_perm: int = 128
    seed: int = 1

    def __post_init__(self) -> None:
        check_choice("family", self.name, tuple(_FILES))
        set_integer(self, "num_perm", 1, MAX_NUM_PERM)
        set_integer(self, "seed", 0, MAX_SEED)

    @property
    def sketch(self) -> str:
        """The name of the file in each backend's `sketches` that makes it."""
        return _FILES[self.name]

    @property
    def wrap(self) -> Wrap:
        """How the words of a family of `wrapped` overflow."""
        return WRAPPED[self.name]

    @property
    def value_type(self) -> Literal["uint32", "uint64"]:
        """The dtype of its signatures, in which all ones mean *no value*."""
        return "uint64" if self.name in _WIDE else "uint32"


@dataclass(frozen=True, kw_only=True, repr=False)
class GivenFamily(Family):
    """A family whose words are given in place of drawn: two for each value, below 2^64, as another library draws them.

    They are multiplier and addend of each function or, of `splitmix_rounds`, the seed of each round and of each bin.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class NearBits(Parameters):
    """Documents whose SimHash signatures of `bits` bits differ in at most `distance`."""

    bits: int
    weights: Literal["set", "count"]
    seed: int
    distance: int

    def __post_init__(self) -> None:
        most = min(self.bits, MOST_TABLES) - 1
        set_integer(self, "distance", 0, most)

    @property
    def agree(self) -> int:
        """How many blocks of bits make the key of a table: two where that takes not too many tables, else one."""
        return 2 if comb(self.distance + 2, 2) <= MOST_TABLES else 1

    @property
    def blocks(self) -> int:
        """How many blocks the bits are cut into: `distance` of them may differ."""
        return self.distance + self.agree

    @property
    def tables(self) -> int:
        """How many tables a search takes, one for every choice of blocks that agree."""
        return comb(self.blocks, self.agree)


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
        set_integer(self, "bands", 1, MAX_NUM_PERM)
        set_integer(self, "rows", 1, MAX_NUM_PERM)
