"""Checks for every request: who may send it, and what browsers may load. Also turns errors into sentences, in
a page or as JSON.

A page of another site can make a browser send requests to 127.0.0.1. So the Host header must name this
machine (otherwise another site could point its own name at this address), and POST requests must come from
our own pages.
"""

from __future__ import annotations

import html
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from urllib.parse import quote, urlsplit

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from azselfplay.games.names import UnknownGame
from azselfplay.host.config import software
from azselfplay.host.exits import Fatal

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

MOST_BODY = 48 * 1024
"""Most bytes in a request's body."""

JSON = "application/json"

REQUEST_WITHIN = 30.0
"""Seconds for which a connection may have no complete request: between two requests, in the middle of a
header (by default aiohttp waits for an hour), or in the middle of a body."""

FAULT = "That is a fault in azselfplay itself; the terminal of azplay web shows it."

NEW_GAME = "If the game is new, start azplay web again."
"""A process only knows packages that were installed when it started."""

_REASONS = {
    HTTPStatus.NOT_FOUND: "There is no such page.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This address does not take that kind of request.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: f"The request is longer than {MOST_BODY} bytes.",
}

SECTIONS = {"run": "Overview", "games": "Games", "play": "Play"}
"""Pages of a run: script and name."""


class PageError(Exception):
    """A request that cannot be answered. `text` says what is wrong and what to do."""

    def __init__(self, text: str, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


def page_error(error: Exception, what: str) -> PageError:
    """Return the PageError for errors caused by files of a run. Any other error is a bug, which is logged.
    `what`: what was being done, for the log."""
    if isinstance(error, PageError):
        return error
    # Some functions wrap it into a Fatal.
    if isinstance(error, UnknownGame) or isinstance(error.__cause__, UnknownGame):
        return PageError(f"{error}. {NEW_GAME}", HTTPStatus.CONFLICT)
    if isinstance(error, Fatal):
        return PageError(str(error), HTTPStatus.CONFLICT)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return PageError(
            f"{error.filename or 'a file'} is gone: the run is being deleted or moved. Go back to the list "
            "of runs.",
            HTTPStatus.GONE,
        )
    if isinstance(error, OSError):
        where = error.filename or "a file"
        return PageError(f"{where} cannot be read: {error.strerror}", HTTPStatus.INTERNAL_SERVER_ERROR)
    log.error("fault in %s", what, exc_info=error)
    return PageError(FAULT, HTTPStatus.INTERNAL_SERVER_ERROR)


def is_loopback(host: str) -> bool:
    """Return whether a server that listens on `host` can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def may_name(host: str, listen: str) -> bool:
    """Return whether the Host header `host` is a valid name for a server that listens on `listen`.

    Another site cannot make a browser send an address instead of a name. Names must be this machine's own.
    """
    if is_loopback(listen):
        return is_loopback(host)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        # Accept this machine's name with and without its domain.
        own = socket.gethostname().lower()
        return host in {"localhost", listen.lower(), own, own.partition(".")[0]}
    return True


def only_for(listen: str) -> Middleware:
    """Return a middleware that refuses requests with another Host, and changes requested by pages of other
    sites."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            name = (urlsplit(f"//{request.host}").hostname or "").lower()
        except ValueError:  # brackets without a valid address
            name = ""
        if not may_name(name, listen):
            also = "" if is_loopback(listen) else ", an IP address of this machine, or the name"
            raise PageError(
                f"This server does not answer to the name {request.host[:80]!r}. Use the address{also} that "
                "it printed when it started.",
                HTTPStatus.MISDIRECTED_REQUEST,
            )
        if request.method not in ("GET", "HEAD"):
            origin = request.headers.get("Origin")
            site = request.headers.get("Sec-Fetch-Site", "same-origin")
            ours = (None, f"http://{request.host}", f"https://{request.host}")  # None: not a browser
            if origin not in ours or site != "same-origin":
                raise PageError("Only pages of this server may do that.", HTTPStatus.FORBIDDEN)
            # A form on another site could send text. It could send JSON only after a CORS request, which we
            # refuse.
            if request.content_type != JSON:
                raise PageError(f"The body must be {JSON}.", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        return await handler(request)

    return check


@web.middleware
async def errors_as_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn any error into a sentence for a person, with the right status; never a traceback."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        # Redirections are answers, not errors.
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        found = PageError(_REASONS.get(HTTPStatus(error.status), error.reason), HTTPStatus(error.status))
    except Exception as error:
        found = page_error(error, f"the answer to {request.method} {request.path}")
    if request.path.startswith("/api/"):
        return as_json({"error": found.text}, found.status)
    page = error_page(found.status, found.text)
    return web.Response(text=page, content_type="text/html", status=found.status)


def is_our_fault(record: logging.LogRecord) -> bool:
    """Filter aiohttp's log, which has a traceback for every request that is not HTTP. Such a request is
    answered with 400, and anybody can send many."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def as_json(found: object, status: int = HTTPStatus.OK) -> web.Response:
    """Return an answer for our scripts; numbers that are not finite become null."""
    response = web.Response(body=msgspec.json.encode(found), content_type=JSON, status=status)
    # Figures become worthless within a minute.
    response.headers["Cache-Control"] = "no-store"
    response.enable_compression()
    return response


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Add our headers; for `on_response_prepare`."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


# ---- HTML of the pages ---------------------------------------------------------------------------


def page(title: str, script: str, data: Mapping[str, str] = {}, run: str = "") -> str:
    """Return a page that `assets/<script>.js` fills.

    data: passed to the script as attributes of <main>. run: the run whose links are in the head; "" for pages
    without a run.
    """
    told = "".join(f' data-{name}="{html.escape(value)}"' for name, value in data.items())
    body = "<noscript><p>These pages need scripts, which are switched off in this browser.</p></noscript>"
    return _frame(title, body, script, f" tabindex=-1{told}", run)


def error_page(status: HTTPStatus, text: str) -> str:
    """Return a page that explains an error."""
    return _frame(status.phrase, f'<p>{html.escape(text)}</p><p><a href="/">All runs</a></p>')


def _frame(title: str, body: str, script: str = "", attributes: str = "", run: str = "") -> str:
    head = f'<script type="module" src="/assets/{script}.js"></script>' if script else ""
    # A link to all runs, and links to the pages of this one.
    links = _link("/", "Runs", script == "runs") + _link("/compare", "Compare", script == "compare")
    if run:
        base = f"/run/{quote(run)}"
        links += f'<span class="of">{html.escape(run)}</span>' + "".join(
            _link(base if name == "run" else f"{base}/{name}", text, script == name or script == name[:-1])
            for name, text in SECTIONS.items()
        )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)} · azselfplay</title>"
        '<link rel="icon" href="/assets/icon.svg"><link rel="stylesheet" href="/assets/style.css">'
        f'{head}</head><body><a class="skip" href="#main">Skip to the content</a>'
        f'<nav aria-label="Pages">{links}</nav>'
        f"<main id=main{attributes}><h1>{html.escape(title)}</h1>{body}</main>"
        f"<footer>{html.escape(software())}: docs/web.md explains these pages</footer></body></html>"
    )


def _link(address: str, text: str, is_here: bool) -> str:
    here = ' aria-current="page"' if is_here else ""
    return f'<a href="{html.escape(address)}"{here}>{html.escape(text)}</a>'
