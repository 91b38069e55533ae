"""`cuda`, the CUDA backend in every cut, and the marker of tests that run on a device."""

import pytest

from gpulsh.backends.cuda import CudaBackend
from tests.kernels import host
from tests.kernels.cuts import EVERY_CUT, SOME, build_kernels, cuda_backend, install, on_device


@pytest.fixture(scope="session")
def kernels_built() -> None:
    build_kernels()


@pytest.fixture
def in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the threads of kernels in random order only: other tests, and ./ci/soak, run them in every order."""
    if not EVERY_CUT:
        monkeypatch.setattr(host, "ORDERS", {"random": host.ORDERS["random"]})


@pytest.hookimpl(tryfirst=True)  # before pytest looks at markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that run on a device; a choice by name would take host-run modules, too."""
    for item in items:
        if hasattr(item, "callspec") and on_device(item.callspec.params.get("cuda", "")):
            item.add_marker("device")


@pytest.fixture(scope="session", params=SOME)
def cuda(request: pytest.FixtureRequest) -> CudaBackend:
    return cuda_backend(request.param)


@pytest.fixture
def selected(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> CudaBackend:
    """`backend="cuda"` and "auto" take the backend under test."""
    return install(monkeypatch, cuda)
