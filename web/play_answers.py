"""Answers to the scripts' requests in games of a person against a network. Actions are POST requests with
JSON."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from web.guarding import REQUEST_WITHIN, as_json
from web.play.room import Room, Terms
from web.play.rooms import MOST_SIMULATIONS, find_weights
from web.site import MOST, SITE
from web.trouble import Trouble


class Opening(Struct, forbid_unknown_fields=True):
    """A new game."""

    weights: Annotated[str, Meta(max_length=200)] = ""
    """Name of the network; "": the newest."""
    side: Annotated[int, Meta(ge=0, le=1)] = 0
    """The person's side; 0: the first player."""
    simulations: Annotated[int, Meta(ge=1, le=MOST_SIMULATIONS)] = 100
    game: Annotated[int, Meta(ge=0, le=MOST)] = 0
    """Number of a stored game to continue; 0: a new game from the start."""
    ply: Annotated[int, Meta(ge=0, le=MOST)] = 0
    """Position in that game."""


class Order(Struct, forbid_unknown_fields=True):
    """An action in an open game."""

    move: Annotated[str, Meta(max_length=40)] = ""


S = TypeVar("S", bound=Struct)


async def _body(request: web.Request, kind: type[S]) -> S:
    try:
        async with asyncio.timeout(REQUEST_WITHIN):
            body = await request.read()
    except TimeoutError:
        text = f"The request did not arrive within {REQUEST_WITHIN:.0f} s."
        raise Trouble(text, HTTPStatus.REQUEST_TIMEOUT) from None
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        text = f"The order cannot be understood: {error}."
        raise Trouble(text, HTTPStatus.BAD_REQUEST) from error


async def _open(request: web.Request) -> web.Response:
    site = request.app[SITE]
    run, wanted = site.run_of(request), await _body(request, Opening)
    file = await site.reading(lambda: find_weights(run, wanted.weights))
    terms = Terms(wanted.side, wanted.simulations)
    if wanted.game:
        way = await site.reading(lambda: site.shelf.moves_to(run, wanted.game, wanted.ply))
        terms = replace(terms, start=way.start, moves=way.moves, max_plies=way.max_plies)
    room = await site.rooms.open(run, file, terms)
    return as_json(room.view())


def _room(request: web.Request) -> Room:
    return request.app[SITE].rooms.find(request.match_info["room"])


async def _look(request: web.Request) -> web.Response:
    return as_json(_room(request).view())


async def _do(request: web.Request) -> web.Response:
    """Carry out `move`, `reply`, `hint`, `back` or `leave`."""
    room, order = _room(request), await _body(request, Order)
    async with room.lock:
        match request.match_info["what"]:
            case "move":
                room.play(order.move)
            case "reply":
                await room.reply()
            case "hint":
                await room.hint()
            case "back":
                room.take_back()
            case "leave":
                request.app[SITE].rooms.leave(room)
            case _:
                raise Trouble("There is no such order.", HTTPStatus.NOT_FOUND)
        return as_json(room.view())


ROUTES = [
    web.post("/api/run/{run}/play", _open),
    web.get("/api/play/{room}", _look),
    web.post("/api/play/{room}/{what}", _do),
]
