"""The library's promises in plain Python, sharing no code with it: tokens are strings, a document is a set of tuples.

Characters are classed by `unicodedata`, hashes computed from their definition, decisions taken document by document.
"""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache

MASK = (1 << 64) - 1

# --- text to shingles

# Scripts written without spaces, by the names of their letters: `unicodedata` does not know the Script property.
SINGLE_NAMES = (
    *("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "IDEOGRAPHIC ITERATION", "IDEOGRAPHIC NUMBER"),
    *("HIRAGANA LETTER", "KATAKANA LETTER", "HALFWIDTH KATAKANA LETTER", "HANGZHOU NUMERAL", "VERTICAL IDEOGRAPHIC"),
    *("HIRAGANA ITERATION", "HIRAGANA VOICED ITERATION", "HIRAGANA DIGRAPH", "HENTAIGANA LETTER"),
    *("KATAKANA ITERATION", "KATAKANA VOICED ITERATION", "KATAKANA DIGRAPH"),
    *("OLD CHINESE ITERATION", "VIETNAMESE ALTERNATE READING"),
    *("THAI ", "LAO ", "KHMER ", "MYANMAR "),
)


@cache
def classed(character: str) -> tuple[str, str]:
    """("word" | "single" | "separator", folded character)."""
    if unicodedata.category(character)[0] not in "LMN":
        return "separator", folded(character)
    single = unicodedata.name(character, "").startswith(SINGLE_NAMES)
    return "single" if single else "word", folded(character)


def folded(character: str) -> str:
    """Simple case folding: full folding where that is one character, else the one-character lower case, if any."""
    for candidate in (character.casefold(), character.lower()):
        if len(candidate) == 1:
            return candidate
    return character


class _Translation(dict[int, str]):
    """A table for `str.translate` that is filled as characters come."""

    def __init__(self, single: str, symbols: bool, case: bool) -> None:
        super().__init__()
        self._single, self._symbols, self._case = single, symbols, case

    def __missing__(self, code_point: int) -> str:
        written = chr(code_point)
        kind, character = classed(written)
        character = character if self._case else written
        if self._symbols and unicodedata.category(written)[0] in "PS" and written != "\ufffd":
            kind = "single"
        text = {"separator": " ", "single": self._single.format(character), "word": character}[kind]
        self[code_point] = text
        return text


@cache
def _translation(unit: str, symbols: bool, case: bool) -> _Translation:
    return _Translation(" {} " if unit == "word" else "{}", symbols, case)


def tokens(text: str, unit: str, symbols: bool = False, case: bool = True) -> list[str]:
    parts = [part for part in text.translate(_translation(unit, symbols, case)).split(" ") if part]
    return parts if unit == "word" else list(" ".join(parts))


def shingles(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """All shingles in order; the only one of a short document is shorter than any other, so no other equals it."""
    if not words:
        return []
    return [tuple(words[i : i + size]) for i in range(max(len(words) - size + 1, 1))]


def jaccard(a: set[Hashable], b: set[Hashable]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0


# --- hashes

GOLDEN, LENGTH = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
TOKEN, SHINGLE, BAND = 0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0


def mix(x: int) -> int:
    x = x % 2**64
    x = (x ^ (x >> 27)) * 0x3C79AC492BA7B653 % 2**64
    x = (x ^ (x >> 33)) * 0x1C69B3F74AC4AE35 % 2**64
    return x ^ (x >> 27)


@cache
def place_key(stream: int, place: int) -> int:
    return mix(stream + (place + 1) * GOLDEN) | 1


def hashed(stream: int, values: Sequence[int]) -> int:
    """The hash of a token's code points or of a shingle's token hashes."""
    return mix(len(values) * LENGTH + sum(place_key(stream, place) * value for place, value in enumerate(values)))


@cache
def token_hash(token: str) -> int:
    return hashed(TOKEN, [ord(character) for character in token])


@cache
def fingerprint(shingle: tuple[str, ...]) -> int:
    return hashed(SHINGLE, [token_hash(token) for token in shingle])


@cache
def secret_words(secret: bytes) -> list[int]:
    stream = hashlib.shake_256(b"gpulsh evidence 1 " + secret).digest(8 * 11394)
    return [int.from_bytes(stream[i : i + 8], "little") | 1 for i in range(0, len(stream), 8)]


def secret_key(words: list[int], near: int, places: int, far: int, place: int) -> int:
    """The key at a place: near keys, and three tables of 1024 for the digits of place // places, 1 for digit 0."""
    number, found = place // places, words[near + place % places]
    for level in range(3):
        digit, number = number % 1024, number // 1024
        found *= words[far + 1024 * level + digit] if digit else 1
    return found % 2**64


def evidence(tokens: Sequence[str], secret: bytes) -> int:
    """The fingerprint of one shingle of tokens as evidence."""
    words = secret_words(secret)

    def token(characters: str) -> int:
        terms = (secret_key(words, 0, 64, 128, place) * ord(character) for place, character in enumerate(characters))
        return mix(len(characters) * LENGTH + sum(terms))

    return mix(len(tokens) * LENGTH + sum(words[64 + place] * token(t) for place, t in enumerate(tokens)))


def exact_hash(tokens: Sequence[str], secret: bytes) -> tuple[int, int]:
    words = secret_words(secret)

    def term(place: int, code_point: int) -> int:
        plain = place < 8 and code_point < 128
        return code_point * (256**place if plain else secret_key(words, 0, 64, 128, place))

    packed = [sum(term(place, ord(character)) for place, character in enumerate(token)) for token in tokens]
    halves = [
        sum(
            secret_key(words, 3200 + 1024 * half, 1024, 5248 + 3072 * half, place)
            * int.from_bytes((token * words[11392 + half] % 2**64).to_bytes(8, "big"), "little")
            for place, token in enumerate(packed)
        )
        for half in (0, 1)
    ]
    return halves[0] % 2**64, halves[1] % 2**64


@cache
def functions(num_perm: int, seed: int) -> list[tuple[int, int]]:
    """(a, b) of each h(x) = a x + b mod 2^32, by SplitMix64 at the places of a counter."""

    def splitmix(state: int) -> int:
        z = state % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    start = splitmix(seed + GOLDEN)
    draws = [splitmix(start + (i + 1) * GOLDEN) for i in range(num_perm)]
    return [(draw >> 32 | 1, draw % 2**32) for draw in draws]


def signature(fingerprints: Sequence[int], num_perm: int, seed: int) -> list[int]:
    upper = {value >> 32 for value in fingerprints}
    return [min(((a * x + b) % 2**32 for x in upper), default=2**32 - 1) for a, b in functions(num_perm, seed)]


def band_digests(values: Sequence[int], bands: int, rows: int) -> list[int]:
    if all(value == 2**32 - 1 for value in values):
        return [2**64 - 1] * bands
    found = []
    for band in range(bands):
        terms = (place_key(BAND, place) * value for place, value in enumerate(values[band * rows : (band + 1) * rows]))
        found.append(min(mix(sum(terms) + (band + 1) * GOLDEN), 2**64 - 2))
    return found


# --- decision


@dataclass
class Decision:
    duplicate_of: list[int]
    similarity: list[float]
    cluster: list[int]
    pairs: dict[tuple[int, int], float]


@dataclass
class Documents:
    """What decides: `sequences` tell copies, `digests` [n][bands] who shares a bucket, `similarity` how much two agree.

    An empty sequence is a document without a token.
    """

    sequences: Sequence[Hashable]
    digests: Sequence[Sequence[int]]
    similarity: Callable[[int, int], float]


def greedy(
    documents: Documents,
    threshold: float,
    priority: Sequence[float] | None = None,
    *,
    resolve: str = "kept",
    small_bucket: int = 256,
    protected: int = 0,
    sources: Sequence[int] | None = None,
    across: bool = False,
) -> Decision:
    """The definition of the decision, one document after another.

    The first `protected` documents come first and are never dropped; with `sources` only documents of one are
    duplicates, or with `across` only those of two: then a copy is what the first copy of its source is. Protected ones
    are compared with all sources.
    """
    count = len(documents.sequences)
    order = list(range(count))
    if priority is not None:
        order.sort(key=lambda i: (-priority[i], i))
    order.sort(key=lambda i: i >= protected)
    rank = {i: place for place, i in enumerate(order)}
    similarity = cache(documents.similarity)

    def allowed(earlier: int, later: int) -> bool:
        related = sources is None or earlier < protected or (sources[earlier] != sources[later]) == across
        return later >= protected and related

    first_of: dict[Hashable, int] = {}
    copies: dict[int, int] = {}
    distinct: list[int] = []
    for i in order:
        if documents.sequences[i]:
            first = first_of.setdefault((documents.sequences[i], sources and sources[i]), i)
            if first == i:
                distinct.append(i)
            elif i >= protected:
                copies[i] = first

    buckets: dict[tuple[int, int], list[int]] = defaultdict(list)  # each in decision order
    for i in distinct:
        for band, digest in enumerate(documents.digests[i]):
            buckets[band, digest].append(i)
    partners: dict[int, set[int]] = defaultdict(set)  # earlier ones in some bucket of any size
    compared: set[tuple[int, int]] = set()  # (earlier, later) of small buckets
    for members in buckets.values():
        for place, b in enumerate(members):
            earlier = members[:place]
            if protected or sources is not None:
                earlier = [a for a in earlier if allowed(a, b)]
            partners[b].update(earlier)
            if len(members) <= small_bucket:
                compared.update((a, b) for a in earlier)

    kept: set[int] = set()
    witness: dict[int, int] = {}
    similar: dict[tuple[int, int], float] = {}
    for i in distinct:
        near = {k: similarity(k, i) for k in partners[i] & kept}
        near = {k: value for k, value in near.items() if value >= threshold}
        if near:
            witness[i] = min(near, key=lambda k: (-near[k], rank[k]))
            similar |= {(k, i): value for k, value in near.items()}
        else:
            kept.add(i)
    similar |= {pair: similarity(*pair) for pair in compared if similarity(*pair) >= threshold}

    pairs = {(min(pair), max(pair)): value for pair, value in similar.items()}
    if resolve == "components":
        cluster = components(count, list(pairs))
        head: dict[int, int] = {}
        for i in distinct:
            head.setdefault(cluster[i], i)
        witness = {i: head[cluster[i]] for i in distinct if head[cluster[i]] != i and i >= protected}
    for i, first in copies.items():
        if not across:
            pairs[min(i, first), max(i, first)] = 1.0
        elif first in witness:
            target = witness[first]
            pairs[min(i, target), max(i, target)] = similarity(target, first)

    decision = Decision([], [], components(count, list(pairs)), pairs)
    for i in range(count):
        first = copies.get(i, i)
        stays = first not in witness and across
        decision.duplicate_of.append(i if stays else witness.get(first, first))
        decision.similarity.append(similarity(witness[first], first) if first in witness else 1.0)
    return decision


def components(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The smallest id of each one's component, by labels that spread until none changes."""
    labels = list(range(count))
    changed = True
    while changed:
        changed = False
        for i, j in pairs:
            low = min(labels[i], labels[j])
            if labels[i] != low or labels[j] != low:
                labels[i] = labels[j] = low
                changed = True
    return labels
