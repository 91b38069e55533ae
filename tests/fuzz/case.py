"""One case: a folder with files, a command on them, and what the judge has to know of it.

in/      what is read
out/     OUT; nothing else may be made or changed
index/   an index
beside/  what must stay as it is and must not be read
tmp/     for temporary files, of which none may stay
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

NAME = "case.json"
PRECIOUS = "precious.txt"


@dataclass
class Case:
    """The command runs in the case's folder, so all paths are relative to it."""

    format: str
    seed: str
    number: int
    arguments: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)  # the faults of the files, in words
    writes: list[str] = field(default_factory=lambda: ["out"])  # paths that the command may make or change
    honest: bool = True  # whether status 0 promises right results: not where a test says so
    large: bool = False  # whether it holds hundreds of megabytes, which take their time
    target: str = "gpulsh.cli:main"

    def source(self) -> Random:
        """The case's own random numbers, the same on every machine."""
        return Random(f"{self.seed}/{self.format}/{self.number}")

    def noted(self, damaged: tuple[bytes, str]) -> bytes:
        """Record the name of the damage; returns the damaged bytes."""
        content, name = damaged
        self.damage.append(name)
        return content

    def save(self, folder: Path) -> None:
        (folder / NAME).write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Case:
        return cls(**json.loads((folder / NAME).read_text()))


def make_folders(folder: Path) -> None:
    for name in ("in", "beside", "tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "beside" / PRECIOUS).write_text("must stay as it is\n")


OPTIONS = [  # with how likely each is given
    (0.45, ["--on-error", "skip"]),
    (0.15, ["--write", "duplicates"]),
    (0.15, ["--shingle", "word:2"]),
    (0.15, ["--shingle", "char:5"]),
    (0.1, ["--threshold", "0.5"]),
    (0.1, ["--threshold", "1.0"]),
    (0.1, ["--resolve", "components"]),
    (0.1, ["--keep", "longest"]),
    (0.05, ["--backend", "reference"]),
    (0.3, ["--json"]),
    (0.05, ["--verify", "signature"]),
]


def options(source: Random, ids: list[str], keys: list[str], large: bool = False) -> list[str]:
    """Options of `dedup`; `ids` and `keys` are columns that may be named by it.

    Not the reference backend for `large` documents: it would take minutes.
    """
    given: list[str] = ["--memory", "512MiB", "--threads", source.choice(["1", "2"])]
    taken: set[str] = set()
    for likely, option in source.sample(OPTIONS, len(OPTIONS)):
        if source.random() < likely and option[0] not in taken:
            taken.add(option[0])
            given += option
    if ids and source.random() < 0.4:
        given += ["--id-column", source.choice(ids)]
    if keys and "--keep" not in taken and source.random() < 0.3:
        given += ["--keep", source.choice(keys)]
    if "--backend" not in taken:
        given += ["--backend", "cpu"]
    return ["cpu" if large and each == "reference" else each for each in given]


WORDS = [f"w{number}" for number in range(60)]
WORDS += ["é", "Éclair", "слово", "λόγος", "שלום", "हिन्दी", "漢字", "カー", "ไทย", "a\u0301", "İ", "ß", "x_y", "don't"]
ODD = ["", " ", "\n", "\0", "...", "\ufeff", "\u202e", "\x1b[31m", "\u2028"]
ODD += ["a" * 5000, "é" * 300, "- " * 400, "漢" * 200, "🙂"]


def documents(source: Random, most: int = 24) -> list[str | None]:
    found: list[str | None] = []
    for _ in range(source.randint(0, most)):
        known = [text for text in found if text]
        kind = source.random()
        if known and kind < 0.2:  # a copy, perhaps in other letters
            text = source.choice(known)
            found.append(source.choice([text, text.upper(), text.replace(" ", ",  "), text + "!"]))
        elif known and kind < 0.45:  # nearly
            words = source.choice(known).split(" ")
            words[source.randrange(len(words))] = source.choice(WORDS)
            found.append(" ".join(words[: source.choice([len(words), len(words), -1])]))
        elif kind < 0.53:
            found.append(None)
        elif kind < 0.62:
            found.append(source.choice(ODD))
        else:
            found.append(" ".join(source.choices(WORDS, k=source.choice([1, 3, 6, 20, 40, 40, 90]))))
    return found
