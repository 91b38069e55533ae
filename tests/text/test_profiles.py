"""Nutch's signatures: digests worked out by hand, the details that decide the bits, every kind of text."""

from hashlib import md5
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh


def digest(profile: str) -> bytes:
    return md5(profile.encode()).digest()


def profile_of(text: str, **options: Any) -> bytes:
    (row,) = gpulsh.text_profiles([text], **options)
    return bytes(row)


def test_md5_of_the_bytes() -> None:
    texts = ["", "a", "Straße 漢字", None]
    found = gpulsh.md5_signatures(texts)
    assert (found.dtype, found.shape) == (np.uint8, (4, 16))
    assert [bytes(row) for row in found] == [digest(text or "") for text in texts]
    assert (gpulsh.md5_signatures(pa.array(texts)) == found).all()
    assert gpulsh.md5_signatures([]).shape == gpulsh.text_profiles([]).shape == (0, 16)


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("one word each here", "each 1\nhere 1\none 1\nword 1"),  # no token twice: QUANT is 1
        ("The cat and the dog: THE end", "the 2"),  # QUANT is 2, what is there once is dropped
        ("aaa bbb aaa bbb bbb ccc ccc ccc ccc", "ccc 4\naaa 2\nbbb 2"),  # 3 is rounded down to 2; ties ascend
        ("is it so, is it so, is it long long", "long 2"),  # "is" and "it" are too short
        ("x1y x1y x_y_z", "x1y 2"),  # the underscore is no letter
        ("İİİ iii ΣΑΣ σας", "iii 2"),  # letters by themselves: no combining dot, no final sigma
        ("a²b a²b abc abc x\U00010400yyy", "abc 2"),  # neither category No nor beyond U+FFFF
        ("٣٤٥ ٣٤٥", "٣٤٥ 2"),  # digits of any script
        ("ＡＢＣ ａｂｃ", "ａｂｃ 2"),
    ],
)
def test_profiles(text: str, profile: str) -> None:
    assert profile_of(text) == digest(profile)


def test_an_empty_profile_has_the_digest_of_nothing() -> None:
    """TextProfileSignature.calculate ends in MD5Hash.digest(newText.toString()), however short that is."""
    for text in ("", "a b c", "!!!", "?"):
        assert profile_of(text) == digest("")
    assert bytes(gpulsh.text_profiles([None])[0]) == digest("")


def test_parameters() -> None:
    assert profile_of("is it is it", min_token_len=1) == digest("is 2\nit 2")
    assert profile_of("a a", min_token_len=0) == digest("a 2")
    often = " ".join(["often"] * 10 + ["rather"] * 7 + ["seldom"] * 4)
    assert profile_of(often, quant_rate=0.5) == digest("often 10\nrather 5")
    assert profile_of(often, quant_rate=np.float32(0.5)) == profile_of(often, quant_rate=0.5)
    assert profile_of(often, quant_rate=0.25) == digest("often 9\nrather 6\nseldom 3")  # 2.5 is rounded up
    # 350 * float32(0.01) is 3.5 in float32, though 0.01f is less than 0.01.
    assert profile_of("word " * 350 + "other " * 7) == digest("word 348\nother 4")


@given(st.lists(st.sampled_from(["alpha", "beta", "Gamma", "it", "7th"]), max_size=30), st.randoms())
def test_order_and_punctuation_do_not_matter(words: list[str], random: Any) -> None:
    shuffled = words[:]
    random.shuffle(shuffled)
    one, other = " ".join(["frequent", "frequent", *words]), "; ".join([*shuffled, "FREQUENT, frequent"])
    assert profile_of(one) == profile_of(other)
