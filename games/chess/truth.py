"""Chess endgames by their tables, and mates in one, in the form that `games.knowledge` requires."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from games.chess import GAME, endings, endings_kernel
from games.knowledge import BadTruth, Check, Known, Row, Say, Solution
from games.spec import NO_ROOT, State

PER_ENDING = 300
"""Positions of each ending (and as many drawn ones of king and pawn)."""
DRAWN_PAWN = "KPK draw"
"""The group in which the bare king has to hold a draw."""
MATE_IN_ONE = "mate in one"
"""The group of whole boards on which the side to move mates at once. Any other move counts as an error there,
even if it keeps the win."""
MATES_IN_ONE = Path(__file__).parent / "data" / "mates_in_one.epd"
"""Positions of an engine's games, one of each; the first line of the file says how they were made."""
FINAL_MATES_IN_ONE = MATES_IN_ONE.with_stem("mates_in_one_final")
"""Other positions of the same kind, for final judgements."""


def probe(state: State) -> Known | None:
    """What is known about a position in which the game continues; None if there is no table for its
    material."""
    here = endings.probe(state)
    if here is None:
        return None
    positions, legal = state.reshape(1, -1), np.zeros(GAME.max_legal, np.uint16)
    count = GAME.rules.legal_actions(positions, 1, legal)
    after = {int(action): _after(state, int(action)) for action in legal[:count]}
    keeps = frozenset(action for action, one in after.items() if one.value == here.value)
    hurry = min if here.value > 0 else max
    plies = hurry(after[action].plies for action in keeps) if here.value else 0
    best = frozenset(action for action in keeps if here.value == 0 or after[action].plies == plies)
    return Known(endings.ending_of(state) or "", here.value, keeps, count, here.plies, best)


def _after(state: State, action: int) -> endings.Known:
    """The result for the side that moves. Material that no table knows is too little to mate (KK, KNK,
    KBK)."""
    child = np.zeros_like(state)
    GAME.rules.play(state, action, child)
    known = endings.probe(child)
    return endings.Known(0, 0) if known is None else endings.Known(-known.value, known.plies)


def rows(seed: int, limit: int) -> list[Row]:
    """Positions of all endings, drawn with `seed`, at most `limit` of each (0: PER_ENDING)."""
    rng, count = np.random.default_rng([seed, 64]), min(limit or PER_ENDING, PER_ENDING)
    groups = [(name, name, True) for name in endings.ENDINGS] + [(DRAWN_PAWN, "KPK", False)]
    endgames = [
        row for group, name, won in groups for row in _ending_rows(group, name, count, rng, strong_wins=won)
    ]
    return [*endgames, *mates_in_one()[: limit or None]]


def mates_in_one() -> list[Row]:
    """The positions of MATES_IN_ONE. Raises BadTruth."""
    return _mates_in(MATES_IN_ONE)


def final_mates_in_one() -> list[Row]:
    """The positions of FINAL_MATES_IN_ONE. Raises BadTruth."""
    return _mates_in(FINAL_MATES_IN_ONE)


def _mates_in(file: Path) -> list[Row]:
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise BadTruth(f"{file} cannot be read ({error.strerror}): reinstall azselfplay") from error
    return [_mate_row(line) for line in lines if not line.startswith("#")]


def _mate_row(epd: str) -> Row:
    positions = np.zeros((2, GAME.state_words), np.uint64)
    positions[0] = GAME.notation.state_from_text(f"{epd} 0 1")
    legal, replies = np.zeros((2, GAME.max_legal), np.uint16)
    count = GAME.rules.legal_actions(positions, 1, legal)
    mating = set()
    for action in legal[:count].tolist():
        GAME.rules.play(positions[0], action, positions[1])
        reason = GAME.rules.end_reason(positions, 2, GAME.rules.legal_actions(positions, 2, replies), NO_ROOT)
        if reason and GAME.end_reasons[reason].value < 0:  # for the side to move, which is mated
            mating.add(action)
    return Row(MATE_IN_ONE, f"{epd} 0 1", (), 1, frozenset(mating), count, {})


def won_rows(name: str, count: int, seed: int, apart_from: Collection[Row]) -> list[Row]:
    """`count` different won positions of one of the ENDINGS, with the side with the men to move, and none of
    those in `apart_from`."""
    taken = {row.start for row in apart_from}
    found = _ending_rows(name, name, count + len(taken), np.random.default_rng([seed, 65]), strong_wins=True)
    return [row for row in found if row.start not in taken][:count]


def _ending_rows(
    group: str, name: str, count: int, rng: np.random.Generator, *, strong_wins: bool
) -> list[Row]:
    """Different positions, drawn uniformly from all, either colour having the men.

    With `strong_wins` the side with the men is to move and wins, else the bare king is to move and draws.
    """
    found: dict[str, Row] = {}
    tables = endings.ending(name)
    table = tables.white if strong_wins else tables.black
    while len(found) < count:
        index = int(rng.integers(len(table)))
        entry = table[index]
        if not (entry < endings_kernel.UNKNOWN if strong_wins else entry == endings_kernel.DRAWN):
            continue
        black = bool(rng.integers(2))
        state = endings.state_at(name, index, strong_to_move=strong_wins, strong_is_black=black)
        row = row_of(group, state)
        if row is not None:
            found.setdefault(row.start, row)
    return list(found.values())


def row_of(group: str, state: State) -> Row | None:
    """The truth about a position that a table knows; None if the game is over there."""
    positions, legal = state.reshape(1, -1), np.zeros(GAME.max_legal, np.uint16)
    if GAME.rules.end_reason(positions, 1, GAME.rules.legal_actions(positions, 1, legal), NO_ROOT):
        return None
    known = probe(state)
    if known is None:
        return None
    longer = {}
    if known.value > 0 and known.plies is not None:
        longer = {action: _after(state, action).plies + 1 - known.plies for action in known.keeps}
    return Row(group, GAME.notation.state_to_text(state), (), known.value, known.keeps, known.legal, longer)


def _checks(_file: Path | None, say: Say) -> Iterator[Check]:
    for name, moves in (("KQK", 10), ("KRK", 16), ("KPK", 28), ("KBNK", 33)):
        yield Check(f"{name}: longest mate in moves", endings.ending(name).longest, moves)
    tables = endings.ending("KPK")
    won = sum(int((table < endings_kernel.UNKNOWN).sum()) for table in (tables.white, tables.black))
    yield Check("KPK: won positions, pawn on files a-d (as in the bitbases of engines)", won // 2, 111_282)


SOLUTION = Solution(
    covers=", ".join(endings.ENDINGS),
    probe=probe,
    rows=rows,
    checks=_checks,
    groups=(*endings.ENDINGS, DRAWN_PAWN, MATE_IN_ONE),
    watched_rows=mates_in_one,
    final_watched_rows=final_mates_in_one,
    plays_whole_games=False,
    counts_plies=True,
    endings={name: partial(won_rows, name) for name in endings.ENDINGS},
)
