"""Stored games as text: one line per game or per weights version, or one game ply by ply with values, visits
and boards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from games.game_history import GameHistory, board_text
from games.spec import Game
from protocol.records import GameRecord
from report.bins import Bin
from runtime.logs import on_one_line
from store.rows import Stored

RESULTS = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}
"""Outcomes for the first player, written as in chess."""

HEADER = (
    f"{'game':>8}  {'received (UTC)':19}  {'source':8}  {'plies':>5}  {'result':7}  {'weights':>11}  reason"
)
CANDIDATES = 4
"""Moves shown with their visits."""


def listed(game: Stored) -> str:
    received = datetime.fromtimestamp(game.received_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return (
        f"{game.seq:8}  {received}  {game.source:8}  {game.plies:5}  {RESULTS.get(game.outcome, '?'):7}  "
        f"{versions(game):>11}  {game.reason}"
    )


def versions(game: Stored) -> str:
    """The weights versions that played the game: "7", or "7-9" if new ones came meanwhile."""
    low, high = game.version_min, game.version_max
    return str(low) if low == high else f"{low}-{high}"


@dataclass(frozen=True)
class Ply:
    """A move and the result of its search."""

    side: int
    """The side that moved; 0: the first player."""
    move: str
    value: float
    """Value of the root after the search, for the side that moves, in [-1, 1]."""
    visits: int
    """Visits of the move that was played."""
    all_visits: int
    most_visited: tuple[tuple[str, int], ...]
    """Moves and their visits, most visited first."""
    prior_value: float | None = None
    """The network's value of the root, before the search; None: unknown, like the next two."""
    prior_kl: float | None = None
    """KL of the search's policy from the network's, nats."""
    depth: tuple[float, int] | None = None
    """Mean and largest depth of the simulations, plies."""


def plies(game: Game, record: GameRecord, game_history: GameHistory) -> Iterator[Ply]:
    """Replay the record on `game_history`, and yield each ply after its move. Raises ValueError if it breaks
    a rule."""
    ends = np.cumsum(record.visited, dtype=np.int64).tolist()
    begins = [0, *ends]
    for index, action in enumerate(record.actions.tolist()):
        begin, end = begins[index], ends[index]
        visits = dict(
            zip(record.visit_actions[begin:end].tolist(), record.visits[begin:end].tolist(), strict=True)
        )
        side, state = game_history.side_to_move, game_history.state
        order = sorted(visits, key=lambda action: (-visits[action], action))
        try:
            move = game.notation.action_to_text(state, action)
            most = tuple((game.notation.action_to_text(state, one), visits[one]) for one in order)
            game_history.play(action)
        except (ValueError, IndexError) as error:
            raise ValueError(f"ply {index}: {error}") from error
        value, played = float(record.root_values[index]), visits.get(action, 0)
        yield Ply(side, move, value, played, sum(visits.values()), most, **_search(record, index))


def _search(record: GameRecord, index: int) -> dict[str, Any]:
    """The figures that older records do not have."""
    found: dict[str, Any] = {}
    for name, column in (("prior_value", record.prior_values), ("prior_kl", record.prior_kl)):
        if not np.isnan(column[index]):
            found[name] = float(column[index])
    if not np.isnan(record.mean_depths[index]):
        found["depth"] = float(record.mean_depths[index]), int(record.max_depths[index])
    return found


def shown(game: Game, stored: Stored, record: GameRecord, boards: int) -> Iterator[str]:
    """Lines of text; a board after every `boards` plies, and at the start and the end."""
    yield HEADER
    yield listed(stored)
    player = on_one_line(record.source) or "?"
    yield f"{record.simulations} simulations a move; played by {player} in {record.seconds:.1f} s"
    yield "value: of the root after the search, for the side that moves; prior: the network's value of it"
    yield "visits: of the move played, of all moves; KL: of the search's policy from the network's, nats"
    game_history = GameHistory(game, record.start, record.max_plies)
    yield from ("", game.notation.render(game_history.state), "")
    yield f"{'ply':>4}  {'move':6} {'value':>7} {'prior':>7} {'KL':>6}  {'visits':>11}  most visited"
    for number, ply in enumerate(plies(game, record, game_history), 1):
        yield _ply_line(number, ply)
        is_last = number == record.plies
        if is_last or (boards and number % boards == 0):
            yield from ("", board_text(game, game_history.state, is_over=is_last), "")
    score = game_history.score()
    points = "" if score is None else f", {score:+g}"
    yield f"{RESULTS.get(record.outcome, '?')} {record.reason}{points}"


def _ply_line(number: int, ply: Ply) -> str:
    most = ", ".join(f"{move} {visits}" for move, visits in ply.most_visited[:CANDIDATES])
    prior = f"{ply.prior_value:+7.3f}" if ply.prior_value is not None else f"{'?':>7}"
    divergence = f"{ply.prior_kl:6.3f}" if ply.prior_kl is not None else f"{'?':>6}"
    visits = f"{ply.visits:5}/{ply.all_visits:<5}"
    return f"{number:4}  {ply.move:6} {ply.value:+7.3f} {prior} {divergence}  {visits}  {most}"


def results_by_version(versions: Sequence[Bin]) -> Iterator[str]:
    """Lines of text, one for each weights version, and a last one for all together. A game in which several
    versions played counts for the newest."""
    yield (
        f"{'weights':>8} {'games':>8} {'first':>7} {'draw':>7} {'second':>7} {'plies':>7} "
        f"{'workers':>8} {'clients':>8}  ends"
    )
    for one in versions:
        yield _results(one.label, one)
    yield _results("all", reduce(add, versions, Bin(0, 0, 0, 0)))


def _results(name: str, results: Bin) -> str:
    games = max(1, results.games)
    first, draw, second = (f"{100 * results.outcomes[outcome] / games:.1f}%" for outcome in (1, 0, -1))
    ends = ", ".join(f"{reason} {number}" for reason, number in results.reasons.most_common())
    return (
        f"{name:>8} {results.games:8} {first:>7} {draw:>7} {second:>7} {results.plies / games:7.1f} "
        f"{results.sources['workers']:8} {results.sources['clients']:8}  {ends}"
    )
