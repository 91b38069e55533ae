"""Where documents come from and go to: texts in memory, files of several formats, in batches of bounded size."""
