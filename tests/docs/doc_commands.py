"""Finds the commands that the documentation shows, as they stand on its pages."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "bench" / "PEERS.md",
)
PROGRAMS = ("make", "azrun", "azcluster", "azserver", "azclient", "azplay", "python")
"""Our programs. Others (cp, docker, ...) are not checked here."""
_FENCE = re.compile(r"^( *)```(\w*)")
_PROMPT = re.compile(r"^(?:[A-Z]?\$) ")
_COMMENT = re.compile(r"(?:^|\s{2,})#.*$")
_GRAMMAR = re.compile(r"\[-|\[[A-Z]|\.\.\.|\bRUN\||\|WEIGHTS")
"""Marks a line that shows the form of a command, such as `azplay games RUN list [--newest N]`."""


class Shown(NamedTuple):
    """A command on a page."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """Return the words of the command itself: without a pipe before it, a redirection behind it, or the
        path of the program."""
        last = re.split(r"\s\|\s(?=\S*(?:az|python))", self.text)[-1]
        words = shlex.split(re.split(r"\s[<>]\s|\s&$|\s(?:\|\||&&)\s", last)[0])
        words[0] = words[0].rpartition("/")[2]
        return words

    @property
    def is_grammar(self) -> bool:
        return bool(_GRAMMAR.search(self.text))


def blocks(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (language, lines) of each block of code; indented blocks have no language."""
    lines = iter([*page.splitlines(), ""])
    before, indented = "", []
    for line in lines:
        if fence := _FENCE.match(line):
            inside: list[str] = []
            for one in lines:
                if one.strip() == "```":
                    break
                inside.append(one)
            yield fence[2], inside
        elif line.startswith("    ") and (indented or not before.strip()):
            indented.append(line[4:])
        elif indented:
            yield "", indented
            indented = []
        before = line


def shown(path: Path) -> list[Shown]:
    """Return all our commands in blocks of code of the page at `path`."""
    found = []
    for language, lines in blocks(path.read_text(encoding="utf-8")):
        if language in ("", "sh", "console"):
            for line in _joined(lines):
                text = _COMMENT.sub("", _PROMPT.sub("", line)).strip()
                if _is_ours(text):
                    found.append(Shown(path.name, text))
    return found


def named(path: Path) -> list[Shown]:
    """Return all our commands between single backticks in the text of the page at `path`, whole or not."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
    return [Shown(path.name, span) for span in spans if _is_ours(span) and " " in span]


def titled(path: Path) -> dict[str, str]:
    """Return the files that a page shows, by the titles of their blocks."""
    found = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', path.read_text(encoding="utf-8"), re.M | re.S)
    return dict(found)


def _joined(lines: list[str]) -> list[str]:
    """Join each line that ends with a backslash with the next one."""
    return re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()


def _is_ours(text: str) -> bool:
    last = re.split(r"\s\|\s(?=\S*(?:az|python))", text)[-1]
    first = last.split(" ")[0].rpartition("/")[2]
    return first in PROGRAMS
