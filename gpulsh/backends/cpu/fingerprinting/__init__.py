"""Numba kernels from UTF-8 to token hashes, fingerprints and exact hashes: of a chunk of documents, or of a piece.

Public hashes and evidence differ only in the keys, which every kernel is given. Loops take whole vectors, so arrays
have room after their last word.

A first run waits until all this is compiled, and each statement takes about as long. So vectors are written explicitly,
which spares the compiler its search for them. Most arrays are given by address, one number instead of seven.
"""
