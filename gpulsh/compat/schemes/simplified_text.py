"""`gpulsh.compat.simplify_text`: a text as datatrove compares it, before its words are cut."""

from __future__ import annotations

import re
import string
import unicodedata

_CONTROLS = [*range(9), *range(11, 32), *range(127, 160)]  # but for tab and line feed
_BEYOND_ASCII = "«´»–—’“”„…∶━►、。〈〉《》「」【】！％（），．１：；？～"  # among them a digit, as there
_TO_SPACES = dict.fromkeys([*map(ord, string.punctuation + _BEYOND_ASCII), *_CONTROLS], " ")
_NUMBER = re.compile(r"\d+([.,،٫⎖⎗⎘]\d+)?")
_SPACE = re.compile(r"\s+")
_WEEKDAY = re.compile("monday|tuesday|wednesday|thursday|friday|saturday|sunday")
_MONTH = re.compile("january|february|march|april|may|june|july|august|september|october|november|december")


def simplify_text(
    text: str,
    *,
    lowercase: bool = True,
    norm_whitespace: bool = True,
    remove_punctuation: bool = True,
    norm_unicode_diacritics: bool = True,
    norm_numbers: bool = True,
    norm_weekdays: bool = False,
    norm_monthnames: bool = False,
) -> str:
    """What datatrove's `simplify_text` makes of a text, by the options of its `TextNormConfig`.

    In this order: lower case, numbers as 0, weekdays and months by their kind, punctuation and controls as spaces, runs
    of spaces as one, and letters without their marks. Checked against 0.10.1; which characters are digits, spaces and
    marks is what this Python's Unicode says.

    >>> simplify_text("On 3.5% of Résumés,  I'd say: no!")
    'on 0 of resumes i d say no'
    """
    if lowercase:
        text = text.lower()
    if norm_numbers:
        text = _NUMBER.sub("0", text)
    if norm_weekdays:
        text = _WEEKDAY.sub("WEEKDAY", text)
    if norm_monthnames:
        text = _MONTH.sub("MONTH", text)
    if remove_punctuation:
        text = text.translate(_TO_SPACES)
    if norm_whitespace:
        text = _SPACE.sub(" ", text.strip())
    if norm_unicode_diacritics and not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
    return text.strip()
