"""How much of the replay window the games of one key may fill. Pure.

A game of a key that exceeds its part is stored but not trained on, like a game that comes too late. A part is
measured on what entered the window recently. So a key never has more than its part of what training draws
from, and the games of all others are drawn as often as without it.

The choice depends only on the games stored before, in their order, and the store records for each game
whether it was accepted. So a trainer that restarts (`restore`) continues as if it had not ended.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from store.players import KEYS, WORKERS

PRESENT_PART = 16
"""A player with a game among the newest sixteenth of a window counts as playing now."""


class _Newest:
    """The newest games up to a given number of positions, and their owners."""

    def __init__(self, positions: int) -> None:
        self._room = positions
        self._games: deque[tuple[str, int]] = deque()
        """Owner and positions of each game."""
        self._added = 0
        """Games since `settle`; likewise the next."""
        self._gone: list[tuple[str, int]] = []
        self.positions: Counter[str] = Counter()
        """Positions by owner; no zeros."""
        self.total = 0
        self.of_keys = 0
        """Positions of all keys together."""

    def add(self, owner: str, positions: int) -> None:
        self._games.append((owner, positions))
        self._added += 1
        self._count(owner, positions)
        while self.total > self._room:
            self._gone.append(self._games.popleft())
            self._count(*self._gone[-1], sign=-1)

    def settle(self) -> None:
        self._added = 0
        self._gone.clear()

    def undo(self) -> None:
        """Return to the state of the last `settle`."""
        for game in reversed(self._gone):
            self._games.appendleft(game)
            self._count(*game)
        for _ in range(self._added):
            self._count(*self._games.pop(), sign=-1)
        self.settle()

    def _count(self, owner: str, positions: int, sign: int = 1) -> None:
        self.total += sign * positions
        self.of_keys += sign * positions if owner.startswith(KEYS) else 0
        self.positions[owner] += sign * positions
        if not self.positions[owner]:
            del self.positions[owner]


class WindowShares:
    """The parts of one window. Only one thread at a time may use it.

    window: positions in it. of_key: 0..1, the largest part of the positions in the window for one key; 1: all
    of it. If too few players are active to fill a window that way, each key may have an equal part: with two
    players, a half. reserve: 0..1, the part that all keys together leave to azserver's own workers while
    these play.

    Games without a key are not limited, because their players could take another name at any time.
    """

    def __init__(self, window: int, of_key: float = 1.0, reserve: float = 0.0) -> None:
        self.window = window
        self._of_key, self._reserve = of_key, reserve
        self._present = max(1, window // PRESENT_PART)
        self._taken = _Newest(window)
        self._came = _Newest(self._present)

    def restore(self, games: Iterable[tuple[str, int, bool]]) -> None:
        """Restore the state after the stored `games`, oldest first: player, positions, whether it was
        accepted. They must reach back to where `window` positions were accepted, or to the first game."""
        for player, positions, taken in games:
            self._note(player, positions, taken=taken)
        self.settle()

    def takes(self, player: str, positions: int, *, wanted: bool = True) -> bool:
        """Return whether a game that is being stored enters the window; never if it is not `wanted` there for
        another reason. It counts for the next games unless `undo` follows."""
        taken = wanted and self._has_room(_owner(player))
        self._note(player, positions, taken=taken)
        return taken

    def settle(self) -> None:
        """Note that the games since the last call are stored."""
        for games in (self._taken, self._came):
            games.settle()

    def undo(self) -> None:
        """Note that the games since the last `settle` are not stored."""
        for games in (self._taken, self._came):
            games.undo()

    def _note(self, player: str, positions: int, *, taken: bool) -> None:
        self._came.add(_owner(player), positions)
        if taken:
            self._taken.add(_owner(player), positions)

    def _has_room(self, owner: str) -> bool:
        """Return whether `owner` has no more than its part. At least one of the active owners always has, so
        the window never stops for long."""
        if not owner.startswith(KEYS):
            return True
        there = self._came.positions
        players = len(there) + (owner not in there)
        # At the beginning of a run, use a sixteenth of a window: a first game must have room.
        total = max(self._taken.total, self._present)
        if self._taken.positions[owner] > max(self._of_key, 1 / players) * total:
            return False
        return WORKERS not in there or self._taken.of_keys <= (1 - self._reserve) * total


def _owner(player: str) -> str:
    """Return who counts as one owner: a key, all of azserver's own workers, or all players without a key."""
    return player if player.startswith(KEYS) else player.partition("/")[0]
