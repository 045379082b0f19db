"""Hooks of mkdocs: pages that are made while the site is built, so that they can never be out of date."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from commands.settings_page import settings_page

DECISIONS = """# Decisions

Each page is one decision: the question, what was chosen, why, and what was measured. Numbers that are
missing were never used. Pages are not rewritten when the code moves on; a later page says what replaced an
earlier one.

"""


def decisions_page(folder: Path) -> str:
    """The index of `folder`: a line for each decision, with the title that its page has."""
    lines = []
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0]
        lines.append(f"- [{path.name[:4]}]({path.name}) {re.sub(r'^# *[0-9]+[.]? *', '', title)}")
    return DECISIONS + "\n".join(lines) + "\n"


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    docs = Path(config["docs_dir"])
    pages = {"settings.md": settings_page(), "decisions/index.md": decisions_page(docs / "decisions")}
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files
