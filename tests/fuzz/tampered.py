"""Work folders of interrupted runs and indexes, tampered with by somebody who makes every checksum right again."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import trees
from tests.fuzz.case import Case
from tests.fuzz.damage import damaged
from tests.fuzz.server import Server

ENDS = (3, 6, 10, 14, 20, 28, 1000)  # renames at which the runs were interrupted; the last are those of its results
COMMON = ["--memory", "512MiB", "--backend", "cpu", "--threads", "1"]
RUNS = [["--id-column", "url", "--on-error", "skip"], ["--keep", "score", "--id-column", "score"]]


class Grounds:
    """What cases begin from: folders made once by runs that were not tampered with."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server, self._folder = server, folder
        self._found: dict[str, list[tuple[Path, list[str]]]] = {}

    def of(self, name: str) -> list[tuple[Path, list[str]]]:
        """Folders with the arguments of what comes next."""
        if name not in self._found:
            self._found[name] = list((self._runs if name == "resume" else self._indexes)())
        return self._found[name]

    def _runs(self) -> Any:
        for number, options in enumerate(RUNS):
            for end in ENDS:
                folder = self._folder / f"run{number}-{end}"
                inputs(folder)
                arguments = ["dedup", "in", "-o", "out", *COMMON, *options]
                ended = self._server.run(folder, arguments, writes=["out"], end_at=end)
                assert ended.status in (0, 130), ended
                if ended.status == 130 and (folder / "out/_work/manifest.jsonl").exists():
                    yield folder, arguments

    def _indexes(self) -> Any:
        for name, more in (("keyed", ["--id-column", "url"]), ("placed", []), ("numbered", ["--id-column", "score"])):
            folder = self._folder / f"index-{name}"
            inputs(folder)
            for verb, file in (("build", "in/a.jsonl"), ("add", "in/b.jsonl")):
                command = ["index", verb, "index", file, "--backend", "cpu", *more]
                ended = self._server.run(folder, command, writes=["index"])
                assert ended.status == 0, ended
            yield folder, more


def inputs(folder: Path) -> None:
    """The same few documents in two files."""
    from tests.fuzz import case

    case.lay(folder)
    source = Random("inputs")
    words = [f"w{number}" for number in range(200)]
    pages = [" ".join(source.choices(words, k=30)) for _ in range(20)]
    for name in ("a", "b"):
        with open(folder / f"in/{name}.jsonl", "w") as lines:
            for number in range(30):
                text = source.choice(pages).split()
                text[3] = source.choice([text[3], text[3], "changed"])
                row = {"text": " ".join(text), "url": f"{name}{number}", "score": 100 * (name == "b") + number}
                lines.write(json.dumps(row) + "\n")


def make(case: Case, folder: Path, grounds: Grounds) -> None:
    """A copy of a ground with one thing or a few changed, and the command that comes upon it."""
    source = case.source()
    ground, given = source.choice(grounds.of(case.format))
    shutil.copytree(ground, folder, dirs_exist_ok=True, symlinks=True)
    case.honest = False
    if case.format == "resume":
        for _ in range(source.choice([1, 1, 1, 2, 3])):
            case.damage.append(_tamper_work(source, folder / "out/_work"))
        case.arguments = [*given, source.choice(["--resume", "--resume", "--resume", "--overwrite"])]
        return
    for _ in range(source.choice([1, 1, 1, 2, 3])):
        case.damage.append(_tamper_index(source, folder / "index"))
    verb = source.choice(["query", "query", "query", "add", "compact", "dedup"])
    if verb == "compact":
        case.arguments, case.writes = ["index", verb, "index"], ["index"]
    elif verb == "dedup":
        index = ["--index", "index", "--backend", "cpu", "--memory", "512MiB"]
        case.arguments, case.writes = ["dedup", "in/a.jsonl", "-o", "out", *index, *given], ["index", "out"]
    else:
        more = ["--every"] if verb == "query" and source.random() < 0.3 else []
        case.arguments = ["index", verb, "index", "in/b.jsonl", "--backend", "cpu", *given, *more]
        case.writes = [] if verb == "query" else ["index"]


