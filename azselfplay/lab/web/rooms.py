"""Games of a person against a network of a run, as many as there is memory for.

A room is one game with the tree that searches it. Networks are loaded once, in a thread, however many games
are played against them. Where there are too many games, the one that nobody has touched for longest makes
way. Nothing is lost by that: its page keeps the moves, and opens it again with the next one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from azselfplay.games.game_history import GameHistory, replay
from azselfplay.host.runs import RunFolder, modified
from azselfplay.lab.web.games import board, moves
from azselfplay.lab.web.guarding import Trouble
from azselfplay.link.weights_files import SUFFIX, version_in
from azselfplay.play.nets import LoadedNet, load_net, search_for
from azselfplay.play.orders import Report, Request
from azselfplay.play.thinker import Thinker, Thinking
from azselfplay.play.uci_lines import wdl_per_mille

MOST_ROOMS = 8
"""Most concurrent games; each has a tree of HASH_MIB."""

HASH_MIB = 32

LEAVES = 8
"""Positions evaluated together: few, because a person waits for one game with small searches."""

MOST_SIMULATIONS = 20_000

LINES = 10
"""Moves shown with their visits."""

LONGEST = 12
"""Moves shown of a line."""

IDLE_NETS = 2
"""Networks without users that stay loaded."""


def weights_of(run: RunFolder) -> list[str]:
    """The run's networks by name, newest first; names of old runs have no version, so there the time of the
    file counts."""
    files = (path for path in run.weights.glob(f"*{SUFFIX}") if path.is_file())
    newest_first = sorted(files, key=lambda path: (version_in(path), modified(path), path.name), reverse=True)
    return [path.stem for path in newest_first]


def find_weights(run: RunFolder, name: str) -> Path:
    """The file of the network called `name`, the newest for "". Raises Trouble if there is none."""
    known = weights_of(run)
    if not known:
        raise Trouble(f"Run {run.name} has no weights yet: a network comes as soon as azserver has started.")
    if not name:
        return run.weights / f"{known[0]}{SUFFIX}"
    if name not in known:
        raise Trouble(f"Run {run.name} has no weights called {name[:80]!r}; the newest are {known[0]}.")
    return run.weights / f"{name}{SUFFIX}"


class Rooms:
    """Opens games, finds them again, and closes abandoned ones."""

    def __init__(self, threads: int) -> None:
        self.nets = Nets(threads)
        self._rooms: dict[str, Room] = {}
        self._opening = 0

    async def open(self, run: RunFolder, weights: Path, terms: Terms) -> Room:
        """Open a new game. Loading the network takes seconds, compiling a game's kernels for the first time
        up to a minute. Raises Trouble(503) if as many search or are being opened at this moment as there is
        room for, Fatal if the weights cannot be used, and ValueError if the moves of `terms` cannot be
        played."""
        if len(self._rooms) + self._opening >= MOST_ROOMS:
            idle = [room for room in self._rooms.values() if not room.lock.locked()]
            if not idle:
                text = f"The network is thinking about {MOST_ROOMS} games at this moment. Try again soon."
                raise Trouble(text, HTTPStatus.SERVICE_UNAVAILABLE)
            self.leave(min(idle, key=lambda room: room.used_at))

        def ready(net: LoadedNet) -> Thinker:
            thinker = Thinker(net, HASH_MIB, LEAVES, 0, search_for("", net.game, weights))
            thinker.warm_up()
            return thinker

        # Counted from now on: it takes seconds, in which others may open games too.
        self._opening += 1
        try:
            net = await self.nets.take(weights)
            try:
                thinker = await asyncio.to_thread(ready, net)
                room = Room(secrets.token_urlsafe(16), run.name, weights, thinker, terms)
            except BaseException:
                self.nets.give_back(weights)
                raise
        finally:
            self._opening -= 1
        self._rooms[room.token] = room
        self._touch(room)
        return room

    def find(self, token: str) -> Room:
        """An open game. Raises Trouble if there is none."""
        room = self._rooms.get(token)
        if room is None:
            raise Trouble("That game is no longer open. Start a new one.", HTTPStatus.GONE)
        self._touch(room)
        return room

    def _touch(self, room: Room) -> None:
        room.used_at = asyncio.get_running_loop().time()

    def leave(self, room: Room) -> None:
        """Close a game."""
        if self._rooms.pop(room.token, None) is not None:
            self.nets.give_back(room.weights)

    def close(self) -> None:
        """End all games."""
        self._rooms.clear()
        self.nets.close()


@dataclass(frozen=True)
class Terms:
    """What a person has chosen."""

    side: int = 0
    """The person's side; 0: the first player."""
    simulations: int = 100
    """Simulations of the network per move."""
    start: str = ""
    """Start position in the game's notation; "" is the usual start."""
    moves: tuple[str, ...] = ()
    """Moves from there to the position in which the game begins."""
    played: tuple[str, ...] = ()
    """Moves of the game so far, if it is opened again."""
    max_plies: int = 0
    """Cap on the length of the game, plies; 0: the game's own."""


