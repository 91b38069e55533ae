"""One measurement: which case, engine, texts and threads. It crosses to a fresh interpreter as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Job:
    """work names an entry of the case's WORK; answer is a path where the child saves what it found, for checking."""

    case: str
    work: str
    engine: str
    corpus: str
    threads: int = 1
    threshold: float = 0.8
    rows: int | None = None
    answer: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        return cls(**json.loads(text))
