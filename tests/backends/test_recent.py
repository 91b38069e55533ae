"""What was found or made of late."""

from __future__ import annotations

from gpulsh.backends.recent import Recent


def test_what_was_used_longest_ago_gives_way() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    recent.put("c", 3)
    assert [recent.get(key) for key in "abcd"] == [None, 2, 3, None]
    assert [recent.of(key, lambda: 4) for key in "bd"] == [2, 4]
    assert [recent.get(key) for key in "abcd"] == [None, 2, None, 4] and len(recent) == 2
    recent.forget("d".__eq__)
    assert [recent.get(key) for key in "abcd"] == [None, 2, None, None]
