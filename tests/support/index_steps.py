"""Steps in the life of an index, one commit each."""

from pathlib import Path
from typing import Any

from gpulsh import Index, Shingling

BACKEND: Any = "reference"
# As far apart as lets every document of `take` be similar to one of them.
ASKED = [" ".join(f"w{i}" for i in range(start, start + 12)) for start in range(0, 43, 6)]


def new_index() -> Index:
    return Index(threshold=0.5, shingling=Shingling(size=2), num_perm=16, bands=8, rows=2, backend=BACKEND)


def take(index: Index, step: int) -> None:
    """Change the index by one step, without a commit; only a compacting step commits."""
    texts = [" ".join(f"w{(step * 5 + k * 2 + i) % 50}" for i in range(12)) for k in range(3)]
    index.add([f"{step}-{k}" for k in range(3)], texts)
    if step % 3 == 2 and f"{step - 2}-0" in index:
        index.remove([f"{step - 2}-0"])
    if step % 4 == 3:
        index.compact()


def live(path: Path, step: int) -> None:
    with Index.open(path, backend=BACKEND) as index:
        take(index, step)
        index.save()


def state(index: Index) -> Any:
    """All answers of the index."""
    found = index.query(ASKED)
    return len(index), index.dropped(), found.positions.tolist(), found.keys.tolist(), found.similarity.tolist()


def generation(index: Index) -> int:
    """The number of its commits: the first one has no document, and each step adds one."""
    return index.collection.folder.manifest.generation