class Room:
    """The game, and the tree that searches it. Requests change it one at a time."""

    def __init__(self, token: str, run: str, weights: Path, thinker: Thinker, terms: Terms) -> None:
        self.token = token
        self.run = run
        self.weights = weights
        self.used_at = 0.0
        """When it was last used, in seconds of the event loop."""
        self.lock = asyncio.Lock()
        self.thinker = thinker
        self._game = thinker.game
        self._terms = terms
        self._played = self._replayed(terms.moves + terms.played)
        self._found: dict[str, Any] | None = None
        """The newest search result, for the position before the network's move or the present one."""

    # ---- What a person does ---------------------------------------------------------------------

    def play(self, text: str) -> None:
        """Play the person's move, in the game's notation. Raises Trouble(409) if it is not allowed now."""
        if self._played.end_reason() is not None:
            raise Trouble("The game is over.", HTTPStatus.CONFLICT)
        if self._played.side_to_move != self._terms.side:
            raise Trouble("It is the network's turn.", HTTPStatus.CONFLICT)
        try:
            self._played.play_text(text)
        except ValueError as error:
            raise Trouble(f"That move cannot be played: {error}", HTTPStatus.CONFLICT) from error
        self._found = None

    async def reply(self) -> None:
        """Play the network's move, if it is its turn."""
        if self._played.end_reason() is None and self._played.side_to_move != self._terms.side:
            action = await self._search(is_hint=False)
            self._played.play(action)

    async def hint(self) -> None:
        """Search for the move that the network would play for the person."""
        if self._played.end_reason() is not None:
            raise Trouble("The game is over.", HTTPStatus.CONFLICT)
        await self._search(is_hint=True)

    def take_back(self) -> None:
        """Return to the position before the person's last move."""
        texts, first = self._played.moves_text(), len(self._terms.moves)
        going = self._replayed(texts[:first])
        # Sides need not alternate: in Dots and Boxes a player may move several times in a row.
        turns = []
        for text in texts[first:]:
            if going.side_to_move == self._terms.side:
                turns.append(going.ply)
            going.play_text(text)
        if not turns:
            raise Trouble("There is no move of yours to take back.", HTTPStatus.CONFLICT)
        self._played = self._replayed(texts[: turns[-1]])
        self._found = None

    def _replayed(self, moves: Sequence[str]) -> GameHistory:
        return replay(self._game, self._terms.start, moves, self._terms.max_plies)

    # ---- Searching ------------------------------------------------------------------------------

    async def _search(self, *, is_hint: bool) -> int:
        reports: list[Report] = []
        request = Request(
            start=self._played.start,
            actions=tuple(self._played.actions),
            began=asyncio.get_running_loop().time(),
            simulations=self._terms.simulations,
            lines=LINES,
            show_draw=True,
        )
        side, state = self._played.side_to_move, self._played.state.copy()
        found = await self.thinker.think(Thinking(request), reports.append)
        action = found.action if found.moves else int(self._played.legal_actions()[0])
        report = reports[-1]
        total = max(1, sum(line.visits for line in report.lines))
        wdl = (0, 1000, 0)
        if report.lines:
            best = report.lines[0]
            wdl = wdl_per_mille(best.value, report.draw or 0.0, best.proof)
        firsts = [self._game.notation.action_from_text(state, line.moves[0]) for line in report.lines]
        self._found = {
            "is_hint": is_hint,
            "side": side,
            "simulations": report.progress.simulations,
            "seconds": report.progress.seconds,
            # The page shows it for the first player, whoever was to move.
            "wdl": list(wdl if side == 0 else reversed(wdl)),
            "lines": [
                {
                    "moves": list(line.moves[:LONGEST]),
                    "visits": line.visits,
                    "share": line.visits / total,
                    "value": line.value,
                    "prior": line.prior,
                    "clicks": first["clicks"],
                }
                for line, first in zip(report.lines, moves(self._game, state, firsts), strict=True)
            ],
        }
        return action

    # ---- What is shown --------------------------------------------------------------------------

    def view(self) -> dict[str, Any]:
        """Everything that a page shows. `wdl`: win, draw and loss of the first player, per mille."""
        played = self._played
        over, texts = played.end_reason(), played.moves_text()
        mine = over is None and played.side_to_move == self._terms.side
        legal = played.legal_actions().tolist() if mine else []
        return {
            "room": self.token,
            "run": self.run,
            "game": self._game.name,
            "weights": self.thinker.net.name,
            "simulations": self._terms.simulations,
            "side": self._terms.side,
            "to_move": played.side_to_move,
            "is_mine": mine,
            "board": board(
                self._game,
                played.state,
                texts[-1] if texts else "",
                side=self._terms.side,
                is_over=over is not None,
            ),
            "legal": moves(self._game, played.state, legal),
            "moves": texts,
            "first": len(self._terms.moves),
            "over": over,
            "outcome": None if over is None else played.outcome(),
            "score": played.score(),
            "found": self._found,
        }


@dataclass
class _Shared:
    net: LoadedNet
    users: int = 0


class Nets:
    """Loads networks in a thread, one at a time, on the CPU."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._shared: dict[Path, _Shared] = {}
        self._loading = asyncio.Lock()

    async def take(self, file: Path) -> LoadedNet:
        """The network in `file`, until `give_back`. Raises Fatal as `load_net`."""
        # One at a time, so that two games that begin together load their network once.
        async with self._loading:
            found = self._shared.pop(file, None)
            if found is None:
                net = await asyncio.to_thread(load_net, file, threads=self._threads)
                found = _Shared(net)
            self._shared[file] = found  # moved to the end: used last
            found.users += 1
            self._close_idle()
            return found.net

    def give_back(self, file: Path) -> None:
        self._shared[file].users -= 1
        self._close_idle()

    @asynccontextmanager
    async def using(self, file: Path) -> AsyncIterator[LoadedNet]:
        """The network in `file`, for the duration of a block."""
        net = await self.take(file)
        try:
            yield net
        finally:
            self.give_back(file)

    def _close_idle(self) -> None:
        idle = [file for file, shared in self._shared.items() if not shared.users]
        # The first ones were used longest ago.
        for file in idle[: max(0, len(idle) - IDLE_NETS)]:
            self._shared.pop(file).net.close()

    def close(self) -> None:
        for shared in self._shared.values():
            shared.net.close()
        self._shared.clear()
