"""The parameters that decide the bits: frozen, keyword-only, written into every file by `to_json()` and `digest()`.

First the names of all families, then the parameter objects.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from math import comb
from types import NoneType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, get_args

from gpulsh.checks import check_choice, check_type, refuse_unknown, set_flag, set_integer, shown
from gpulsh.errors import ParameterError
from gpulsh.words import stems, stop_words

MAX_NUM_PERM = 65536  # the longest signature
MAX_SEED = 2**64 - 1
MAX_TABLES = 1024  # of a Hamming search
FLAGS = ("symbols", "labels")  # flags of a shingling on the command line
ITEM_TOKENS = 3  # of an item that begins with a stop word
SCHEME = 1  # version of the definition of all bits; CHANGELOG.md lists the changes

Unit = Literal["word", "char"]
Hash = Literal["mix64", "rabin", "karp_rabin"]
NormalForm = Literal["NFC", "NFKC"]
EvidenceName = Literal["index", "source"]  # where an index has the evidence of its documents
MinHashFamily = Literal["affine32", "affine61", "multiply_shift", "xor", "tabulation"]
FamilyName = Literal[MinHashFamily, "one_permutation", "fast_similarity", "c_minhash"]
SKETCHES: dict[str, str] = {  # families, and the sketch of each backend that computes them
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
FOREIGN_SKETCHES: dict[str, str] = {  # the same for sketches of other libraries
    "affine64": "affine64",
    "wrapped61": "wrapped",
    "wrapped61_low": "wrapped",
    "wrapped32": "wrapped",
    "wrapped16": "wrapped",
    "splitmix_rounds": "splitmix_rounds",
}
_SKETCHES: Mapping[str, str] = ChainMap(SKETCHES, FOREIGN_SKETCHES)


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


class Reading(NamedTuple):
    """How backends read code points: whether symbols are tokens, and whether case is folded."""

    symbols: bool = False
    case: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether only letters and digits make tokens, and case is folded: backends have faster passes for it."""
        return self == PLAIN


PLAIN = Reading()


OMITTED = {"omitted": True}  # metadata of a field that is not written at its default: files of before lack it


