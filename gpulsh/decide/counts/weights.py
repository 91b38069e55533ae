"""Sampling weights from counts: how often a trainer should see a kept document.

FILE.json       buckets: an object of least sizes and weights, such as {"1": 1, "2": 3, "6": 5}. A document has the
                weight of the largest size up to its own, and 1 below the least. This is the format of FineWeb-2's
                upsampling weights (misc/rehydration of its repository). In a file of several languages,
                FILE.json:LANGUAGE names one
txt360          3, 5, 8, 10 for sizes of 2 to 5, 6 to 100, 101 to 1,000, and more; 1 for 1 (TxT360, LLM360 2024)
log             1 + ln(size)
cap:N           the size, at most N

A size is the number of documents that a kept one represents: `verified`, 1 + copies + near, or `component`, the size of
its connected component. FineWeb-2's weights are for components.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.checks import check_choice, shown
from gpulsh.decide.counts.counts import Counts
from gpulsh.errors import InputError, ParameterError

WeightBy = Literal["verified", "component"]
TXT360 = {1: 1.0, 2: 3.0, 6: 5.0, 101: 8.0, 1001: 10.0}
ENDING = ".json"
MAX_SIZE = 10**18  # a size
RULE = "give txt360, log, cap:N or a file FILE.json"


@dataclass(frozen=True)
class Recipe:
    """Weights of sizes: by `buckets` of least sizes, at most `cap`, or logarithmic where neither is given."""

    buckets: tuple[tuple[int, float], ...] = ()  # ascending
    cap: int | None = None

    def weights(self, sizes: Numbers) -> NDArray[np.float64]:
        """float64 [n]: the weight of each size, which is 1 or more.

        >>> parse_recipe("txt360").weights(np.array([1, 2, 5, 6, 100, 101, 1000, 1001]))
        array([ 1.,  3.,  3.,  5.,  5.,  8.,  8., 10.])
        """
        if self.cap is not None:
            return np.minimum(sizes, self.cap).astype(np.float64)
        if not self.buckets:
            return 1 + np.log(sizes)
        least = np.array([least for least, _ in self.buckets])
        weights = np.array([1.0, *(weight for _, weight in self.buckets)])
        return weights[np.searchsorted(least, sizes, side="right")]

    def to_json(self) -> Any:
        """The recipe in a report."""
        if self.cap is not None:
            return f"cap:{self.cap}"
        if self.buckets == tuple(TXT360.items()):
            return "txt360"
        return {str(least): weight for least, weight in self.buckets} if self.buckets else "log"


def sizes_by(by: WeightBy, counts: Counts) -> Numbers:
    """int64 [n]: how many documents each one represents."""
    check_choice("weight_by", by, ("verified", "component"))
    return counts.component if by == "component" else 1 + counts.copies + counts.near


def parse_recipe(given: object) -> Recipe:
    """From the argument of --weights, or a mapping of least sizes to weights.

    Raises ParameterError for anything else, InputError for a file that holds no weights.
    """
    if isinstance(given, Mapping):
        return _buckets(given, "weights", ParameterError)
    if not isinstance(given, str):
        raise ParameterError(f"weights is {shown(given)}; {RULE}, or a mapping of sizes to weights")
    if given == "txt360":
        return Recipe(tuple(TXT360.items()))
    if given == "log":
        return Recipe()
    if given.startswith("cap:"):
        number = given.removeprefix("cap:")
        cap = _size_of(number)
        if cap is None:
            raise ParameterError(f"weights is {shown(given)}; give cap:N with N of 1 or more, such as cap:5")
        return Recipe(cap=cap)
    path, _, language = given.partition(f"{ENDING}:") if f"{ENDING}:" in given else (given, "", "")
    if not (language or path.endswith(ENDING)):
        raise ParameterError(f"weights is {given!r}; {RULE}")
    return _recipe_from_file(Path(f"{path}{ENDING}" if language else path), language)


def _recipe_from_file(path: Path, language: str) -> Recipe:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise ValueError(f"it has the key {twice!r} twice")
        return found

    try:
        found = json.loads(path.read_bytes(), object_pairs_hook=once)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; {RULE}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}; give an object of sizes and weights") from error
    if isinstance(found, dict) and found and all(isinstance(value, dict) for value in found.values()):
        if language not in found:
            some = ", ".join(list(found)[:5])
            raise InputError(f"{path}: has weights by language, as {some}; give {path}:LANGUAGE")
        found = found[language]
    elif language:
        raise InputError(f"{path}: has no languages; leave {language!r} out")
    if not isinstance(found, dict):
        raise InputError(f'{path}: is not an object; give least sizes and weights, such as {{"1": 1, "2": 3}}')
    return _buckets(found, str(path), InputError)


def _size_of(given: object) -> int | None:
    """An integer, or the digits of one, from 1 to MAX_SIZE; None of anything else."""
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < len(str(MAX_SIZE)):
        given = int(given)
    if not isinstance(given, (int, np.integer)) or isinstance(given, bool) or not 1 <= given <= MAX_SIZE:
        return None
    return int(given)


def _buckets(found: Mapping[Any, Any], name: str, error: type[InputError] | type[ParameterError]) -> Recipe:
    buckets = {}
    for size, weight in found.items():
        least = _size_of(size)
        if least is None or least in buckets:
            raise error(f"{name}: {shown(size)} is not a least size; give an integer of 1 or more, each once")
        number = math.nan
        if isinstance(weight, (int, float, np.integer, np.floating)) and not isinstance(weight, bool):
            with suppress(OverflowError):
                number = float(weight)
        if not 0 <= number < math.inf:
            raise error(f"{name}: the weight of size {least} is {shown(weight)}; give a number of 0 or more")
        buckets[least] = number
    if not buckets:
        raise error(f'{name}: has no weights; give least sizes and weights, such as {{"1": 1, "2": 3}}')
    return Recipe(tuple(sorted(buckets.items())))
