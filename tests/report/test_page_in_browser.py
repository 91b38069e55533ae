"""The page in a real browser: it pages and filters, obeys the keyboard, sends no request, and runs no text."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulsh.report.page import missing_requirement, write_passages_page
from gpulsh.run.files import deduplicate_files
from gpulsh.run.passages.files import passages_files
from tests.support.browser import CHROMIUM, Tab, browser
from tests.support.files import write_rows

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
    pytest.mark.skipif(missing_requirement() is not None, reason="jinja2 is not installed"),
]

HOSTILE = "</script><script>hacked = 1</script><img src=x onerror='hacked = 2'>\u202e\u2066\0\x1b"
CLUSTERS = 12
SHOWN = "[...document.querySelectorAll('details.cluster')].filter((one) => !one.hidden)"
STATUS = "document.querySelector('[role=status]').textContent"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    folder = tmp_path_factory.mktemp("page")
    rows = []
    for number in range(CLUSTERS):
        text = f"{HOSTILE} {' '.join(f'w{number}x{place}' for place in range(40))}"
        copies = [text, text + " more", *([text + " again"] * (number == 0))]
        rows += [{"id": f"{HOSTILE}{number}.{place}", "text": text} for place, text in enumerate(copies)]
    path = write_rows(folder / f"{'a_name_' * 20}<img src=x onerror='hacked = 3'>.jsonl", rows)
    deduplicate_files(path, folder / "out", id_column="id", backend="reference")
    with browser(folder / "browser") as tab:
        tab.open(folder / "out/report.html")
        yield tab


def test_the_page_turns_filters_and_searches(tab: Tab) -> None:
    def press(words: str) -> None:
        buttons = "[...document.querySelectorAll('button')]"
        tab.run(f"{buttons}.find((one) => one.textContent.startsWith('{words}')).click()")

    assert tab.run(f"{SHOWN}.length") == 8 and tab.run(STATUS) == f"1–8 of {CLUSTERS}"
    press("Next")
    assert tab.run(f"{SHOWN}.length") == CLUSTERS - 8 and tab.run(STATUS) == f"9–{CLUSTERS} of {CLUSTERS}"
    press("largest")
    assert tab.run(STATUS) == "1–1 of 1"  # with more than one dropped document
    press("all")
    for wanted, status in (("W7X3", "1–1 of 1"), ("nowhere", "none"), ("", f"1–8 of {CLUSTERS}")):
        tab.run(f"box = document.querySelector('input'); box.value = '{wanted}'; box.dispatchEvent(new Event('input'))")
        assert tab.run(STATUS) == status


def test_the_keyboard_opens_a_cluster(tab: Tab) -> None:
    tab.run("document.querySelector('details.cluster summary').focus()")
    tab.key("Enter", 13, "\r")
    assert tab.run("document.querySelector('details.cluster').open")
    assert "w0x39" in tab.run("document.querySelector('details.cluster .text').innerText")


def test_no_width_makes_the_page_scroll_sideways(tab: Tab, tmp_path: Path) -> None:
    for width, dark in ((360, False), (800, True)):
        tab.picture(tmp_path / "page.png", width, dark=dark)
        assert tab.run("document.documentElement.scrollWidth") <= width
        light = tab.run("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
        assert (light < 128) == dark
        heights = "[...document.querySelectorAll('.about code')].map((one) => one.getBoundingClientRect().height)"
        assert 0 < tab.run(f"Math.max(...{heights})") < 30  # a line: no command is broken after a hyphen


def test_hostile_text_runs_no_code_and_makes_no_request(tab: Tab) -> None:
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert tab.run("typeof hacked") == "undefined"
    assert tab.run("document.querySelectorAll('img, [onerror]').length + document.scripts.length") == 1
    assert not tab.errors and len(tab.requests) == 1
    # Were a text ever to become a tag, the policy in the page's head refuses it.
    tab.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"hacked = 4\">')")
    tab.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'hacked = 5'}))")
    assert tab.run("typeof hacked") == "undefined" and "Content Security Policy" in tab.errors[0]


def test_the_page_of_passages_fits_a_phone(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one two three four five"}\n' * 3)
    passages_files(tmp_path / "a.jsonl", tmp_path / "out", tokens=5, backend="reference")
    report = json.loads((tmp_path / "out/report.json").read_text())
    report["passages"] |= {"bytes": 19_208_219, "bytes_marked": 9_661_213}
    report["windows"] = [{"least": 257, "most": 1024, "distinct": 301_867, "before": 317_220, "after": 20_177}]
    write_passages_page(tmp_path / "page.html", report)
    with browser(tmp_path / "browser") as tab:
        tab.open(tmp_path / "page.html")
        tab.picture(tmp_path / "page.png", 390, dark=False)
        tables = "[...document.querySelectorAll('.scroll')]"
        assert tab.run(f"{tables}.map((one) => one.clientWidth < one.scrollWidth)") == [False] * 3