def _tamper_work(source: Random, work: Path) -> str:
    manifest = work / "manifest.jsonl"
    files = sorted(path for path in work.rglob("*") if path.is_file() and path.name not in ("manifest.jsonl", "lock"))
    how = source.random() if manifest.is_file() else 0.9
    entries = _lines(manifest)
    if how < 0.35 and entries:
        place = source.randrange(len(entries))
        entries[place] = trees.changed(source, entries[place], source.choice([1, 1, 2]))
        _write_lines(manifest, entries)
        return f"manifest line {place}"
    if how < 0.42 and entries:
        again = [source.choice(entries) for _ in range(source.randint(1, 3))]
        _write_lines(manifest, source.choice([entries[::-1], entries + again, entries[1:], entries[:-1]]))
        return "manifest lines"
    if how < 0.47:
        step = {"step": source.choice(["commit", "sign-000000", "x"]), "files": {}, "facts": {}}
        names = [source.choice(trees.NAMES) for _ in range(2)]
        facts = source.choice([{"replaced": names}, {"replaced": ["../beside"]}, {"replaced": None}, {}])
        _write_lines(manifest, [*entries, {**step, "facts": facts}])
        return f"a step {step['step']} with {facts}"
    if how < 0.87 and files:
        path = source.choice(files)
        note = _tamper_file(source, path)
        _mend_lines(manifest, entries, work, path)
        return f"{path.relative_to(work)}: {note}"
    if how < 0.94:
        return _plant(source, work)
    content, note = damaged(source, manifest.read_bytes() if manifest.exists() else b"")
    manifest.write_bytes(content)
    return f"manifest: {note}"


def _tamper_index(source: Random, index: Path) -> str:
    manifest = index / "index.json"
    files = sorted(path for path in index.glob("*.arrow") if path.is_file())
    how = source.random() if manifest.is_file() else 0.9
    if how < 0.4:
        try:
            told = json.loads(manifest.read_bytes().partition(b"\n")[2])
        except ValueError:
            return "nothing"
        _write_told(manifest, trees.changed(source, told, source.choice([1, 1, 2])))
        return "manifest"
    if how < 0.88 and files:
        path = source.choice(files)
        note = _tamper_file(source, path)
        try:
            told = json.loads(manifest.read_bytes().partition(b"\n")[2])
            kind, _, name = path.stem.partition("-")
            for part in [*told["segments"], *([told["removed"]] if told["removed"] else [])]:
                if part["name"] == name and path.is_file():
                    part["files"][kind] = _fact(path)
        except (ValueError, KeyError, TypeError):
            return f"{path.stem.partition('-')[0]}: {note}"
        _write_told(manifest, told)
        return f"{path.stem.partition('-')[0]}: {note}"
    if how < 0.95:
        return _plant(source, index)
    content, note = damaged(source, manifest.read_bytes())
    manifest.write_bytes(content)
    return f"manifest: {note}"


def _tamper_file(source: Random, path: Path) -> str:
    """The file with damage or other values, or another file in its place."""
    content = path.read_bytes()
    others = [other for other in sorted(path.parent.iterdir()) if other.is_file() and other.suffix == path.suffix]
    how = source.random()
    if how < 0.1 and others:
        other = source.choice(others)
        path.write_bytes(other.read_bytes())
        return f"is now a copy of {other.name}"
    if how < 0.2:
        return _with_values(source, path)
    note = ""
    for _ in range(source.choice([1, 1, 2])):
        content, note = damaged(source, content)
    path.write_bytes(content)
    return note


