"""`ops`: every backend that must equal the reference, in every cut of its work. A test that takes it judges each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpulsh.backends.protocol import Backend
from tests.backends.parity import agreement
from tests.backends.parity.cuts import CPU, EVERY
from tests.kernels.cuts import cuda_backend


@pytest.fixture(scope="module", params=EVERY)
def ops(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """The backend under test."""
    if request.param not in CPU:
        yield cuda_backend(request.param)
        return
    from gpulsh.backends.cpu import CpuBackend  # not where Numba is missing, as it may where a device is
    from tests.support.bounds import set_bounds

    threads, bounds = CPU[request.param]
    with pytest.MonkeyPatch.context() as patch:
        if bounds:
            set_bounds(patch, *bounds)
            patch.setattr("gpulsh.backends.cpu.buckets.PARTITION_BITS", 4)
        yield CpuBackend(threads)


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """What the reference said is kept for the other backends of a module."""
    yield
    agreement.forget()
