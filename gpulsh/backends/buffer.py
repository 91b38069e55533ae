"""Device memory that another library owns, as any array library takes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class DeviceBuffer:
    """`size` bytes at `pointer` on the current device; `owner` keeps them alive as long as an array is made of them."""

    pointer: int
    size: int
    owner: object
    event: int = 0  # a cudaEvent_t to wait for before the bytes are read; 0: none
    stream: int | None = None  # they are written on, in the words of the CUDA array interface; None: they are there

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "version": 3,
            "typestr": "|u1",
            "shape": (self.size,),
            "data": (self.pointer if self.size else 0, True),
            "stream": self.stream,
        }
