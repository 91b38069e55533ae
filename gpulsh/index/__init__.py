"""The index: documents found again after their texts are gone, in memory and on disk."""
