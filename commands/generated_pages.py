"""`python -m commands.generated_pages`: writes the generated pages of docs/.

They are committed, so that links to them work on GitHub and in a clone. `make docs` regenerates them, and
tests/docs/test_generated_pages.py fails while they are out of date.
"""

from __future__ import annotations

import re
from pathlib import Path

from commands.settings_page import settings_page

DOCS = Path("docs")
DECISIONS = """# Decisions

Each page is one choice against a real alternative: what was chosen, why, what was measured, and the price.
Other reasons are in the docstrings of the modules. Gaps in the numbering are choices about things that are
gone.

"""


def decisions_page(folder: Path) -> str:
    """The index of `folder`: a line for each decision, with the title that its page has."""
    lines = []
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0]
        lines.append(f"- [{path.name[:4]}]({path.name}) {re.sub(r'^# *[0-9]+[.]? *', '', title)}")
    return DECISIONS + "\n".join(lines) + "\n"


def generated_pages(docs: Path) -> dict[Path, str]:
    """The texts of the pages, by their paths below `docs`."""
    decisions = docs / "decisions"
    return {docs / "settings.md": settings_page(), decisions / "index.md": decisions_page(decisions)}


def main() -> None:
    """Write the pages that have changed."""
    for path, text in generated_pages(DOCS).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{path} has changed: commit it")


if __name__ == "__main__":
    main()
