"""Plays the games of a match side by side, ends them early if the result is known, and writes them to files.

Every opening is played twice with colours swapped; games 2i and 2i+1 are a pair. `play_match` keeps a number
of games running. After each complete pair, in the order of the openings, it asks whether to stop, so neither
this decision nor the result depends on which games end early. A player that fails loses this game,
but the match goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from azselfplay.games.game_history import GameHistory
from azselfplay.games.knowledge import RESULTS, GameFormat, WrittenMove, knowledge_of
from azselfplay.games.spec import RESIGNATION, Game, outcome_for_first_player
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.openings import Opening
from azselfplay.play.player import Player, PlayerFailed, PlayerResigned, Seat

log = logging.getLogger(__name__)

FAILURE = "failure"
"""Reason of a game that a player lost by failing: engine dead, hung, or an illegal move."""

TABLE = "tablebase"
"""Reason of a game that was adjudicated by tables."""


KnownResult = Callable[[GameHistory], int | None]
"""Returns the result for the side to move, None if it is unknown."""


@dataclass(frozen=True)
class MatchSettings:
    """How the games of a match are played."""

    concurrent: int = 1
    """Number of concurrent games."""
    max_plies: int = 0
    """0: the game's own cap."""
    known: KnownResult | None = None
    """Ends a game where the result is known; None: games are played to their end."""
    seed: int = 0


@dataclass(frozen=True)
class PlayedGame:
    """A finished game of a match between A and B."""

    first_side: str
    """Name of the player of the game's first side (chess: White), whoever is to move at the start."""
    second_side: str
    opening: str
    swapped: bool
    """Whether B plays the first side."""
    start: str
    actions: tuple[int, ...]
    """All actions, including those of the opening."""
    outcome: int
    """+1, 0 or -1 for the first side."""
    reason: str
    """The rules' name, ply_cap, RESIGNATION, FAILURE, TABLE."""
    failed: str = ""
    """Name of the player who failed."""
    detail: str = ""
    """How the player failed, in one sentence."""
    moves: tuple[int, int] = (0, 0)
    """Numbers of moves that the first and the second player chose; moves of the opening do not count."""
    seconds: tuple[float, float] = field(default=(0.0, 0.0), compare=False)
    """Wall-clock seconds that the two players took for these moves. With several games at once, this includes
    waiting for other games."""

    @property
    def plies(self) -> int:
        return len(self.actions)

    @property
    def outcome_for_a(self) -> int:
        """+1, 0 or -1 for player A."""
        return -self.outcome if self.swapped else self.outcome


def ms_a_move(games: Sequence[PlayedGame]) -> tuple[float, float]:
    """Return the mean milliseconds per move of A and of B; 0 for a player who chose no move."""
    moves, seconds = [0, 0], [0.0, 0.0]
    for game in games:
        for side in (0, 1):
            player = side ^ game.swapped
            moves[player] += game.moves[side]
            seconds[player] += game.seconds[side]
    return 1000 * seconds[0] / max(1, moves[0]), 1000 * seconds[1] / max(1, moves[1])


OnGame = Callable[[int, PlayedGame], None]

Until = Callable[[Sequence[PlayedGame]], bool]


