"""The funnel for people: how many documents and pairs pass each stage, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def funnel_table(report: Mapping[str, Any]) -> str:
    """The report's funnel as lines of text, aligned."""
    return str(report["funnel"])
