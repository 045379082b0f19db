"""Two players against each other: every opening twice with colours swapped, many games at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from evaluation.match.adjudication import Adjudication, Judge
from evaluation.match.openings import Opening
from evaluation.match.player import Choice, Clock, Player, PlayerFailed, PlayerResigned, Seat
from games.game_history import GameHistory
from games.spec import RESIGNATION, Game

FAILURE = "failure"
"""Reason of a game that a player lost by failing: engine dead, hung, or an illegal move."""
TIME = "time"
"""Reason of a game lost on time."""


@dataclass(frozen=True)
class ClockSettings:
    """Seconds for the game and per move, for each side."""

    base: float
    increment: float = 0.0


@dataclass(frozen=True)
class MatchSettings:
    """How the games of a match are played."""

    concurrent: int = 1
    """Number of concurrent games."""
    max_plies: int = 0
    """0: the game's own cap."""
    adjudication: Adjudication = Adjudication()
    clock: ClockSettings | None = None
    """None: there is no clock, and the games depend on the seed alone."""
    seed: int = 0


@dataclass(frozen=True)
class PlayedGame:
    """A finished game of a match between A (the match's first player) and B."""

    first: str
    """Name of the player who moved first (in chess: White)."""
    second: str
    opening: str
    swapped: bool
    """Whether B moved first."""
    start: str
    actions: tuple[int, ...]
    """All actions, including those of the opening."""
    outcome: int
    """+1, 0 or -1 for the player who moved first."""
    reason: str
    """The rules' name, ply_cap, RESIGNATION, FAILURE, TIME, adjudicated_win, adjudicated_draw, tablebase."""
    plies: int
    failed: str = ""
    """Name of the player who failed or lost on time."""
    detail: str = ""
    """How the player failed, in one sentence."""
    moves: tuple[int, int] = (0, 0)
    """Moves that the first and the second player chose, so without the opening."""
    seconds: tuple[float, float] = field(default=(0.0, 0.0), compare=False)
    """Wall clock that they took for them; with several games at once it includes waiting for the others."""

    @property
    def outcome_for_a(self) -> int:
        """+1, 0 or -1 for player A."""
        return -self.outcome if self.swapped else self.outcome


@dataclass(frozen=True)
class _Job:
    """One game to play."""

    index: int
    opening: Opening
    swapped: bool
    seeds: tuple[int, int]
    """Seeds of A and B."""


OnGame = Callable[[PlayedGame], None]
Until = Callable[[Sequence[PlayedGame]], bool]


async def play_match(
    game: Game,
    first: Player,
    second: Player,
    openings: Sequence[Opening],
    settings: MatchSettings = MatchSettings(),
    *,
    on_game: OnGame | None = None,
    until: Until | None = None,
) -> list[PlayedGame]:
    """Play `2 * len(openings)` games; games 2i and 2i+1 are the pair of opening i.

    `on_game` is called with each game as it ends. `until` is called with the games of the first opening, of
    the first two, and so on, as soon as all games up to there have ended. When it returns True the rest is
    cancelled and those games are the result, so neither the decision nor the result depends on which games
    end early. The caller closes the players.
    """
    match = _Match(game, (first, second), settings)
    jobs = iter(list(_jobs(openings, settings.seed)))
    played: dict[int, PlayedGame] = {}
    tasks: list[asyncio.Task[None]] = []
    asked, stopped = 0, False

    def decided() -> bool:
        nonlocal asked, stopped
        while until is not None and not stopped and asked in played and asked + 1 in played:
            asked += 2
            stopped = until([played[index] for index in range(asked)])
        return stopped

    async def work() -> None:
        for job in jobs:
            if stopped:
                return
            played[job.index] = finished = await match.play(job)
            if on_game is not None:
                on_game(finished)
            if decided():
                for task in tasks:
                    task.cancel()
                return

    async with asyncio.TaskGroup() as group:
        workers = max(1, min(settings.concurrent, 2 * len(openings)))
        tasks += [group.create_task(work()) for _ in range(workers)]
    count = asked if stopped else len(played)
    return [played[index] for index in range(count)]


