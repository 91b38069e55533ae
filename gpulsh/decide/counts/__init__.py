"""Uses of duplicates other than to drop them: counts of the documents that a kept one represents, and marks."""
