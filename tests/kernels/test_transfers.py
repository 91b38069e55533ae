"""What crosses between the host and the device from `sign` to the result: counts, and texts that the device lacks."""

from typing import Any

import pytest

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.cuda.launcher import Geometry
from gpulsh.backends.cuda.memory import HELD, RESIDENT
from gpulsh.errors import DeviceMemoryError
from gpulsh.io.memory.texts import open_texts
from gpulsh.method import Method
from gpulsh.run.memory import decide, sign
from gpulsh.secret import chosen_secret, evidence_keys
from gpulsh.stats.stages import Progress
from tests.kernels.cuts import assert_decisions, build_kernels, texts
from tests.kernels.device_arrays import DeviceModule, Transfer, counted_transfers
from tests.kernels.host import HostLauncher

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("in_one_order")]
DOCUMENTS = 300
BATCH = 20_000  # bytes of text
FEW = 16  # items of an array


def backend(held: int = 1 << 30, batch: int = BATCH) -> CudaBackend:
    """A backend that may hold so many bytes of texts."""
    build_kernels()
    ops = CudaBackend(DeviceModule(), HostLauncher(), Geometry(text_bytes=batch))
    ops._room = {RESIDENT: 1 << 30, HELD: held}
    return ops


def decided(documents: Any, ops: CudaBackend, **options: Any) -> tuple[gpulsh.Decision, list[Transfer]]:
    """A decision, and what crossed after `sign`."""
    method, keys = Method.chosen(**options), evidence_keys(chosen_secret(None))
    source = open_texts(documents, ops)
    signed = sign(source, method, keys, ops, Progress())
    with counted_transfers() as found:
        decision = decide(signed, source, None, method, keys, ops, Progress())
    return decision, found


@pytest.mark.parametrize("options", [{"resolve": "components"}, {"also": gpulsh.SimHash()}])
def test_no_array_of_documents_crosses_to_the_host(options: dict[str, Any]) -> None:
    documents = texts(DOCUMENTS)
    decision, found = decided(documents, backend(), **options)
    assert_decisions(decision, gpulsh.deduplicate(documents, backend="reference", **options))
    assert decision.funnel.near_duplicates > DOCUMENTS // 20
    to_host = [one for one in found if one.to_host]
    assert max(one.items for one in to_host) <= FEW
    assert sum(one.nbytes for one in to_host) < DOCUMENTS * 8


def test_of_large_buckets_only_their_own_documents_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", 8)
    page = [f"word{number}" for number in range(60)]
    crowd = [" ".join([*page, f"own{number}"]) for number in range(12)]
    documents = [*texts(DOCUMENTS), *crowd]
    decision, found = decided(documents, backend())
    assert_decisions(decision, gpulsh.deduplicate(documents, backend="reference"))
    assert decision.funnel.crowded == len(crowd)
    bands = Method.chosen().banding.bands
    assert FEW < max(one.items for one in found if one.to_host) <= len(crowd) * bands < DOCUMENTS


@pytest.mark.parametrize("batch", [BATCH, 3000])
def test_only_the_texts_that_the_device_lacks_are_read_again(batch: int) -> None:
    documents = texts(100)
    wanted = gpulsh.deduplicate(documents, backend="reference")
    size = sum(len((text or "").encode()) for text in documents)
    crossed = []
    for held in (1 << 30, size // 2, 0):
        decision, found = decided(documents, backend(held, batch))
        assert_decisions(decision, wanted)
        crossed.append(sum(one.nbytes for one in found if not one.to_host))
    assert crossed[0] < crossed[1] < crossed[2]


def test_texts_are_read_again_if_memory_does_not_hold_those_that_met(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = texts(60)

    def gather(self: CudaBackend, *given: Any) -> TextBatch:
        raise DeviceMemoryError("no memory")

    monkeypatch.setattr(CudaBackend, "gather", gather)
    assert_decisions(decided(documents, backend())[0], gpulsh.deduplicate(documents, backend="reference"))


def test_normalized_texts_and_texts_of_a_device_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaBackend, "hold", None)
    documents = ["e\u0301 one two three four five", None, "é one two three four five", "", "six"] * 3
    for options in ({"folding": gpulsh.Folding(form="NFC")}, {"verify": "none"}):
        wanted = gpulsh.deduplicate(documents, backend="reference", **options)  # type: ignore[arg-type]
        assert_decisions(decided(documents, backend(), **options)[0], wanted)
