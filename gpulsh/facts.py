"""What is told of work and its results, as JSON has it: in manifests, reports, and between processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Facts = Mapping[str, Any]  # of strings, numbers, booleans, None, lists and mappings of these
