"""`ops`: the backends that must equal the reference, in some cuts of their work. A test that takes it judges each."""

from collections.abc import Iterator

import pytest

from gpulsh.backends.protocol import Backend
from tests.backends.parity import agreement
from tests.backends.parity.agreement import EXAMPLES, backend


@pytest.fixture(scope="module", params=EXAMPLES)
def ops(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with backend(request.param) as found:
        yield found


@pytest.fixture(scope="module", autouse=True)
def forget_results() -> Iterator[None]:
    """Keep the reference's results for the other backends of a module, then forget them."""
    yield
    agreement.forget()
