"""The application: the handlers and their addresses. Handlers only read the request and pass the work to a
thread or to the objects of the `Site`. Pages are frames that our scripts fill with answers from `/api/`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from azselfplay.games import get_game
from azselfplay.games.game_texts import read_position
from azselfplay.games.knowledge import sides_on_picture
from azselfplay.games.spec import LONGEST_MOVE
from azselfplay.host.exits import Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.lab.report.settings import notes_of, settings_of
from azselfplay.lab.web.games import Filter, StoredGames, board
from azselfplay.lab.web.guarding import (
    MOST_BODY,
    REQUEST_WITHIN,
    PageError,
    add_headers,
    as_json,
    errors_as_pages,
    is_our_fault,
    only_for,
    page,
)
from azselfplay.lab.web.person_games import (
    MOST_SIMULATIONS,
    PersonGame,
    PersonGames,
    Terms,
    find_weights,
    networks_of,
    weights_of,
)
from azselfplay.lab.web.runs import summaries
from azselfplay.lab.web.watching import Watching
from azselfplay.play.analysis import Analyst
from azselfplay.play.driver import in_thread
from azselfplay.store.reader import game_of

ASSETS = Path(__file__).parent / "assets"

TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

PAGES = (
    ("run", "/run/{run}", "{run}"),
    ("games", "/run/{run}/games", "Games of {run}"),
    ("game", "/run/{run}/games/{number}", "Game {number} of {run}"),
    ("play", "/run/{run}/play", "Play against {run}"),
)
"""Pages of a run: script, address, title."""

OUTCOMES = {"": None, "first": 1, "draw": 0, "second": -1}

SHOWN = 12
"""Most moves shown of the network's policy."""

MOST_LINE_CHARACTERS = 1000
"""Most characters in a line of moves."""
MOST_PASTED = 16 * 1024
"""Most characters in a pasted game. The body is longer: the moves played from there come with it."""

S = TypeVar("S", bound=Struct)
T = TypeVar("T")

MAX_SAFE_INTEGER = 2**53
"""Largest number that a browser's script can represent."""
LIST_SECONDS = 1.0
"""Seconds for which the list of runs is reused."""
READERS = 2
"""Threads that read files: enough for many pages, too few to slow down a run."""

# ---- What the handlers share ---------------------------------------------------------------------


class Site:
    """One folder of runs, and all open objects for it. `threads`: CPU threads of each network that plays."""

    def __init__(self, runs: Path, group: asyncio.TaskGroup, threads: int) -> None:
        self.runs = runs
        self.readers = ThreadPoolExecutor(READERS, thread_name_prefix="web-reader")
        self.watching = Watching(group, self.reading)
        self.games = StoredGames()
        self.person_games = PersonGames(threads)
        self._listed: dict[str, Any] = {}
        self._listed_at = -math.inf
        self._listing = asyncio.Lock()

    async def listed(self) -> dict[str, Any]:
        """Return the `summaries` of all runs; read once for all requests within LIST_SECONDS."""
        async with self._listing:  # requests that come meanwhile wait for this reading and share it
            if time.monotonic() - self._listed_at > LIST_SECONDS:
                self._listed = await self.reading(lambda: summaries(self.runs))
                self._listed_at = time.monotonic()
            return self._listed

    async def reading(self, work: Callable[[], T]) -> T:
        """Run `work`, which reads files, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.readers, work)

    def run_of(self, request: web.Request) -> RunFolder:
        """Return the run that the address names, always a folder inside `runs`. Raises PageError if there is
        none."""
        name = request.match_info["run"]
        try:
            # RunFolder refuses names that would lead out of the folder.
            run = RunFolder(self.runs, name)
        except Fatal as error:
            raise PageError(str(error)) from error
        if not (run.about.is_file() or run.games.is_file()):
            raise PageError(
                f"There is no run called {name} in {self.runs}. It may have been deleted or moved."
            )
        return run


SITE: web.AppKey[Site] = web.AppKey("site", Site)


def number_in(request: web.Request, name: str, default: int = 0, high: int = MAX_SAFE_INTEGER) -> int:
    """Return a whole number from the query, `default` if it is missing. Raises PageError(400)."""
    text = request.query.get(name, "")
    return whole(text, name, 0, high) if text else default


def whole(text: str, name: str, low: int, high: int = MAX_SAFE_INTEGER) -> int:
    """Return `text` as a number between `low` and `high`. Raises PageError(400)."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18 and low <= int(text) <= high):
        raise PageError(
            f"{name} is {text[:40]!r}, but must be a whole number from {low} to {high}.",
            HTTPStatus.BAD_REQUEST,
        )
    return int(text)


