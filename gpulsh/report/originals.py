"""The files that a finished run read, found again where they are as they were."""

from __future__ import annotations

from dataclasses import replace

from gpulsh.errors import InputError
from gpulsh.facts import Facts
from gpulsh.io.file import File
from gpulsh.io.files.form import Form
from gpulsh.io.files.inputs import find_files


class Originals:
    """By their numbers, as the report lists them."""

    def __init__(self, report: Facts) -> None:
        self._sources = sources = [source for source in report["sources"] for _ in range(source["files"])]
        self.named = [
            File(entry["file"], "", entry["file"], source=source["input"])
            for entry, source in zip(report["files"], sources, strict=True)
        ]
        self._parameters, self._stamps = report["parameters"], report["job"]["inputs"]
        self._form = Form.restored(self._parameters)
        self._known: dict[str, dict[str, File]] = {}

    def asked(self) -> list[int]:
        """Those whose documents may be dropped."""
        return [number for number, source in enumerate(self._sources) if not source["protected"]]

    def find(self, number: int) -> File:
        """The file to be read; InputError where it is not there, or was changed since the run."""
        name, source = self.named[number].name, self.named[number].source
        if source not in self._known:
            self._known[source] = {}
            self._known[source] = {file.name: file for file in find_files([source], form=self._form, again=True)}
        file = self._known[source].get(name)
        if file is None:
            raise InputError(f"{name}: is not where it was")
        if file.stamp() != self._stamps.get(name):
            raise InputError(f"{name}: was changed since the run")
        intact_only = self._parameters["on_error"] == "skip"
        return replace(file, intact_only=intact_only)
