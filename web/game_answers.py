"""Answers to the scripts' requests about stored games."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from urllib.parse import quote

from aiohttp import web

from engine.analysis import Analyst, Request
from web.boards import moves
from web.guarding import as_json
from web.play.rooms import find_weights, weights_of
from web.shelf import Filter
from web.site import MOST, SITE, number_in, whole
from web.trouble import Trouble

OUTCOMES = {"": None, "first": 1, "draw": 0, "second": -1}
SHOWN = 12
"""Most moves shown of the network's policy."""

LONGEST_LINE = 1000
"""Most characters in a line of moves."""


def _filter(request: web.Request) -> Filter:
    outcome = request.query.get("outcome", "")
    if outcome not in OUTCOMES:
        raise Trouble("outcome is first, draw or second.", HTTPStatus.BAD_REQUEST)
    version = number_in(request, "version", -1, 0, MOST)
    return Filter(
        OUTCOMES[outcome],
        request.query.get("reason", "")[:80],
        request.query.get("source", "")[:80],
        None if version < 0 else version,
        number_in(request, "min_plies", 0, 0, MOST),
        number_in(request, "max_plies", 0, 0, MOST),
    )


async def _list(request: web.Request) -> web.Response:
    site = request.app[SITE]
    run, wanted, before = site.run_of(request), _filter(request), number_in(request, "before", 0, 0, MOST)
    return as_json(await site.reading(lambda: site.shelf.listed(run, wanted, before)))


def _number(request: web.Request) -> int:
    return whole(request.match_info["number"], "the game's number", 0, 1, MOST)


async def _game(request: web.Request) -> web.Response:
    site = request.app[SITE]
    run, number = site.run_of(request), _number(request)
    return as_json(await site.reading(lambda: site.shelf.shown(run, number)))


async def _position(request: web.Request) -> web.Response:
    site = request.app[SITE]
    run, number = site.run_of(request), _number(request)
    ply = whole(request.match_info["ply"], "the ply", 0, 0, MOST)
    line = request.query.get("line", "")[:LONGEST_LINE].split()
    return as_json(await site.reading(lambda: site.shelf.position(run, number, ply, line)))


async def _network(request: web.Request) -> web.Response:
    """A network's own evaluation of a position, without a search."""
    site = request.app[SITE]
    run, number = site.run_of(request), _number(request)
    ply = whole(request.match_info["ply"], "the ply", 0, 0, MOST)
    way = await site.reading(lambda: site.shelf.moves_to(run, number, ply))
    file = await site.reading(lambda: find_weights(run, request.query.get("weights", "")))
    async with site.rooms.nets.using(file) as net:
        asked = Request(id="", fen=way.start, moves=way.moves, simulations=0)
        analyst = Analyst.of(net.game, net.evaluator, net.history)
        await asyncio.to_thread(analyst.warm_up)
        found = await analyst.answer(asked)
        if "policy" not in found:
            raise Trouble("The game is over in that position.", HTTPStatus.CONFLICT)
        texts = list(found["policy"])[:SHOWN]
        actions = [net.game.notation.action_from_text(way.state, text) for text in texts]
        clicks = moves(net.game, way.state, actions)
    policy = [{**move, "share": found["policy"][move["text"]]} for move in clicks]
    return as_json({"weights": net.name, "value": found["value"], "wdl": found["wdl"], "policy": policy})


async def _weights(request: web.Request) -> web.Response:
    site = request.app[SITE]
    run = site.run_of(request)
    return as_json(await site.reading(lambda: weights_of(run)))


async def _download(request: web.Request) -> web.Response:
    site = request.app[SITE]
    run, number = site.run_of(request), _number(request)
    form, others = request.query.get("form", ""), number_in(request, "variations", 0, 0, MOST)
    name, text = await site.reading(lambda: site.shelf.download(run, number, form, others))
    headers = {"Content-Disposition": f'attachment; filename="{quote(name)}"'}
    return web.Response(text=text, content_type="text/plain", headers=headers)


ROUTES = [
    web.get("/api/run/{run}/games", _list),
    web.get("/api/run/{run}/weights", _weights),
    web.get("/api/run/{run}/games/{number}", _game),
    web.get("/api/run/{run}/games/{number}/at/{ply}", _position),
    web.get("/api/run/{run}/games/{number}/at/{ply}/network", _network),
    web.get("/run/{run}/games/{number}/download", _download),
]