# ---- The application -----------------------------------------------------------------------------


routes = web.RouteTableDef()
"""The handlers with their addresses. `make_app` adds the handlers of pages and assets."""


@asynccontextmanager
async def open_site(runs: Path, threads: int = 1) -> AsyncIterator[Site]:
    """Yield the site for the folder `runs`."""
    async with asyncio.TaskGroup() as group:
        site = Site(runs, group, threads)
        try:
            yield site
        finally:
            await site.watching.close()
            site.person_games.close()
            site.readers.shutdown(wait=True, cancel_futures=True)


def make_app(site: Site, listen: str = "127.0.0.1") -> web.Application:
    """Return the application for a server that listens on `listen`. The owner of the site closes the site."""
    app = web.Application(middlewares=[errors_as_pages, only_for(listen)], client_max_size=MOST_BODY)
    app[SITE] = site
    logging.getLogger("aiohttp.server").addFilter(is_our_fault)
    app.on_response_prepare.append(add_headers)
    app.add_routes(routes)
    for script, address, title in PAGES:
        app.router.add_get(address, partial(run_page, script, title))
    # The files are read once, so an address can never name another file of this machine.
    files = {file.name: (file.read_bytes(), TYPES[file.suffix]) for file in ASSETS.iterdir()}

    async def asset(request: web.Request) -> web.Response:
        found = files.get(request.match_info["file"])
        if found is None:
            raise PageError("There is no such file.", HTTPStatus.NOT_FOUND)
        body, kind = found
        response = web.Response(body=body, content_type=kind, charset="utf-8")
        response.headers["Cache-Control"] = "no-cache"
        response.enable_compression()
        return response

    app.router.add_get("/assets/{file}", asset)
    return app


