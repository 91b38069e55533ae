"""Uses of duplicates other than to drop them: counts of what a kept document stands for, and marks."""
