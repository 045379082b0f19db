"""One game for people: moves with values and visits, and pictures of the board."""

from __future__ import annotations

from collections.abc import Iterator

from games.game_history import GameHistory
from games.spec import Game
from protocol.records import GameRecord
from report.games.listing import HEADER, RESULTS, listed
from report.games.plies import Ply, plies
from store.rows import Stored

CANDIDATES = 4
"""Moves listed with their visits."""


def shown(game: Game, stored: Stored, record: GameRecord, boards: int) -> Iterator[str]:
    """Lines of text; a board after every `boards` plies, and at the start and the end."""
    yield HEADER
    yield listed(stored)
    player = record.source or "?"
    yield f"{record.simulations} simulations a move; played by {player} in {record.seconds:.1f} s"
    yield "value: of the root after search, for the side that moves; prior: the network's own, before it"
    yield "visits: of the move played, of all; KL: of the search from the policy, nats"
    game_history = GameHistory(game, record.start, record.max_plies)
    yield from ("", game.notation.render(game_history.state), "")
    yield f"{'ply':>4}  {'move':6} {'value':>7} {'prior':>7} {'KL':>6}  {'visits':>11}  most visited"
    for number, ply in enumerate(plies(game, record, game_history), 1):
        yield _ply_line(number, ply)
        if number == record.plies or (boards and number % boards == 0):
            yield from ("", game.notation.render(game_history.state), "")
    score = game_history.score()
    points = "" if score is None else f", {score:+g}"
    yield f"{RESULTS.get(record.outcome, '?')} {record.reason}{points}"


def _ply_line(number: int, ply: Ply) -> str:
    most = ", ".join(f"{move} {visits}" for move, visits in ply.most_visited[:CANDIDATES])
    prior = f"{ply.prior_value:+7.3f}" if ply.prior_value is not None else f"{'?':>7}"
    divergence = f"{ply.prior_kl:6.3f}" if ply.prior_kl is not None else f"{'?':>6}"
    visits = f"{ply.visits:5}/{ply.all_visits:<5}"
    return f"{number:4}  {ply.move:6} {ply.value:+7.3f} {prior} {divergence}  {visits}  {most}"
