"""HTML of the pages. The pages are frames, which our scripts fill with answers of `/api/`."""

from __future__ import annotations

import html
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import quote


def page(title: str, script: str, data: Mapping[str, str] = {}, run: str = "") -> str:
    """A page that `assets/<script>.js` fills.

    data: passed to the script as attributes of <main>. run: the run whose links are in the head; "" for pages
    without a run.
    """
    told = "".join(f' data-{name}="{html.escape(value)}"' for name, value in data.items())
    body = (
        f"<main id=main tabindex=-1{told}><h1>{html.escape(title)}</h1>"
        "<noscript><p>These pages need scripts, which are switched off in this browser.</p></noscript>"
        "</main>"
    )
    head = f'<script type="module" src="/assets/{script}.js"></script>'
    return _frame(title, head, _links(run, script) + body)


def error_page(status: HTTPStatus, text: str) -> str:
    """A page that explains an error."""
    title = status.phrase
    body = (
        f"<main id=main><h1>{html.escape(title)}</h1><p>{html.escape(text)}</p>"
        '<p><a href="/">All runs</a></p></main>'
    )
    return _frame(title, "", _links("", "") + body)


def _frame(title: str, head: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)} · azselfplay</title>"
        '<link rel="icon" href="/assets/icon.svg"><link rel="stylesheet" href="/assets/style.css">'
        f"{head}</head><body>{body}</body></html>"
    )


SECTIONS = {"run": "Overview", "games": "Games", "play": "Play", "strength": "Strength"}
"""Pages of a run: script and name."""


def _links(run: str, script: str) -> str:
    """The head of a page: a link to all runs, and links to the pages of this one."""
    base = f"/run/{quote(run)}"
    links = [("/", "Runs", script == "runs"), ("/compare", "Compare", script == "compare")]
    found = "".join(_link(*one) for one in links)
    if run:
        found += f'<span class="of">{html.escape(run)}</span>' + "".join(
            _link(base if name == "run" else f"{base}/{name}", text, script == name or script == name[:-1])
            for name, text in SECTIONS.items()
        )
    return f'<a class="skip" href="#main">Skip to the content</a><nav aria-label="Pages">{found}</nav>'


def _link(address: str, text: str, is_here: bool) -> str:
    here = ' aria-current="page"' if is_here else ""
    return f'<a href="{html.escape(address)}"{here}>{html.escape(text)}</a>'
