"""Stop lists and stems of natural languages, from packages that are imported when a shingling needs them.

Their words decide shingles, so the extra `text` pins one version of each package.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, lru_cache
from threading import Lock
from typing import Any

from gpulsh.errors import ParameterError, install_command

MAX_STEMS = 1 << 20  # in a cache
_ALGORITHMS = [
    *(("ar", "arabic"), ("hy", "armenian"), ("eu", "basque"), ("ca", "catalan"), ("da", "danish")),
    *(("nl", "dutch"), ("en", "english"), ("eo", "esperanto"), ("et", "estonian"), ("fi", "finnish")),
    *(("fr", "french"), ("de", "german"), ("el", "greek"), ("hi", "hindi"), ("hu", "hungarian")),
    *(("id", "indonesian"), ("ga", "irish"), ("it", "italian"), ("lt", "lithuanian"), ("ne", "nepali")),
    *(("no", "norwegian"), ("pt", "portuguese"), ("ro", "romanian"), ("ru", "russian"), ("sr", "serbian")),
    *(("es", "spanish"), ("sv", "swedish"), ("ta", "tamil"), ("tr", "turkish"), ("yi", "yiddish")),
]
STEMMERS = dict(_ALGORITHMS)  # the algorithm of each language, by code


@cache
def stop_words(language: str) -> frozenset[str]:
    """The stop list of a language, by its code of ISO 639-1. Raises ParameterError if its package has none."""
    lists = _package("stopwordsiso", f"the stop list of {language!r}")
    if not lists.has_lang(language):
        raise ParameterError(f"there is no stop list of {language!r}; give one of {', '.join(sorted(lists.langs()))}")
    return frozenset(lists.stopwords(language))


@cache
def stems(algorithm: str) -> Callable[[str], str]:
    """The function from tokens to stems of a Snowball algorithm, by its name or a language's code. Safe for threads.

    Raises ParameterError if there is no such algorithm.
    """
    snowball = _package("snowballstemmer", f"stem {algorithm!r}")
    name = STEMMERS.get(algorithm, algorithm)
    if name not in snowball.algorithms():
        known = sorted({*snowball.algorithms(), *STEMMERS})
        raise ParameterError(f"there is no stemmer {algorithm!r}; give one of {', '.join(known)}")
    stem_word, lock = snowball.stemmer(name).stemWord, Lock()

    @lru_cache(MAX_STEMS)
    def stem(token: str) -> str:
        with lock:  # a stemmer keeps its current word
            found: str = stem_word(token)
            return found

    return stem


def _package(name: str, wanted: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ParameterError(f"{wanted} needs the package {name}: {install_command('text')}") from None
