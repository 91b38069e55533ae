"""One file a case: TITLE, WORK (what a child can be asked to time) and run(bench)."""

CASES = (
    "signature",
    "candidates",
    "endtoend",
    "datatrove",
    "files_to_files",
    "quality",
    "licences",
    "roofline",
    "startup",
    "job_ads",
    "hot_buckets",
    "shared_sentences",
    "sketches",
    "operations",
    "methods",
    "families",
    "hamming",
    "index_growth",
    "drop_in",
    "foretell",
)