def _with_values(source: Random, path: Path) -> str:
    """A well-formed file with other numbers, fewer rows or other types."""
    import pyarrow as pa

    from tests.fuzz.damage import integer

    try:
        rows = pa.ipc.open_file(path.read_bytes()).read_all()
    except (pa.ArrowException, OSError):
        return "nothing"
    if rows.num_columns == 0:
        return "nothing"
    place = source.randrange(rows.num_columns)
    kind, name = rows.column(place).type, rows.column_names[place]
    how = source.choice(["numbers", "numbers", "numbers", "rows", "type", "nulls", "gone"])
    if how == "numbers" and pa.types.is_integer(kind) and len(rows):
        bits = kind.bit_width
        values = rows.column(place).to_pylist()
        for _ in range(source.choice([1, 1, 3])):
            value = integer(source, bits)
            unsigned = pa.types.is_unsigned_integer(kind)
            values[source.randrange(len(values))] = value & (1 << bits) - 1 if unsigned else value
        rows = rows.set_column(place, name, pa.array(values, kind))
    elif how == "type":
        other = source.choice([pa.int64(), pa.string(), pa.float64(), pa.uint8(), pa.list_(pa.int64()), pa.null()])
        rows = rows.set_column(place, name, pa.nulls(len(rows), other))
    elif how == "nulls":
        rows = rows.set_column(place, name, pa.nulls(len(rows), kind))
    elif how == "gone":
        rows = rows.drop_columns([name])
    else:
        how = "rows"
        turned = pa.concat_tables([rows.slice(1), rows.slice(0, 1)])
        rows = source.choice([rows.slice(0, 0), rows.slice(1), turned, pa.concat_tables([rows] * 3)])
    with pa.ipc.new_file(str(path), rows.schema) as out:
        out.write_table(rows.combine_chunks())
    return f"{how} of {name}"


def _plant(source: Random, folder: Path) -> str:
    """A link or a file where gpulsh has its own, or beside them."""
    names = [path.name for path in folder.iterdir() if path.name != "data"]
    name = source.choice([*names, "replaced", "data", "duplicates.parquet", "report.json", "x.part"])
    path = folder / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    depth = "../../" if folder.name == "_work" else "../"
    target = source.choice(["beside", "beside/precious.txt", "in", "in/a.jsonl", "nowhere"])
    kind = source.choice(["link", "link", "folder", "file", "fifo"])
    if kind == "link":
        path.symlink_to(depth + target)
        return f"{name} is a link to {target}"
    if kind == "folder":
        path.mkdir()
        (path / "file").write_text("a")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes(source.choice([b"", b"{}", b'{"gpulsh": 1, "outputs": ["../beside/precious.txt"]}']))
    return f"{name} is a {kind}"


def _fact(path: Path) -> dict[str, int]:
    content = path.read_bytes()
    return {"size": len(content), "crc32": zlib.crc32(content)}


def _lines(manifest: Path) -> list[Any]:
    found = []
    for line in manifest.read_bytes().splitlines() if manifest.is_file() else ():
        try:
            found.append(json.loads(line.partition(b" ")[2]))
        except ValueError:
            break
    return found


def _write_lines(manifest: Path, entries: list[Any]) -> None:
    contents = [json.dumps(entry, sort_keys=True).encode() for entry in entries]
    manifest.write_bytes(b"".join(b"%08x %s\n" % (zlib.crc32(content), content) for content in contents))


def _mend_lines(manifest: Path, entries: list[Any], work: Path, path: Path) -> None:
    name = path.relative_to(work).as_posix()
    for entry in entries:
        files = entry.get("files") if isinstance(entry, dict) else None
        if isinstance(files, dict) and name in files:
            files[name] = _fact(path)
    if entries:
        _write_lines(manifest, entries)


def _write_told(manifest: Path, told: Any) -> None:
    content = json.dumps(told, sort_keys=True, indent=1).encode() + b"\n"
    manifest.write_bytes(b"crc32 %08x\n" % zlib.crc32(content) + content)
