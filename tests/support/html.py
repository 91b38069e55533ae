"""Parsed and checked HTML: every tag is closed."""

from html.parser import HTMLParser


class Html(HTMLParser):
    """The tags with their attributes; the text without style and script, in <bdi> (`inside`) and elsewhere."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.inside, self.outside = "", "", ""
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert not self._open, f"never closed: {self._open}"
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        self.text += "" if {"style", "script"} & {*self._open} else data
        self.inside += data if "bdi" in self._open else ""
        self.outside += "" if "bdi" in self._open else data
