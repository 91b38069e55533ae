"""One question a file: TITLE and `run(bench) -> Found`."""

CASES = ("roofline", "endtoend", "kernels", "shapes", "growth", "rivals")
