"""What shingles are made of: the tokens of a document, or what a shingling makes of its words, one after another."""

from __future__ import annotations

from gpulsh.backends.reference.hashing import shingle_hash, token_hash
from gpulsh.backends.reference.tokens import classify, code_points
from gpulsh.params import ITEM_TOKENS, Shingling
from gpulsh.secret import EvidenceKeys


def word_hashes(document: list[list[int]], shingling: Shingling, keys: EvidenceKeys | None) -> list[int]:
    """Hashes of the tokens, or of the items that begin with stop words, of a document's tokens."""
    if not shingling.by_words:
        return [token_hash(token, keys) for token in document]
    reading = shingling.reading._replace(case=True)
    listed = [code_points(word.encode(), "word", reading) for word in shingling.stop_words]
    stop = {tuple(word[0]) for word in listed if len(word) == 1}
    is_stop = [tuple(classify(point, reading)[1] for point in token) in stop for token in document]
    hashes = [token_hash(_stem(token, shingling), keys) for token in document]
    if shingling.anchor is None:
        return [hashed for hashed, left_out in zip(hashes, is_stop, strict=True) if not left_out]
    starts = range(len(document) - ITEM_TOKENS + 1)
    return [shingle_hash(hashes[i : i + ITEM_TOKENS], keys) for i in starts if is_stop[i]]


def _stem(token: list[int], shingling: Shingling) -> list[int]:
    if shingling.stems is None:
        return token
    stem = [ord(character) for character in shingling.stems.of("".join(map(chr, token)))]
    whole = code_points("".join(map(chr, stem)).encode(), "word", shingling.reading) == [stem]
    return stem if whole else token
