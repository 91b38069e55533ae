"""datatrove: drops near-duplicates in a pipeline of one task, or of many tasks after a run of gpulsh.

    python examples/datatrove_pipeline.py INPUT... OUT

INPUT are folders of JSON lines with "text" and "id". OUT is a folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

import gpulsh
from gpulsh.compat.datatrove import ListedDuplicateFilter, NearDuplicateFilter


def main(inputs: list[str], out: str) -> None:
    readers = [JsonlReader(folder) for folder in inputs]  # one after another

    # One task: each document is compared with all that came before it. What is dropped is written, too, with evidence.
    stream = Path(out) / "stream"
    LocalPipelineExecutor(
        [
            *readers,
            NearDuplicateFilter(JsonlWriter(str(stream / "dropped")), threshold=0.8),
            JsonlWriter(str(stream / "kept")),
        ],
        logging_dir=str(stream / "logs"),
    ).run()

    # Many tasks: gpulsh decides over all files, and each task drops its own documents in the list.
    listed = gpulsh.deduplicate_files(inputs, Path(out) / "run", threshold=0.8, id_column="id", write="duplicates")
    many = Path(out) / "many"
    LocalPipelineExecutor(
        [*readers, ListedDuplicateFilter(listed.duplicates), JsonlWriter(str(many / "kept"))],
        tasks=2,
        workers=1,
        logging_dir=str(many / "logs"),
    ).run()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/datatrove_pipeline.py INPUT... OUT")
    if Path(sys.argv[-1]).exists():
        sys.exit(f"{sys.argv[-1]} exists already; give another OUT")
    main(sys.argv[1:-1], sys.argv[-1])