def _html(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html", headers={"Cache-Control": "no-cache"})


@routes.get("/")
async def runs_page(request: web.Request) -> web.Response:
    return _html(page("Runs", "runs", {"folder": str(request.app[SITE].runs)}))


@routes.get("/compare")
async def compare_page(_request: web.Request) -> web.Response:
    return _html(page("Compare runs", "compare"))


async def run_page(script: str, title: str, request: web.Request) -> web.Response:
    """Answer with any page of PAGES."""
    parts = dict(request.match_info)
    return _html(page(title.format(**parts), script, parts, request.app[SITE].run_of(request).name))


# ---- About runs -------------------------------------------------


@routes.get("/api/runs")
async def runs_listed(request: web.Request) -> web.Response:
    return as_json(await request.app[SITE].listed())


@routes.get("/api/run/{run}/history")
async def history(request: web.Request) -> web.Response:
    site = request.app[SITE]
    return as_json(await site.watching.history(site.run_of(request)))


@routes.get("/api/run/{run}/events")
async def events(request: web.Request) -> web.StreamResponse:
    """Stream server-sent events: one `data:` line of JSON for each look at the run."""
    site = request.app[SITE]
    run = site.run_of(request)
    async with site.watching.watch(run) as updates:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        # A ConnectionError means that the page was closed.
        with contextlib.suppress(ConnectionError):
            while (figures := await updates.get()) is not None:
                await response.write(b"data: " + figures + b"\n\n")
    return response


async def _read(request: web.Request, read: Callable[[Site, RunFolder], object]) -> web.Response:
    """Answer with what `read` finds in the files of the run that the address names."""
    site = request.app[SITE]
    run = site.run_of(request)
    return as_json(await site.reading(lambda: read(site, run)))


@routes.get("/api/run/{run}/settings")
async def settings(request: web.Request) -> web.Response:
    return await _read(request, lambda _, run: {"settings": settings_of(run), "notes": notes_of(run)})


# ---- Stored games --------------------------------------------------------------------------------


@routes.get("/api/run/{run}/games")
async def games(request: web.Request) -> web.Response:
    outcome = request.query.get("outcome", "")
    if outcome not in OUTCOMES:
        raise PageError("outcome is first, draw or second.", HTTPStatus.BAD_REQUEST)
    # 0 is a valid version, so -1 stands for none.
    version = number_in(request, "version", -1)
    wanted = Filter(
        OUTCOMES[outcome],
        request.query.get("reason", "")[:80],
        request.query.get("source", "")[:80],
        None if version < 0 else version,
        number_in(request, "min_plies"),
        number_in(request, "max_plies"),
    )
    before = number_in(request, "before")
    return await _read(request, lambda site, run: site.games.listed(run, wanted, before))


def _number(request: web.Request) -> int:
    return whole(request.match_info["number"], "the game's number", 1)


def _ply(request: web.Request) -> int:
    return whole(request.match_info["ply"], "the ply", 0)


@routes.get("/api/run/{run}/games/{number}")
async def game(request: web.Request) -> web.Response:
    number = _number(request)
    return await _read(request, lambda site, run: site.games.shown(run, number))


@routes.get("/api/run/{run}/games/{number}/at/{ply}")
async def position(request: web.Request) -> web.Response:
    number, ply = _number(request), _ply(request)
    line = request.query.get("line", "")[:MOST_LINE_CHARACTERS].split()
    return await _read(request, lambda site, run: site.games.position(run, number, ply, line))


@routes.get("/api/run/{run}/games/{number}/at/{ply}/network")
async def network(request: web.Request) -> web.Response:
    """Answer with a network's own evaluation of a position, without a search."""
    site = request.app[SITE]
    run, number, ply = site.run_of(request), _number(request), _ply(request)
    there = await site.reading(lambda: site.games.up_to(run, number, ply))
    there.max_plies = there.game.max_plies + there.ply  # the cap of self-play is no rule of the game
    file = await site.reading(lambda: find_weights(run, request.query.get("weights", "")))
    async with site.person_games.nets.using(file) as net:
        analyst = Analyst(net.game, net.evaluator, net.history)
        await in_thread(analyst.warm_up)
        found = await analyst.analyse(there, 0)
        if "policy" not in found:
            raise PageError("The game is over in that position.", HTTPStatus.CONFLICT)
    policy = [{"text": text, "share": share} for text, share in islice(found["policy"].items(), SHOWN)]
    return as_json({"weights": net.name, "value": found["value"], "wdl": found["wdl"], "policy": policy})


@routes.get("/api/run/{run}/weights")
async def weights(request: web.Request) -> web.Response:
    return await _read(request, lambda _, run: weights_of(run))


@routes.get("/api/run/{run}/networks")
async def networks(request: web.Request) -> web.Response:
    """Answer with the data that the page needs before a game: the run's networks, the names of the sides, and
    the first board."""

    def found(_: Site, run: RunFolder) -> dict[str, Any]:
        find_weights(run, "")  # raises PageError if there is none
        game = get_game(game_of(run))
        begin = board(game, game.notation.state_from_text(""), "")
        return {"networks": networks_of(run), "sides": sides_on_picture(game), "board": begin}

    return await _read(request, found)


@routes.get("/run/{run}/games/{number}/download")
async def download(request: web.Request) -> web.Response:
    site = request.app[SITE]
    run, number = site.run_of(request), _number(request)
    form, others = request.query.get("form", ""), number_in(request, "variations")
    name, text = await site.reading(lambda: site.games.download(run, number, form, others))
    headers = {"Content-Disposition": f'attachment; filename="{quote(name)}"'}
    return web.Response(text=text, content_type="text/plain", headers=headers)


# ---- Games of a person against a network: actions are POST requests with JSON --------------------


class NewGame(Struct, forbid_unknown_fields=True):
    """A new game."""

    weights: Annotated[str, Meta(max_length=200)] = ""
    """Name of the network; "": the one that the run plays with."""
    side: Annotated[int, Meta(ge=0, le=1)] = 0
    """The person's side; 0: the first player."""
    simulations: Annotated[int, Meta(ge=1, le=MOST_SIMULATIONS)] = 100
    game: Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)] = 0
    """Number of a stored game to continue; 0: a new game from the start."""
    ply: Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)] = 0
    """Position in that game."""
    position: str = ""
    """A pasted position or game to continue (`games.game_texts.read_position`)."""
    moves: Annotated[tuple[Annotated[str, Meta(max_length=LONGEST_MOVE)], ...], Meta(max_length=10_000)] = ()
    """Moves of a game that is opened again."""


