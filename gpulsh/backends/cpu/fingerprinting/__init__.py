"""Numba kernels from UTF-8 to token hashes, fingerprints and exact hashes: of a chunk of documents, or of a piece.

Public hashes and evidence differ only in the keys, which are an argument of every kernel. Loops work on whole vectors,
so arrays have spare room after their last word.

A first run waits for the compiler, whose time grows with the number of statements. So the code uses vectors explicitly,
which saves the compiler its search for them. Most arrays are passed by address, one number instead of seven.
"""
