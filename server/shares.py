"""Shares: how many games each player should play at once, and how many leaves it may have in flight.

The devices need a certain number of leaves at a time, from any players. Each player is told its part of
that number, and told again when the part changes: `docs/decisions/0022-shares.md`. Pure: no clock, no
sockets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass

from azselfplay.batching.queue import games_each, has_changed_much
from protocol.credits import Credits

SPARE_CREDITS = 256
"""Leaves a session may have in flight beyond one per game."""
REVISE_SECONDS = 10.0
"""Seconds between two computations of the shares."""
IDLE_REVISIONS = 30
"""Revisions without a leaf after which a player keeps only the least credits, and the rest is free for
others."""
GROWTH = 2
"""Largest factor by which a player's games grow in one revision, because more players may be about to
start."""


@dataclass(frozen=True)
class Share:
    """What a player is told."""

    credits: int
    games: int


@dataclass
class _Player:
    sent: Share
    owner: Hashable
    """The player gets a part of its owner's share."""
    used: float = 0.0
    """Leaves answered lately; those of earlier revisions weigh less."""
    idle: int = 0
    """Revisions since its last leaf."""
    is_unsent: bool = False
    """Whether it must be told its share even if that has not changed."""


class Shares:
    """All players of the leaves port, by number of their session."""

    def __init__(self, credits: Credits, local_workers: int = 0, fixed_games: int = 0) -> None:  # noqa: A002
        """`local_workers`: azserver's own workers, which keep the devices busy as well. `fixed_games`: the
        games that every player is told to play; 0: its share."""
        self.credits = credits
        self._local_workers = local_workers
        self._fixed_games = fixed_games
        self._players: dict[int, _Player] = {}
        self._next = 0.0

    def __len__(self) -> int:
        return len(self._players)

    def games(self, needed: int, players: float) -> int:
        """Return how many games each of `players` players should play beside azserver's own workers, if the
        devices need `needed` leaves at once."""
        if self._fixed_games:
            return self._fixed_games
        return games_each(needed, players + self._local_workers)

    def join(self, session: int, needed: int, owner: Hashable = None) -> Share | None:
        """Return a new player's first share, computed as if everyone connected played. None: the server is
        full.

        Players with the same `owner` (a key) divide one share; None: the player is its own owner. HELLO may
        come twice; the answer is the same.
        """
        if session in self._players:
            return self._players[session].sent
        owner = session if owner is None else owner
        # Count all owners as if they played; the revisions find out which ones do not.
        others = [player.owner for player in self._players.values()]
        owners, mine = {*others, owner}, 1 + others.count(owner)
        games = self.games(needed, len(owners) * mine)
        granted = self.credits.grant(session, games + SPARE_CREDITS)
        if not granted:
            return None
        share = Share(granted, min(games, granted))
        self._players[session] = _Player(share, owner)
        return share

    def leave(self, session: int) -> None:
        self.credits.forget(session)
        self._players.pop(session, None)

    def answered(self, session: int, leaves: int) -> None:
        """Note that `leaves` leaves of a player were evaluated, so it is playing."""
        if session in self._players:
            self._players[session].used += leaves

    def revise(self, needed: int, now: float) -> list[tuple[int, Share]]:
        """Return which players to tell which share; empty until the next revision is due. Call
        `mark_unsent` for a player that was not reached.

        Nothing changes while nobody plays (the evaluators may be starting).
        """
        if now < self._next:
            return []
        self._next = now + REVISE_SECONDS
        used: defaultdict[Hashable, float] = defaultdict(float)
        for player in self._players.values():
            used[player.owner] += player.used
            player.idle = 0 if player.used else player.idle + 1
            # Halved and not forgotten: a player that waits for one slow batch is not idle yet.
            player.used = player.used / 2 if player.used > 1 else 0.0
        players = effective_number(list(used.values()))
        if not players:
            return []
        # By owner, divided among the owner's players that are playing: more processes bring no more games.
        playing = Counter(player.owner for player in self._players.values() if not player.idle)
        of_owner = {owner: self.games(needed, players * count) for owner, count in playing.items()}
        # For a player whose owner has nobody playing at the moment.
        alone = self.games(needed, players)
        games = {session: of_owner.get(one.owner, alone) for session, one in self._players.items()}
        # Each player's share; an idle player gets no more than it had.
        most = self.credits.fair(max(1, playing.total()))
        wanted = {}
        for session, player in self._players.items():
            idle, share = player.idle, min(games[session] + SPARE_CREDITS, most)
            limit = self.credits.limit(session)
            own = share if not idle else min(share, limit)
            own = self.credits.minimum if idle >= IDLE_REVISIONS else own
            if has_changed_much(own, limit):
                wanted[session] = own
        self.credits.revise(wanted, now)
        news = []
        for session, player in self._players.items():
            limit, sent = self.credits.limit(session), player.sent
            # Never more games than leaves in flight, because each game waits for at least one leaf.
            own_games = min(games[session], limit, GROWTH * sent.games)
            # A cut is told at once; otherwise the player would be refused for using credits that it believes
            # it has.
            is_less = limit < sent.credits
            if is_less or has_changed_much(limit, sent.credits) or has_changed_much(own_games, sent.games):
                player.is_unsent = True
            if player.is_unsent:
                player.sent = Share(limit, own_games)
                news.append((session, player.sent))
            player.is_unsent = False  # the caller reports who could not be reached
        return news

    def mark_unsent(self, session: int) -> None:
        """Note that this player could not be told its share: it is told at the next revision."""
        self._players[session].is_unsent = True


def effective_number(used: list[float]) -> float:
    """Return how many players there would be if all used as much as the typical one; 0 when none does.

    (sum)^2 / sum of squares: n for n equal players. A player that uses almost nothing does not count, so a
    crowd of idle players takes nothing from those who play.
    """
    squares = sum(leaves * leaves for leaves in used)
    return sum(used) ** 2 / squares if squares else 0.0
