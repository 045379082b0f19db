"""Positions with their truth, in one form for all games: what a player is asked and what is right."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from games.chess import GAME as CHESS
from games.connect_four import GAME as CONNECT_FOUR
from games.spec import Game, State
from games.tic_tac_toe import GAME as TIC_TAC_TOE
from play.truth import connect_four_set, endgames, endgames_kernel, tic_tac_toe
from runtime.exits import Exit, Fatal

PER_ENDING = 300
"""Positions of each chess ending (and as many drawn ones of king and pawn)."""
DRAWN_PAWN = "KPK draw"
"""The group in which the bare king has to hold a draw."""


@dataclass(frozen=True)
class Row:
    """A position in which the game goes on."""

    group: str
    """Part of the report that it counts for."""
    start: str
    """In the game's notation; "" is the usual start."""
    moves: tuple[int, ...]
    """Actions from there, so that the network sees the past as it would in a game."""
    value: int
    """Result with best play, for the side to move."""
    keeps: frozenset[int]
    """Actions that keep it."""
    legal: int
    """Number of legal actions."""
    longer: dict[int, int]
    """For actions that keep a won endgame: plies lost against the quickest mate. Else empty."""

    @property
    def matters(self) -> bool:
        """Whether some legal action throws the result away."""
        return len(self.keeps) < self.legal


def rows_for(game: Game, seed: int = 1, limit: int = 0) -> list[Row]:
    """All rows for a game, or the first `limit` of each group. Chess endgames are drawn by `seed`.

    Fatal(CONFIG) for a game of which nothing is known.
    """
    if game is TIC_TAC_TOE:
        rows = _tic_tac_toe_rows()
    elif game is CONNECT_FOUR:
        rows = connect_four_rows()
    elif game is CHESS:
        rows = _chess_rows(np.random.default_rng([seed, 64]), min(limit or PER_ENDING, PER_ENDING))
    else:
        raise Fatal(
            f"no truth is known for the game {game.name}, only for tic_tac_toe, connect_four and chess; "
            "measure its networks with azplay match or azplay ladder",
            Exit.CONFIG,
        )
    left = dict.fromkeys((row.group for row in rows), limit or len(rows))
    chosen = []
    for row in rows:
        left[row.group] -= 1
        if left[row.group] >= 0:
            chosen.append(row)
    return chosen


def _tic_tac_toe_rows() -> list[Row]:
    return [
        Row("tree", "", one.moves, one.value, frozenset(one.keeps), len(one.children), {})
        for one in tic_tac_toe.solve().values()
        if not one.is_over
    ]


def connect_four_rows(file: Path = connect_four_set.COMMITTED) -> list[Row]:
    """The labelled positions in a file. Fatal(BAD_DATA)."""
    return [
        Row(
            one.phase,
            "",
            tuple(int(column) - 1 for column in one.moves),
            one.value,
            frozenset(one.keeps),
            len(one.legal),
            {},
        )
        for one in connect_four_set.read(file)
    ]


def _chess_rows(rng: np.random.Generator, count: int) -> list[Row]:
    groups = [(name, name, True) for name in endgames.ENDINGS] + [(DRAWN_PAWN, "KPK", False)]
    return [
        row for group, name, won in groups for row in _ending_rows(group, name, count, rng, strong_wins=won)
    ]


def won_rows(name: str, count: int, seed: int, apart_from: Collection[Row] = ()) -> list[Row]:
    """`count` different won positions of one of the ENDINGS, the side with the men to move; none of those in
    `apart_from`."""
    taken = {row.start for row in apart_from}
    rows = _ending_rows(name, name, count + len(taken), np.random.default_rng([seed, 65]), strong_wins=True)
    return [row for row in rows if row.start not in taken][:count]


def _ending_rows(
    group: str, name: str, count: int, rng: np.random.Generator, *, strong_wins: bool
) -> list[Row]:
    """Different positions, either colour having the men, evenly from all there are.

    With `strong_wins` the side with the men is to move and wins, else the bare king is and draws.
    """
    rows: dict[str, Row] = {}
    tables = endgames.ending(name)
    table = tables.white if strong_wins else tables.black
    while len(rows) < count:
        index = int(rng.integers(len(table)))
        entry = table[index]
        if not (entry < endgames_kernel.UNKNOWN if strong_wins else entry == endgames_kernel.DRAWN):
            continue
        black = bool(rng.integers(2))
        state = endgames.state_at(name, index, strong_to_move=strong_wins, strong_is_black=black)
        row = chess_row(group, state)
        if row is not None:
            rows.setdefault(row.start, row)
    return list(rows.values())


def chess_row(group: str, state: State) -> Row | None:
    """The truth of a chess position that a table knows; None if the game is over there."""
    known = endgames.probe(state)
    line, legal = state.reshape(1, -1), np.zeros(CHESS.max_legal, np.uint16)
    count = CHESS.rules.legal_actions(line, 1, legal)
    if known is None or CHESS.rules.end_reason(line, 1, count, False):
        return None
    after = {int(action): _value_after(state, int(action)) for action in legal[:count]}
    keeps = frozenset(action for action, one in after.items() if one.value == known.value)
    longer = {action: after[action].plies + 1 - known.plies for action in keeps} if known.value > 0 else {}
    return Row(group, CHESS.notation.state_to_text(state), (), known.value, keeps, count, longer)


def _value_after(state: State, action: int) -> endgames.Known:
    """For the side that moves. What no table knows has too little material left (KK, KNK, KBK)."""
    child = np.zeros_like(state)
    CHESS.rules.play(state, action, child)
    known = endgames.probe(child)
    return endgames.Known(0, 0) if known is None else endgames.Known(-known.value, known.plies)
