"""Decides which documents are kept: folds copies, compares candidate pairs, resolves duplicates."""