class MoveOrder(Struct, forbid_unknown_fields=True):
    """An action in an open game."""

    move: Annotated[str, Meta(max_length=LONGEST_MOVE)] = ""


async def _body(request: web.Request, kind: type[S]) -> S:
    try:
        async with asyncio.timeout(REQUEST_WITHIN):
            body = await request.read()
    except TimeoutError:
        text = f"The request did not arrive within {REQUEST_WITHIN:.0f} s."
        raise PageError(text, HTTPStatus.REQUEST_TIMEOUT) from None
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        text = f"The order cannot be understood: {error}."
        raise PageError(text, HTTPStatus.BAD_REQUEST) from error


@routes.post("/api/run/{run}/play")
async def open_game(request: web.Request) -> web.Response:
    site = request.app[SITE]
    run, wanted = site.run_of(request), await _body(request, NewGame)
    goes_on = bool(wanted.moves or wanted.game)
    file = await site.reading(lambda: find_weights(run, wanted.weights, goes_on=goes_on))
    terms, given = Terms(wanted.side, wanted.simulations, played=wanted.moves), None
    if wanted.game:
        given = await site.reading(lambda: site.games.up_to(run, wanted.game, wanted.ply))
    elif wanted.position:
        try:
            if len(wanted.position) > MOST_PASTED:
                raise ValueError(f"it is longer than {MOST_PASTED:,} characters")
            given = await site.reading(lambda: read_position(get_game(game_of(run)), wanted.position))
        except ValueError as error:
            raise PageError(f"The position cannot be used: {error}", HTTPStatus.BAD_REQUEST) from error
    if given is not None:
        # The game continues a stored game or a pasted position.
        terms = replace(terms, start=given.start, moves=tuple(given.moves_text()), max_plies=given.max_plies)
    try:
        game = await site.person_games.open(run, file, terms)
    except ValueError as error:
        raise PageError(f"The game cannot be opened: {error}", HTTPStatus.BAD_REQUEST) from error
    return as_json(game.view())


def _person_game(request: web.Request) -> PersonGame:
    return request.app[SITE].person_games.find(request.match_info["token"])


def _turned(request: web.Request) -> bool:
    return bool(number_in(request, "turned", high=1))


@routes.get("/api/play/{token}/at/{ply}")
async def board_after(request: web.Request) -> web.Response:
    """Answer with the board after this many moves of the game."""
    return as_json(_person_game(request).board_at(_ply(request), turned=_turned(request)))


@routes.get("/api/play/{token}/file")
async def file_of_game(request: web.Request) -> web.Response:
    return as_json(_person_game(request).file(request.query.get("form", "")))


@routes.post("/api/play/{token}/{what}")
async def act_in_game(request: web.Request) -> web.Response:
    """Carry out `move`, `reply`, `hint`, `back` or `leave`."""
    order = await _body(request, MoveOrder)
    game = _person_game(request)
    # One order at a time: two clicks must not play two moves.
    async with game.lock:
        _person_game(request)  # it may have been closed meanwhile
        match request.match_info["what"]:
            case "move":
                game.play(order.move)
            case "reply":
                await game.reply()
            case "hint":
                await game.hint()
            case "back":
                game.take_back()
            case "leave":
                request.app[SITE].person_games.leave(game)
            case _:
                raise PageError("There is no such order.", HTTPStatus.NOT_FOUND)
        return as_json(game.view(turned=_turned(request)))
