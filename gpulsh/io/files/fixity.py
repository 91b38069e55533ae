"""Fixity: whether a file is still what the run found when it began, and what its earlier readings read.

A file is read more than once: signed, some of its texts compared, its ids asked for, its kept rows copied. Decisions
about rows of one content must not be carried out on another. So each stage compares size and time of change behind its
reading, and the run all of them before its results are in place; and each reading compares what it read with what
`sign` did, by a digest, for both can be set back. What is digested is what a format reads however few rows are wanted:
the bytes of the file, or of a file of columns the texts. Digests are keyed by a secret of the run, so that content
cannot be made to fit one.

Rejected: a digest a document, 8 bytes on disk for each; SHA-256, which took 5 % of a run (`backends.cpu.content`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch
from gpulsh.errors import ChangedInputError, InputError
from gpulsh.io.file import File, Stamp, changed
from gpulsh.secret import draw_secret

DIGEST_BYTES = 8  # nobody can look for content that has a digest, and each reading that differs ends a run
READ_BYTES = 1 << 20
ASKED = 32  # remote files at once


class Digest:
    """A digest of bytes, however they are cut, or of texts."""

    def __init__(self, key: bytes) -> None:
        self._keys = _keys(key)
        self._hash = hashlib.blake2b(key=key, digest_size=DIGEST_BYTES)
        self._rest = b""  # less than a block of bytes

    def add_texts(self, texts: TextBatch) -> None:
        """The texts of a batch on the host, one after another."""
        from gpulsh.backends.cpu.content import content_sums

        self._hash.update(content_sums(texts.values, texts.offset, self._keys).data)

    def add(self, content: bytes | memoryview) -> None:
        """Bytes that follow those before."""
        from gpulsh.backends.cpu.content import BLOCK

        view = memoryview(content)
        if self._rest:
            missing = BLOCK - len(self._rest)
            self._rest, view = self._rest + bytes(view[:missing]), view[missing:]
            if len(self._rest) < BLOCK:
                return
            self._add_blocks(memoryview(self._rest))
        whole = len(view) - len(view) % BLOCK
        self._add_blocks(view[:whole])
        self._rest = bytes(view[whole:])

    def _add_blocks(self, content: memoryview) -> None:
        from gpulsh.backends.cpu.content import BLOCK, content_sums

        if content:
            offset = np.array([*range(0, len(content), BLOCK), len(content)])
            self._hash.update(content_sums(np.frombuffer(content, np.uint8), offset, self._keys).data)

    def value(self) -> str:
        """Hexadecimal, of all that was added; nothing can be added behind it."""
        self._add_blocks(memoryview(self._rest))
        self._rest = b""
        return self._hash.hexdigest()


def digest_of(pieces: Iterable[bytes], key: bytes) -> str:
    """The digest of bytes in pieces."""
    digest = Digest(key)
    for piece in pieces:
        digest.add(piece)
    return digest.value()


@lru_cache(maxsize=8)
def _keys(key: bytes) -> NDArray[np.uint8]:
    from gpulsh.backends.cpu.content import KEY_BYTES

    return np.frombuffer(hashlib.shake_256(key + b"gpulsh content").digest(KEY_BYTES), np.uint8)


class Reading(ExitStack):
    """One reading of a file by a format that reads all its bytes in order: `file` in place of the file."""

    def __init__(self, file: File, key: bytes) -> None:
        super().__init__()
        self._key = key
        self._sources: list[_Source] = []
        self.file: File = _WatchedFile(**vars(file), reading=self)

    def begun(self, source: BinaryIO) -> BinaryIO:
        """The opened file, watched from here on."""
        self._sources.append(_Source(self.enter_context(source), Digest(self._key)))
        return self._sources[-1]  # type: ignore[return-value]

    def digests(self) -> list[str]:
        """Read on to the end; a digest of the file for each time that it was opened and read from its beginning."""
        return [found for source in self._sources if (found := source.digest()) is not None]


@dataclass(frozen=True)
class _WatchedFile(File):
    reading: Reading | None = None

    def open(self) -> BinaryIO:
        assert self.reading is not None
        return self.reading.begun(super().open())


class _Source:
    """A file open for reading, and the digest of what was read from its beginning on without a gap."""

    def __init__(self, source: BinaryIO, digest: Digest) -> None:
        self._source, self._digest = source, digest
        self._place = self._digested = 0
        self._whole, self._ended = True, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, size: int = -1) -> bytes:
        """As a file does."""
        content = self._source.read(size)
        self._ended = size < 0 or (size > 0 and not content)
        new = self._place + len(content) - self._digested
        if self._place > self._digested:
            self._whole = False
        elif new > 0 and self._whole:
            self._digest.add(memoryview(content)[len(content) - new :])
            self._digested += new
        self._place += len(content)
        return content

    def seek(self, place: int) -> int:
        """As a file does, from its beginning."""
        self._place, self._ended = self._source.seek(place), False
        return self._place

    def tell(self) -> int:
        """As a file does."""
        return self._place

    def close(self) -> None:
        """Nothing: what is left may be read for the digest."""

    def digest(self) -> str | None:
        """Return the digest of the whole file; None where parts of it were passed over."""
        if self._whole and not (self._ended and self._place == self._digested):
            self.seek(self._digested)
            while self.read(READ_BYTES):
                pass
        return self._digest.value() if self._whole else None


@dataclass(frozen=True)
class Fixity:
    """What the files of a run were when it began, and the key of the digests of what is read of them."""

    files: tuple[File, ...]
    stamps: tuple[Stamp, ...]
    key: bytes = field(repr=False)

    @classmethod
    def of(cls, files: Sequence[File], key: bytes | None = None) -> Self:
        """Note what files are now."""
        return cls(tuple(files), tuple(file.stamp() for file in files), key or draw_secret())

    @contextmanager
    def kept(self, numbers: Iterable[int]) -> Iterator[None]:
        """ChangedInputError where one of these files was changed before the context is left, however it is left."""
        try:
            yield
        except ChangedInputError:
            raise
        except Exception:
            self.check(numbers)  # it tells more than what a reader met in the middle of a change
            raise
        self.check(numbers)

    def check(self, numbers: Iterable[int]) -> None:
        """ChangedInputError where one of the files is not what it was when the run began."""
        wanted = list(dict.fromkeys(numbers))
        local = [number for number in wanted if self.files[number].filesystem is None]
        for number in local:
            self._check(number)
        if len(local) < len(wanted):
            with ThreadPoolExecutor(ASKED) as pool:
                for _ in pool.map(self._check, (number for number in wanted if number not in set(local))):
                    pass

    def check_all(self) -> None:
        """Check every file."""
        self.check(range(len(self.files)))

    def _check(self, number: int) -> None:
        file, before = self.files[number], self.stamps[number]
        try:
            now = file.stamp()
        except InputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise changed(file, "is not there any more") from None
            raise
        if now != before:
            raise changed(file, _told(before, now))

    def compare(self, number: int, expected: str | None, found: Iterable[str]) -> None:
        """ChangedInputError where what was read of a file has another digest than at first, if one is known."""
        if expected is not None and any(digest != expected for digest in found):
            raise changed(self.files[number], "holds something else than at first")


def _told(before: Stamp, now: Stamp) -> str:
    if before[0] != now[0]:
        return f"had {before[0]} bytes and has {now[0]}"
    return "was written to since the run began"
