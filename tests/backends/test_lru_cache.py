"""`LruCache` keeps the values that were used last."""

from __future__ import annotations

from gpulsh.backends.lru_cache import LruCache


def test_the_least_recently_used_value_is_replaced() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("c", 3)
    assert [cache.get(key) for key in "abcd"] == [None, 2, 3, None]
    assert [cache.get_or_make(key, lambda: 4) for key in "bd"] == [2, 4]
    assert [cache.get(key) for key in "abcd"] == [None, 2, None, 4] and len(cache) == 2
    cache.remove("d".__eq__)
    assert [cache.get(key) for key in "abcd"] == [None, 2, None, None]
