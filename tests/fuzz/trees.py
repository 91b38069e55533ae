"""Damage to JSON values: leaves that become awkward, members that go, come and change names."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from tests.fuzz.damage import integer

NAMES = [
    "../beside/precious.txt",
    "../../beside/precious.txt",
    "/etc/passwd",
    "..",
    ".",
    "",
    "/",
    "beside",
    "lock",
    "a/b",
]
NAMES += ["~", "a\0b", "\ud800", "report.json", "data", "_work", "\x1b]0;x\x07", "x" * 300, "manifest.jsonl"]


def awkward(source: Random) -> Any:
    """A JSON value that nobody expects."""
    return source.choice(
        [
            *(
                None,
                True,
                False,
                "",
                0,
                -1,
                1.5,
                float("nan"),
                float("inf"),
                -0.0,
                1e308,
                [],
                {},
                [[]],
                [None],
                {"": 0},
            ),
            *(integer(source), integer(source, 32), 10**30, source.choice(NAMES), source.choice(NAMES)),
            {"size": 0, "crc32": 0},
        ]
    )


def changed(source: Random, tree: Any, times: int = 1) -> Any:
    """A copy with `times` changes, each at any place of it."""
    tree = copy.deepcopy(tree)
    for _ in range(times):
        places = list(_places([tree]))
        holder, key = source.choice(places)
        if holder is None:
            tree = awkward(source)
            continue
        value = holder[key]
        how = source.random()
        if how < 0.45:
            near = isinstance(value, int) and not isinstance(value, bool) and source.random() < 0.5
            holder[key] = value + source.choice([-1, 1, 8, -value, value]) if near else awkward(source)
        elif how < 0.6:
            del holder[key]
        elif how < 0.75:
            other_holder, other_key = source.choice(places)
            if other_holder is not None:
                holder[key] = copy.deepcopy(other_holder[other_key])
        elif isinstance(holder, dict):
            holder[source.choice([*NAMES, *holder])] = holder.pop(key) if how < 0.9 else copy.deepcopy(value)
        else:
            holder.insert(key, copy.deepcopy(value) if how < 0.9 else awkward(source))
    return tree


def _places(tree: Any) -> Any:
    """(holder, key) of every value in it, (None, None) of the whole."""
    yield None, None
    waiting = [tree[0]]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            yield holder, key
            waiting.append(holder[key])
