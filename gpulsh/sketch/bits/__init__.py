"""Signatures of bits, and the distance between them."""