class Named:
    """The base of dataclasses that a user makes by keywords."""

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Refuse a keyword that is not a parameter."""
        refuse_unknown(cls.__name__, parameters, [field.name for field in fields(cls) if field.init])  # type: ignore[arg-type]
        return super().__new__(cls)


class Parameters(Named):
    """The base of all parameter objects: a canonical JSON form, and its digest."""

    kind: ClassVar[str]  # in the digest: the name that the class had when the scheme began

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = vars(cls).get("kind", cls.__name__)

    def to_json(self) -> str:
        """Canonical JSON of the fields: sorted names, no spaces."""
        return json.dumps(self.json_fields(), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """SHA-256 of the kind, the scheme and `to_json()`, in hexadecimal."""
        text = f"{self.kind}:{SCHEME}:{self.to_json()}"
        return hashlib.sha256(text.encode()).hexdigest()

    def json_fields(self) -> dict[str, Any]:
        """The fields as JSON values, by name."""
        return {own.name: _json_value(getattr(self, own.name)) for own in self._stored_fields()}

    def __repr__(self) -> str:
        shown_fields = (f"{own.name}={getattr(self, own.name)!r}" for own in self._stored_fields())
        return f"{type(self).__name__}({', '.join(shown_fields)})"

    def _stored_fields(self) -> list[Field[Any]]:
        own = fields(self)  # type: ignore[arg-type]
        return [one for one in own if "omitted" not in one.metadata or getattr(self, one.name) != one.default]


def _json_value(value: object) -> object:
    if isinstance(value, Parameters):
        return value.json_fields()
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True, repr=False)
class Folding(Parameters):
    """The changes to code points before a text is cut into tokens.

    First Unicode normalization, if `form` is "NFC" or "NFKC"; then simple case folding by the shipped Unicode table,
    unless `case` is False. Raises ParameterError for other forms.

    >>> Folding(form="NFKC").to_json()
    '{"form":"NFKC"}'
    """

    form: NormalForm | None = None
    case: bool = field(default=True, metadata=OMITTED)

    def __post_init__(self) -> None:
        check_choice("form", self.form, (None, *get_args(NormalForm)))
        set_flag(self, "case")


@dataclass(frozen=True, kw_only=True, repr=False)
class Shingling(Parameters):
    """`size` consecutive tokens make a shingle; a token is a word or a folded code point.

    With `symbols` each code point of general category P or S except U+FFFD is a token of its own: "C++", "C#" and "C"
    differ, and "!!!" has three tokens. With `labels` every occurrence of a shingle counts as a member of its own
    (option A of Broder 1997, *On the resemblance and containment of documents*).

    `stop` removes words before shingles are cut: a list of words, or the stop list of a language, by its code or, as
    "stopwords", by `language`. `stem` replaces each word by its Snowball stem: "snowball" takes the algorithm of
    `language`; any other value names an algorithm or a language. With `anchor="stopwords"` shingles consist of `size`
    items, each a stop word and the two words after it (Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.2).
    Then `stop` names the stop words, which stay. Lists and stems need `pip install "gpulsh[text]"`.

    `hash` is "mix64", "rabin" or "karp_rabin". It makes a fingerprint of token hashes, as `gpulsh.backends.protocol`
    defines. Rabin's bound on collisions holds for a random polynomial; ours is fixed. Raises ParameterError for a
    `unit` other than "word" and "char", a `size` outside 1 to 64, and any other value that is not allowed.

    >>> Shingling(unit="char", size=9)
    Shingling(unit='char', size=9)
    """

    folds: ClassVar[bool] = True  # case is folded; see `with_folding`

    unit: Unit = "word"
    size: int = 5
    symbols: bool = field(default=False, metadata=OMITTED)
    labels: bool = field(default=False, metadata=OMITTED)
    anchor: Literal["stopwords"] | None = field(default=None, metadata=OMITTED)
    language: str = field(default="en", metadata=OMITTED)
    stop: str | Sequence[str] | None = field(default=None, metadata=OMITTED)
    stem: str | None = field(default=None, metadata=OMITTED)
    hash: Hash = field(default="mix64", metadata=OMITTED)

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, get_args(Unit))
        set_integer(self, "size", 1, 64)
        set_flag(self, "symbols")
        set_flag(self, "labels")
        check_choice("hash", self.hash, get_args(Hash))
        check_choice("anchor", self.anchor, (None, "stopwords"))
        check_type("language", self.language, str)
        check_type("stem", self.stem, str, NoneType)
        stop: object = self.stop
        if stop is not None and not isinstance(stop, str):
            one = isinstance(stop, bytes) or getattr(stop, "shape", None) == ()
            words = (*stop,) if isinstance(stop, Iterable) and not one else (stop,)
            for word in words:
                check_type("a word of stop", word, str)
            object.__setattr__(self, "stop", tuple(sorted(set(map(str, words)))))
        if self.changes_words and self.unit == "char":
            raise ParameterError("unit is 'char', and anchor, stop and stem are of words; give unit='word' for them")
        named = self.stem == "snowball" or self.stop == "stopwords" or (self.anchor and self.stop is None)
        if self.language != "en" and not named:
            raise ParameterError(
                f"language is {self.language!r}, which is not used; give anchor='stopwords', stop='stopwords' or"
                " stem='snowball' with it"
            )
        if self.changes_words:
            _ = self.stop_words, self.stems  # raise errors before there is work to lose

    @classmethod
    def parse(cls, text: str) -> Shingling:
        """Parse the form of the command line. Raises ParameterError for any other.

        >>> Shingling.parse("word:5+symbols")
        Shingling(unit='word', size=5, symbols=True)
        """
        check_type("shingling", text, str)
        found = re.fullmatch(rf"({'|'.join(get_args(Unit))}):([0-9]{{1,2}})((?:\+(?:{'|'.join(FLAGS)}))*)", text)
        flags = found[3].split("+")[1:] if found else []
        if not found or not 1 <= int(found[2]) <= 64 or len(set(flags)) < len(flags):
            raise ParameterError(
                f"--shingle is {text!r}; give word:SIZE or char:SIZE with SIZE from 1 to 64, plus any of"
                f" {', '.join('+' + flag for flag in FLAGS)}, such as word:5+{FLAGS[0]}"
            )
        return cls(unit=found[1], size=int(found[2]), **dict.fromkeys(flags, True))  # type: ignore[arg-type]

    def __str__(self) -> str:
        """The form that `parse` takes, or the repr of a shingling with other options."""
        short = "+".join([f"{self.unit}:{self.size}", *(flag for flag in FLAGS if getattr(self, flag))])
        return short if self.parse(short) == self else repr(self)

    def with_folding(self, folding: Folding) -> Shingling:
        """The shingling as backends take it, which fold case together with the tokens."""
        if folding.case:
            return self
        return _Unfolded(**{own.name: getattr(self, own.name) for own in fields(self)})

    @property
    def changes_words(self) -> bool:
        """Whether stop words, stems or anchors change the words."""
        return self.anchor is not None or self.stop is not None or self.stem is not None

    @property
    def stop_words(self) -> frozenset[str]:
        """The words that are removed or, with `anchor`, begin an item."""
        if isinstance(self.stop, str):
            return stop_words(self.language if self.stop == "stopwords" else self.stop)
        if self.stop is not None:
            return frozenset(self.stop)
        return stop_words(self.language) if self.anchor else frozenset()

    @property
    def stems(self) -> Callable[[str], str] | None:
        """The function from words to stems, if stems replace words."""
        return stems(self.language if self.stem == "snowball" else self.stem) if self.stem is not None else None

    @property
    def is_fused(self) -> bool:
        """Whether backends have fused passes from text for it; see `backends.composed`."""
        return not self.labels and not self.changes_words and self.hash == "mix64"

    @property
    def reading(self) -> Reading:
        """How backends read code points."""
        return Reading(self.symbols, self.folds)


class _Unfolded(Shingling):
    folds = False


def checked_text_parameters(shingling: Shingling | str | None, folding: Folding | None) -> tuple[Shingling, Folding]:
    """Both, or their defaults for None; a str is a shingling as in "word:5". ParameterError for anything else."""
    shingling = Shingling() if shingling is None else shingling
    shingling = Shingling.parse(shingling) if isinstance(shingling, str) else shingling
    folding = Folding() if folding is None else folding
    if not isinstance(shingling, Shingling):
        raise ParameterError(f"shingling is {shown(shingling)}; give gpulsh.Shingling(), or a str such as 'word:5'")
    check_type("folding", folding, Folding)
    return shingling, folding


def with_form(folding: Folding | None, normalize: NormalForm | None) -> Folding | None:
    """The folding with the form `normalize`, if given. Raises ParameterError if it has another form."""
    if normalize is None:
        return folding
    check_choice("normalize", normalize, get_args(NormalForm))
    folding = Folding() if folding is None else folding
    check_type("folding", folding, Folding)
    if folding.form not in (None, normalize):
        raise ParameterError(f"normalize is {normalize!r} and the folding's form {folding.form!r}; give one of them")
    return replace(folding, form=normalize)


def text_reading(shingling: Shingling | str | None, folding: Folding | None) -> tuple[Shingling, Folding]:
    """`checked_text_parameters`, with the shingling as backends take it."""
    shingling, folding = checked_text_parameters(shingling, folding)
    return shingling.with_folding(folding), folding


@dataclass(frozen=True, kw_only=True)
class Family(Parameters):
    """The functions of signatures of `num_perm` values, with coefficients that `permutations` draws from `seed`.

    `gpulsh.backends.protocol.SketchFold` defines each by its name.
    """

    name: FamilyName | ForeignName = "affine32"
    num_perm: int = 128
    seed: int = 1

    def __post_init__(self) -> None:
        check_choice("family", self.name, tuple(_SKETCHES))
        set_integer(self, "num_perm", 1, MAX_NUM_PERM)
        set_integer(self, "seed", 0, MAX_SEED)

    @property
    def sketch(self) -> str:
        """The name of its class in each backend's `sketches.SKETCHES`."""
        return _SKETCHES[self.name]

    @property
    def wrap(self) -> Wrap:
        """How its words overflow, if its sketch is `wrapped`."""
        return WRAPPED[self.name]

    @property
    def value_type(self) -> Literal["uint32", "uint64"]:
        """The dtype of its signatures, in which all ones mean *no value*."""
        return "uint64" if self.name in _WIDE else "uint32"


