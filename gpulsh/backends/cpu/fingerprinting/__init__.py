"""Numba kernels from UTF-8 to token hashes, fingerprints and exact hashes: of a chunk of documents, or of a piece.

Public hashes and evidence differ in the keys alone, which every kernel is given. Loops take whole vectors, for which
arrays have room behind their last word.

A first run waits until all this is compiled, for each statement about as long. So vectors are written as such, which
spares the compiler its search for them, and most arrays are given as their address, which is one number where an array
is seven.
"""
