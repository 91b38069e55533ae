"""A sample of files, as files of the same formats: a share of the rows of some files, evenly spread over all."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from gpulsh.errors import InputError
from gpulsh.io.file import File
from gpulsh.io.format import spread
from gpulsh.io.formats.endings import format_of

FEWEST, MOST = 16, 4096  # sampled files, where there are as many


@dataclass
class SampledFiles:
    """A sample in `folder`."""

    folder: Path
    folders: dict[str, str] = field(default_factory=dict)  # of each INPUT with a sampled file
    names: dict[str, str] = field(default_factory=dict)  # of the files, by the paths of their samples
    share: float = 0.0  # of the bytes of all files

    @classmethod
    def of(cls, files: Sequence[File], share: float, folder: Path, protected: Sequence[str] = ()) -> Self:
        """A sample of about that share, 0 to 1, of the `protected` INPUTs and of all others, in a new `folder`."""
        sample, taken = cls(folder), 0.0
        folder.mkdir()
        for apart in (True, False):
            some = [file for file in files if (file.source in protected) == apart]
            chosen = spread(some, min(max(FEWEST, math.ceil(share * len(some))), MOST))
            each = min(share * len(some) / max(len(chosen), 1), 1.0)
            taken += sum(sample._add(file, each) for file in chosen)
        sample.share = taken / max(bytes_of(files), 1)
        return sample

    def _add(self, file: File, share: float) -> float:
        """Sample a share of the file; the bytes of the file that it covers."""
        own = Path(self.folders.setdefault(file.source, str(self.folder / str(len(self.folders)))))
        own.mkdir(exist_ok=True)
        # The number keeps the order, and makes names unique.
        path = str(own / f"{len(self.names):06d}-{os.path.basename(file.path)}")
        self.names[path] = file.name
        return bytes_of([file]) * format_of(file).write_sample(file, share, path)


def bytes_of(files: Sequence[File]) -> int:
    """Bytes of the files; InputError if a storage service does not report a size."""
    found = 0
    for file in files:
        size = file.size()
        if size is None:
            raise InputError(f"{file.name}: its storage does not report a size, and an estimate needs one")
        found += size
    return found
