"""How much of the replay window the games of one key may fill. Pure.

A game of a key that has more than its part is stored, and not trained on, as one that comes too late is.
Parts are parts of what was taken into the window lately. So a key never has more than its part of what
training draws from, and the games of all others are drawn as often as without it.

Which games are taken follows from the games stored before, in their order, and from nothing else, and the
store says of each whether it was taken. So a trainer that begins again (`restore`) goes on as if it had not
ended.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from store.players import KEYS, WORKERS

PRESENT_PART = 16
"""Who has a game among those that came last, a sixteenth of a window, is one of those who play now."""


class _Newest:
    """The newest games, as many as have so many positions together, and whose they are."""

    def __init__(self, positions: int) -> None:
        self._room = positions
        self._games: deque[tuple[str, int]] = deque()
        """Owner and positions."""
        self._added = 0
        """Games since `settle`; likewise the next."""
        self._gone: list[tuple[str, int]] = []
        self.positions: Counter[str] = Counter()
        """By owner; no zeros."""
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
        """As at the last `settle`."""
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
    """The parts of one window. One thread at a time may use it.

    window   positions in it
    of_key   0..1: a key's part of the positions in the window, at most; 1: all of it. Where too few play to
             fill a window so, each key may have an equal part: with two players, a half
    reserve  0..1: part of azserver's own workers, which all keys together leave to them while they play

    Games without a key are not limited: who has none may take another name at any time.
    """

    def __init__(self, window: int, of_key: float = 1.0, reserve: float = 0.0) -> None:
        self.window = window
        self._of_key, self._reserve = of_key, reserve
        self._present = max(1, window // PRESENT_PART)
        self._taken = _Newest(window)
        self._came = _Newest(self._present)

    def restore(self, games: Iterable[tuple[str, int, bool]]) -> None:
        """After the stored `games`, oldest first: player, positions, whether it was taken. They must reach
        back to where `window` positions were taken, or to the first game."""
        for player, positions, taken in games:
            self._note(player, positions, taken=taken)
        self.settle()

    def takes(self, player: str, positions: int, *, wanted: bool = True) -> bool:
        """A game is being stored. Whether it is taken into the window; never if it is not `wanted` there for
        another reason. It counts for the next games unless `undo` follows."""
        taken = wanted and self._has_room(_owner(player))
        self._note(player, positions, taken=taken)
        return taken

    def settle(self) -> None:
        """The games since the last call are stored."""
        for games in (self._taken, self._came):
            games.settle()

    def undo(self) -> None:
        """They are not."""
        for games in (self._taken, self._came):
            games.undo()

    def _note(self, player: str, positions: int, *, taken: bool) -> None:
        self._came.add(_owner(player), positions)
        if taken:
            self._taken.add(_owner(player), positions)

    def _has_room(self, owner: str) -> bool:
        """Whether `owner` has no more than its part. Of those who play now one always has, so the window
        never stands still for long."""
        if not owner.startswith(KEYS):
            return True
        there = self._came.positions
        players = len(there) + (owner not in there)
        # At the beginning of a run a sixteenth of a window stands for it: a first game must have room.
        total = max(self._taken.total, self._present)
        if self._taken.positions[owner] > max(self._of_key, 1 / players) * total:
            return False
        return WORKERS not in there or self._taken.of_keys <= (1 - self._reserve) * total


def _owner(player: str) -> str:
    """Who is counted as one: a key, or all of azserver's own workers, or all who have no key."""
    return player if player.startswith(KEYS) else player.partition("/")[0]
