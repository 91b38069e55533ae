"""The fingerprints of held documents: in blocks of files, or read again from their texts."""