@dataclass(frozen=True, kw_only=True, repr=False)
class GivenFamily(Family):
    """A family with given words, as another library draws them: two for each value, below 2^64.

    They are the multiplier and addend of each function; for `splitmix_rounds`, the seeds of each round and each bin.
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
        most = min(self.bits, MAX_TABLES) - 1
        set_integer(self, "distance", 0, most)

    @property
    def key_blocks(self) -> int:
        """The number of blocks of bits in a table's key: two, or one if that would take too many tables."""
        return 2 if comb(self.distance + 2, 2) <= MAX_TABLES else 1

    @property
    def blocks(self) -> int:
        """The number of blocks of bits; `distance` of them may differ."""
        return self.distance + self.key_blocks

    @property
    def tables(self) -> int:
        """The number of tables of a search: one for every choice of blocks that agree."""
        return comb(self.blocks, self.key_blocks)

    def near(self, distance: int) -> NearBits:
        """The rule of the same bits with another distance."""
        return replace(self, distance=distance)


class BitSketch(Protocol):
    """A sketch of bits that a user chooses."""

    def near(self, distance: int) -> NearBits:
        """The rule that bits differ in at most `distance`."""
        ...


class Sketch(Protocol):
    """A sketch of sets that a user chooses."""

    @property
    def functions(self) -> Family:
        """The functions that backends compute signatures by."""


def chosen_family(sketch: object, num_perm: int, seed: int) -> Family:
    """The functions of `sketch`, if given; `num_perm` and `seed` must then be its own, or the defaults."""
    if sketch is None:
        return Family(num_perm=num_perm, seed=seed)
    family = getattr(sketch, "functions", None)
    if not isinstance(family, Family):
        raise ParameterError(
            f"sketch is of type {type(sketch).__name__}; give a sketch of sets, such as gpulsh.MinHash(num_perm=128)"
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
