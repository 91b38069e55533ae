"""Results compared in type, shape and every bit, whatever they are made of."""

from typing import Any

import numpy as np

from gpulsh.arrays import Buckets, Rows, Signed, WeightedFingerprints


def same(found: Any, wanted: Any, asnumpy: Any = np.asarray) -> None:
    """Fails unless `found`, whose arrays `asnumpy` brings to the host, equals `wanted`."""
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b, asnumpy)
    elif isinstance(wanted, Rows | Buckets | Signed | WeightedFingerprints):
        assert type(found) is type(wanted)
        for name in vars(wanted):
            same(getattr(found, name), getattr(wanted, name), asnumpy)
    else:
        found = asnumpy(found)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)
