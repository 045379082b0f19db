"""Answers to the scripts' requests about runs: the list, curves, live figures, strength."""

from __future__ import annotations

import contextlib

from aiohttp import web

from web.guarding import as_json
from web.site import SITE
from web.strength import strength_of


async def _list(request: web.Request) -> web.Response:
    return as_json(await request.app[SITE].listed())


async def _history(request: web.Request) -> web.Response:
    site = request.app[SITE]
    return as_json(await site.watching.history(site.run_of(request), site.reading))


async def _events(request: web.Request) -> web.StreamResponse:
    """Server-sent events: one `data:` line of JSON for each look at the run."""
    site = request.app[SITE]
    run = site.run_of(request)
    async with site.watching.watch(run, site.reading) as updates:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while (figures := await updates.next()) is not None:
                await response.write(b"data: " + figures + b"\n\n")
    return response


async def _strength(request: web.Request) -> web.Response:
    site = request.app[SITE]
    run = site.run_of(request)
    return as_json(await site.reading(lambda: strength_of(run)))


ROUTES = [
    web.get("/api/runs", _list),
    web.get("/api/run/{run}/history", _history),
    web.get("/api/run/{run}/events", _events),
    web.get("/api/run/{run}/strength", _strength),
]