def _jobs(openings: Sequence[Opening], seed: int) -> Iterator[_Job]:
    for number, opening in enumerate(openings):
        for swapped in (False, True):
            drawn = np.random.SeedSequence([seed, number, int(swapped)]).generate_state(2)
            yield _Job(2 * number + swapped, opening, swapped, (int(drawn[0]), int(drawn[1])))


@dataclass(frozen=True)
class _Spent:
    """Moves and seconds of the two sides of a game."""

    moves: list[int] = field(default_factory=lambda: [0, 0])
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])


class _Lost(Exception):
    """The side to move has lost the game by a failure, on time, or by resigning."""

    def __init__(self, reason: str, side: int, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.side = side


@dataclass(frozen=True)
class _Match:
    """What all games of a match share."""

    game: Game
    players: tuple[Player, Player]
    settings: MatchSettings

    async def play(self, job: _Job) -> PlayedGame:
        """Play one game. A player that fails loses it."""
        game_history = job.opening.game_history(self.game, self.settings.max_plies)
        order = (1, 0) if job.swapped else (0, 1)
        names = [self.players[one].name for one in order]
        seats: list[Seat] = []
        spent = _Spent()
        failed = detail = ""
        try:
            for side, one in enumerate(order):
                seats.append(await _sit_down(self.players[one], job.seeds[one], side))
            given = self.settings.clock
            clock = Clock(given.base, given.increment, given.base) if given else None
            for side, seat in enumerate(seats):
                await _be_ready(seat, game_history, clock, side)
            outcome, reason = await self._play_moves(game_history, seats, spent)
        except _Lost as lost:
            outcome, reason = (-1 if lost.side == 0 else 1), lost.reason
            failed, detail = "" if reason == RESIGNATION else names[lost.side], str(lost)
        finally:
            for seat in seats:
                await seat.close()
        return PlayedGame(
            names[0],
            names[1],
            job.opening.id,
            job.swapped,
            job.opening.start,
            tuple(game_history.actions),
            outcome,
            reason,
            game_history.ply,
            failed,
            detail,
            (spent.moves[0], spent.moves[1]),
            (spent.seconds[0], spent.seconds[1]),
        )

    async def _play_moves(
        self, game_history: GameHistory, seats: Sequence[Seat], spent: _Spent
    ) -> tuple[int, str]:
        """(outcome, reason) of the game played to its end."""
        judge = Judge(self.settings.adjudication)
        base = self.settings.clock.base if self.settings.clock else 0.0
        left = [base, base]
        while True:
            reason = game_history.end_reason()
            if reason is not None:
                return game_history.outcome(), reason
            judged = judge.verdict(game_history)
            if judged is not None:
                return judged
            side = game_history.side_to_move
            choice = await self._choose(game_history, seats[side], side, left, spent)
            judge.heard(choice.value, side)
            try:
                game_history.play(choice.action)
            except ValueError as error:
                raise _Lost(FAILURE, side, str(error)) from error

    async def _choose(
        self, game_history: GameHistory, seat: Seat, side: int, left: list[float], spent: _Spent
    ) -> Choice:
        """Ask the side to move for its move and take the time from its clock. Raises _Lost."""
        settings = self.settings.clock
        clock = Clock(left[side], settings.increment, left[1 - side]) if settings else None
        began = time.monotonic()
        try:
            choice = await seat.choose(game_history, clock)
        except PlayerFailed as error:
            raise _Lost(FAILURE, side, str(error)) from error
        except PlayerResigned as error:
            raise _Lost(RESIGNATION, side, "") from error
        took = time.monotonic() - began
        spent.moves[side] += 1
        spent.seconds[side] += took
        if settings is not None:
            left[side] -= took
            if left[side] < 0:
                raise _Lost(TIME, side, f"{-left[side]:.2f} s over the time at ply {game_history.ply + 1}")
            left[side] += settings.increment
        return choice


async def _be_ready(seat: Seat, game_history: GameHistory, clock: Clock | None, side: int) -> None:
    try:
        await seat.be_ready(game_history, clock)
    except PlayerFailed as error:
        raise _Lost(FAILURE, side, str(error)) from error


async def _sit_down(player: Player, seed: int, side: int) -> Seat:
    try:
        return await player.sit_down(seed)
    except PlayerFailed as error:
        raise _Lost(FAILURE, side, str(error)) from error
