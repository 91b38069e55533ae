"""Stop lists and stems of natural languages, from packages that are imported when a shingling needs them.

Their words decide shingles, so the extra `text` pins one version of each package.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

from gpulsh.errors import ParameterError, install

MOST_STEMS = 1 << 20  # in the cache
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
    """The stop list of a language, by its code of ISO 639-1, from its package.

    Raises ParameterError where there is none.
    """
    lists = _package("stopwordsiso", f"the stop list of {language!r}")
    if not lists.has_lang(language):
        raise ParameterError(f"there is no stop list of {language!r}; give one of {', '.join(sorted(lists.langs()))}")
    return frozenset(lists.stopwords(language))


class Stems:
    """The Snowball stems of one language, cached by token. Safe for threads."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self._stem, self._known, self._changing = stem, dict[str, str](), Lock()

    def of(self, token: str) -> str:
        """The stem of a folded token."""
        found = self._known.get(token)
        if found is None:
            with self._changing:  # a stemmer keeps its current word
                found = self._stem(token)
                if len(self._known) >= MOST_STEMS:
                    self._known.clear()
                self._known[token] = found
        return found


@cache
def stems(algorithm: str) -> Stems:
    """The stems of a Snowball algorithm, by its name or a language's code. Raises ParameterError for any other."""
    snowball = _package("snowballstemmer", f"stem {algorithm!r}")
    name = STEMMERS.get(algorithm, algorithm)
    if name not in snowball.algorithms():
        known = sorted({*snowball.algorithms(), *STEMMERS})
        raise ParameterError(f"there is no stemmer {algorithm!r}; give one of {', '.join(known)}")
    return Stems(snowball.stemmer(name).stemWord)


def _package(name: str, wanted: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ParameterError(f"{wanted} needs the package {name}: {install('text')}") from None
