"""Near-duplicate documents found and removed: MinHash, LSH and exact verification on CUDA and CPU."""

__version__ = "0.1.0"
