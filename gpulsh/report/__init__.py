"""The report of a run: evidence summed up, the printed summary, the page, and a second look at INPUT."""
