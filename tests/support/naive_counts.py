"""The documents that each kept one represents, and their policies, by loops over pairs and documents."""

from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Any

from tests.support.naive import components


def counts(
    pairs: Sequence[tuple[int, int]],
    duplicate_of: Sequence[int],
    words: Sequence[Hashable],
    sources: Sequence[str | None] | None = None,
    dates: Sequence[datetime | None] | None = None,
    kept: Sequence[int] | None = None,
) -> dict[int, dict[str, Any]]:
    """The counts of each kept document, by its position; `words` are equal where two documents are exact copies.

    Without sources all documents are of one, which has no name.
    """
    count = len(duplicate_of)
    label = components(count, pairs)
    sizes = Counter(label)
    found = {}
    for i in range(count) if kept is None else kept:
        if duplicate_of[i] != i:
            continue
        here = [j for j in range(count) if duplicate_of[j] == i]
        own = [j for j in here if j != i]
        names = {sources[j] for j in here} - {None} if sources else set()
        days = [day for j in here if dates and (day := dates[j]) is not None]
        found[i] = {
            "copies": sum(words[j] == words[i] for j in own),
            "near": sum(words[j] != words[i] for j in own),
            "component": sizes[label[i]],
            "sources": len(names) if sources else 1,
            "source_names": sorted(names),  # type: ignore[type-var]
            "first_seen": min(days, default=None),
            "last_seen": max(days, default=None),
        }
    return found


def with_policy(
    pairs: Sequence[tuple[int, int]],
    duplicate_of: Sequence[int],
    order: Sequence[int],
    *,
    min_cluster: int = 1,
    max_copies: int = 1,
    min_sources: int = 1,
    sources: Sequence[str | None] = (),
    protected: int = 0,
) -> tuple[list[int], set[int]]:
    """Whose witness each document has by the policies, its own place where it has none, and who is left out.

    `order` are the documents in decision order, and the first `protected` are never dropped.
    """
    label = components(len(duplicate_of), pairs)
    sizes = Counter(label)
    target, stay = list(range(len(duplicate_of))), Counter[int]()
    for i in order:
        witness = duplicate_of[i]
        if witness == i:
            continue
        if witness < protected:
            target[i] = witness
        elif sizes[label[i]] < min_cluster:
            pass
        elif stay[witness] < max_copies - 1:
            stay[witness] += 1
        else:
            target[i] = witness
    left_out: set[int] = set()
    for i in range(len(target)):
        if min_sources > 1 and target[i] == i and i >= protected:
            group = [j for j in range(len(target)) if target[j] == i]
            if len({sources[j] for j in group} - {None}) < min_sources:
                left_out.update(group)
    return [i if i in left_out else witness for i, witness in enumerate(target)], left_out
