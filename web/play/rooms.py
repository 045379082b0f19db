"""The games being played, as many as there is memory for."""

from __future__ import annotations

import asyncio
import secrets
from http import HTTPStatus
from pathlib import Path

from engine.nets import LoadedNet, search_for
from engine.thinker import Thinker
from runtime.runs import RunFolder
from runtime.weights_files import SUFFIX, version_in
from web.play.nets import Nets
from web.play.room import Room, Terms
from web.run_state import modified
from web.trouble import Trouble

MOST_ROOMS = 8
"""Most concurrent games; each has a tree of HASH_MIB."""
HASH_MIB = 32
LEAVES = 8
"""Positions evaluated together: few, because a person waits for one game with small searches."""
IDLE = 600.0
"""Seconds after which an unused game may be replaced by a new one."""
MOST_SIMULATIONS = 20_000


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
        up to a minute. Raises Trouble(503) if too many are open, Fatal if the weights cannot be used, and
        ValueError if the moves of `terms` cannot be played."""
        self._make_room()
        self._opening += 1
        try:
            net = await self.nets.take(weights)
            try:
                thinker = await asyncio.to_thread(_thinker, net, weights)
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

    def _make_room(self) -> None:
        if len(self._rooms) + self._opening < MOST_ROOMS:
            return
        idle = [room for room in self._rooms.values() if not room.lock.locked()]
        oldest = min(idle, key=lambda room: room.used_at, default=None)
        now = asyncio.get_running_loop().time()
        if oldest is None or now - oldest.used_at < IDLE:
            text = f"{MOST_ROOMS} games are being played already. Try again in a few minutes."
            raise Trouble(text, HTTPStatus.SERVICE_UNAVAILABLE)
        self._close(oldest)

    def leave(self, room: Room) -> None:
        """Close the game of a person who has left."""
        self._close(room)

    def _close(self, room: Room) -> None:
        if self._rooms.pop(room.token, None) is not None:
            self.nets.give_back(room.weights)

    def close(self) -> None:
        """End all games."""
        self._rooms.clear()
        self.nets.close()


def _thinker(net: LoadedNet, weights: Path) -> Thinker:
    thinker = Thinker(net, HASH_MIB, LEAVES, 0, search_for("", net.game, weights))
    thinker.warm_up()
    return thinker
