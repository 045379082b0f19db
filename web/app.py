"""The application: which handler answers which address."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from web import answers, game_answers, play_answers
from web.guarding import (
    MOST_BODY,
    Handler,
    add_headers,
    as_visitor,
    errors_as_pages,
    is_our_fault,
    only_for,
)
from web.markup import page
from web.play.rooms import Rooms
from web.shelf import Shelf
from web.site import SITE, Site
from web.trouble import Trouble
from web.watching import Watching

ASSETS = Path(__file__).parent / "assets"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@asynccontextmanager
async def open_site(runs: Path, threads: int = 1) -> AsyncIterator[Site]:
    """Everything behind the pages for the folder `runs`; `threads`: threads of each network that plays."""
    async with asyncio.TaskGroup() as group:
        site = Site(runs, Watching(group), Shelf(), Rooms(threads))
        try:
            yield site
        finally:
            await site.watching.close()
            site.rooms.close()
            site.readers.shutdown(wait=True, cancel_futures=True)


def make_app(site: Site, listen: str = "127.0.0.1") -> web.Application:
    """The application for a server that listens on `listen`. The owner of the site closes it."""
    app = web.Application(
        middlewares=[as_visitor, errors_as_pages, only_for(listen)], client_max_size=MOST_BODY
    )
    app[SITE] = site
    logging.getLogger("aiohttp.server").addFilter(is_our_fault)
    app.on_response_prepare.append(add_headers)
    app.add_routes(_pages())
    app.router.add_get("/assets/{file}", _assets())
    app.add_routes([*answers.ROUTES, *game_answers.ROUTES, *play_answers.ROUTES])
    return app


def _pages() -> list[web.RouteDef]:
    return [
        web.get("/", _runs),
        web.get("/compare", _compare),
        web.get("/run/{run}", _page_of("run", "{run}")),
        web.get("/run/{run}/games", _page_of("games", "Games of {run}")),
        web.get("/run/{run}/games/{number}", _page_of("game", "Game {number} of {run}")),
        web.get("/run/{run}/play", _page_of("play", "Play against {run}")),
        web.get("/run/{run}/strength", _page_of("strength", "Strength of {run}")),
    ]


def _html(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html", headers={"Cache-Control": "no-cache"})


async def _runs(request: web.Request) -> web.Response:
    return _html(page("Runs", "runs", {"folder": str(request.app[SITE].runs)}))


async def _compare(_request: web.Request) -> web.Response:
    return _html(page("Compare two runs", "compare"))


def _page_of(script: str, title: str) -> Handler:
    """The handler of a page for a run."""

    async def answer(request: web.Request) -> web.Response:
        run = request.app[SITE].run_of(request)
        parts = dict(request.match_info)
        return _html(page(title.format(**parts), script, parts, run.name))

    return answer


def _assets() -> Handler:
    """The handler of our scripts and styles: only these files."""
    files = {file.name: (file.read_bytes(), TYPES[file.suffix]) for file in ASSETS.iterdir()}

    async def answer(request: web.Request) -> web.Response:
        found = files.get(request.match_info["file"])
        if found is None:
            raise Trouble("There is no such file.", HTTPStatus.NOT_FOUND)
        body, kind = found
        response = web.Response(body=body, content_type=kind, charset="utf-8")
        response.headers["Cache-Control"] = "no-cache"
        response.enable_compression()
        return response

    return answer
