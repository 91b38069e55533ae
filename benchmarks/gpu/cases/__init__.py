"""One question a file: TITLE, SECONDS (its part of the time that is planned), and `run(bench) -> Found`."""

CASES = ("roofline", "kernels", "endtoend", "shapes", "growth", "rivals")