async def play_match(
    game: Game,
    a: Player,
    b: Player,
    openings: Sequence[Opening],
    settings: MatchSettings = MatchSettings(),
    *,
    on_game: OnGame | None = None,
    until: Until | None = None,
) -> list[PlayedGame]:
    """Play `2 * len(openings)` games; games 2i and 2i+1 are the pair of opening i.

    `on_game` is called with the number of each game, and the game, as it ends. `until` is called with the
    games of the first opening, of the first two openings, and so on, as soon as all these games have ended.
    When `until` returns True, all other games are cancelled and the games given to it are the result. So
    neither the decision nor the result depends on which games end early. The caller closes the players.
    """
    # All workers share one iterator: each takes the next game, so a long game does not delay other workers.
    waiting = enumerate(product(openings, (False, True)))
    played: dict[int, PlayedGame] = {}
    tasks: list[asyncio.Task[None]] = []
    asked, stopped = 0, False

    def decided() -> bool:
        nonlocal asked, stopped
        # Ask in the order of the openings, not in the order in which games end: short games must not decide.
        while until is not None and not stopped and asked in played and asked + 1 in played:
            asked += 2
            stopped = until([played[index] for index in range(asked)])
        return stopped

    async def work() -> None:
        for index, (opening, swapped) in waiting:
            if stopped:
                return
            # The seeds depend only on the opening's number and the colours, so a game does not depend on the
            # games beside it.
            drawn = np.random.SeedSequence([settings.seed, index // 2, int(swapped)]).generate_state(2)
            seeded = (a, int(drawn[0])), (b, int(drawn[1]))
            order = seeded[::-1] if swapped else seeded
            played[index] = finished = await play_game(game, order, opening, settings, swapped=swapped)
            if on_game is not None:
                on_game(index, finished)
            if decided():
                # This also cancels the current task, which returns at once.
                for task in tasks:
                    task.cancel()
                return

    async with asyncio.TaskGroup() as group:
        workers = max(1, min(settings.concurrent, 2 * len(openings)))
        tasks += [group.create_task(work()) for _ in range(workers)]
    count = asked if stopped else len(played)
    return [played[index] for index in range(count)]


async def play_game(
    game: Game,
    seeded: tuple[tuple[Player, int], tuple[Player, int]],
    opening: Opening,
    settings: MatchSettings = MatchSettings(),
    *,
    swapped: bool = False,
) -> PlayedGame:
    """Play one game from `opening`. A player that fails loses it. The caller closes the players.

    `seeded`: the players with their seeds; the first one plays the game's first side. The seeds must differ,
    or both players would draw the same random numbers. `swapped`: whether that one is B of the match.
    """
    game_history = opening.game_history(game, settings.max_plies)
    names = [player.name for player, _ in seeded]
    seats: list[Seat] = []
    moves, seconds = [0, 0], [0.0, 0.0]
    side, failed, detail = 0, "", ""
    try:
        # `side` is always the side that must act: if the action fails, this side has lost.
        for side in (0, 1):
            player, seed = seeded[side]
            seats.append(await player.sit_down(seed))
        for side in (0, 1):
            await seats[side].be_ready(game_history)
        while True:
            reason = game_history.end_reason()
            if reason is not None:
                outcome = game_history.outcome()
                break
            side = game_history.side_to_move
            if settings.known is not None and (value := settings.known(game_history)) is not None:
                outcome, reason = outcome_for_first_player(value, side), TABLE
                break
            began = time.monotonic()
            action = await seats[side].choose(game_history)
            moves[side] += 1
            seconds[side] += time.monotonic() - began
            try:
                game_history.play(action)
            except ValueError as error:  # an illegal move
                raise PlayerFailed(str(error)) from error
    except PlayerResigned:
        outcome, reason = outcome_for_first_player(-1, side), RESIGNATION
    except PlayerFailed as error:
        outcome, reason = outcome_for_first_player(-1, side), FAILURE
        failed, detail = names[side], str(error)
    finally:
        for seat in seats:
            await seat.close()
    return PlayedGame(
        names[0],
        names[1],
        opening.id,
        swapped,
        opening.start,
        tuple(game_history.actions),
        outcome,
        reason,
        failed,
        detail,
        (moves[0], moves[1]),
        (seconds[0], seconds[1]),
    )


TERMINATIONS = {FAILURE: "abandoned", TABLE: "adjudication"}
"""Values of PGN's Termination tag (section 9.8.1 of the standard), by reason; else it is "normal"."""


@contextmanager
def open_match_files(game: Game, pgn: str, moves: str, event: str) -> Iterator[Callable[[PlayedGame], bool]]:
    """Open the files of one match, before it starts. Yields the function that writes a game to them. It
    returns False once a file has failed, for example on a full disk; that file gets no more games. Raises
    Fatal(DISK) for a path that cannot be written."""
    form = next(iter(knowledge_of(game).formats), None)
    # Check this before the first game: hours of games must not end without their file.
    if pgn and form is None:
        raise Fatal(f"{game.name} has no PGN; write its games with --moves FILE", Exit.CONFIG)
    before = ""
    failed: set[TextIO] = set()

    def in_pgn(played: PlayedGame) -> str:
        nonlocal before
        assert form is not None, "checked above"
        between, before = before, form.between  # between games, not before the first one
        return between + written_game(game, form, played, event)

    def as_line(played: PlayedGame) -> str:
        return to_json_line(game, played) + "\n"

    def write(played: PlayedGame) -> bool:
        for file, text_of in files:
            if file in failed:
                continue
            try:
                # Flushed, so that a match that is killed leaves its games in the file.
                print(text_of(played), end="", file=file, flush=True)
            except OSError as error:
                log.error("%s cannot be written: %s; it gets no more games", file.name, error.strerror)
                failed.add(file)
                # Closing writes the rest, which fails again; later it counts as closed.
                with suppress(OSError):
                    file.close()
        return not failed

    with ExitStack() as opened:
        try:
            files = [
                (opened.enter_context(Path(path).open("w", encoding="utf-8")), text_of)
                for path, text_of in ((pgn, in_pgn), (moves, as_line))
                if path
            ]
        except OSError as error:
            raise Fatal(f"{error.filename} cannot be written: {error.strerror}", Exit.DISK) from error
        yield write


def written_game(game: Game, form: GameFormat, played: PlayedGame, event: str) -> str:
    """Return a game as PGN, or in another format, with the seven standard tags and how the game ended."""
    tags = {
        "Event": event,
        "White": played.first_side,
        "Black": played.second_side,
        "Result": RESULTS[played.outcome],
        "Opening": played.opening,
        "PlyCount": str(played.plies),
        "Termination": TERMINATIONS.get(played.reason, "normal"),
    }
    moves = [WrittenMove(move) for move in replay_of(game, played).moves_text()]
    ending = played.reason + (f": {played.detail}" if played.detail else "")
    return form.write(tags, played.start, moves, ending) + "\n\n"


def to_json_line(game: Game, played: PlayedGame) -> str:
    """Return a game as JSON, with moves in the game's notation, and with a score if the game has one."""
    game_history = replay_of(game, played)
    names = ("outcome", "reason", "plies", "opening", "start", "failed", "detail")
    told: dict[str, Any] = {"first": played.first_side, "second": played.second_side}
    told |= {name: getattr(played, name) for name in names}
    if (points := game_history.score()) is not None:
        told["score"] = points
    return json.dumps({**told, "moves": game_history.moves_text()}, ensure_ascii=False)


def replay_of(game: Game, played: PlayedGame) -> GameHistory:
    """Return the positions of a played game."""
    # The match may have had a larger ply cap than the game's own.
    cap = max(len(played.actions) + 1, game.max_plies)
    return Opening("", played.start, played.actions).game_history(game, cap)
