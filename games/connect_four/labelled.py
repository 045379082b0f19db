"""A labelled set of Connect Four positions, made from a seed: play of mixed strength, then the solver.

In every game each side is drawn from four kinds of player: random; one that takes a win and blocks one; one
that looks six plies ahead; and one that is perfect from the 14th stone on (before it, six plies). A tenth of
all moves is random. From each game at most one position per phase is used. Positions and their mirror images
are used once, and at most half of a phase are positions where every legal column keeps the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from games.connect_four import CELLS, GAME
from games.connect_four.solver import Solver, after, board_of, end_value, legal_columns
from games.connect_four.solver_kernel import look_ahead
from games.knowledge import BadTruth
from games.spec import State

PHASES = {"opening": (8, 13), "middle": (14, 24), "end": (25, CELLS - 2)}
"""Stones on the board, both ends included. Before 8 stones a position takes too long to solve."""
PERFECT_FROM = 14
DEPTH = 6
RANDOM_SHARE = 0.1
GENERATOR_BITS = 24
"""The solver of the generator remembers 2 ** 24 positions (128 MiB), because openings are most of the
work."""
KINDS = ("random", "tactical", "deep", "perfect")
COMMITTED = Path(__file__).parent / "data" / "connect_four.jsonl"
"""5,001 positions for tuning, made once so that nobody has to wait for them: those of seed 1, of the set that
was for final judgements until 25 November 2026 (seed 2, 1,000 a phase), and of seed 4 (367 a phase)."""
FINAL = COMMITTED.with_name("connect_four_final.jsonl")
"""`--seed 3 --per-phase 1000 --apart-from COMMITTED`: other positions, for final judgements only."""


@dataclass(frozen=True)
class Labelled:
    """One position and what is known about it; a line of the file."""

    phase: str
    moves: str
    """Columns 1-7 from the empty board: the position with its history."""
    value: int
    """+1, 0 or -1 for the side to move."""
    legal: tuple[int, ...]
    """Columns 0-6."""
    keeps: tuple[int, ...]
    """Legal columns that keep the result."""
    matters: bool
    """Whether some legal column does not keep it."""


def generate(
    seed: int,
    per_phase: int,
    progress: Callable[[str], None] = lambda _: None,
    apart_from: Iterable[Labelled] = (),
) -> list[Labelled]:
    """`per_phase` positions of every phase, in the order of PHASES; the same for the same arguments.

    `apart_from`: rows whose positions, and their mirror images, are excluded.
    """
    taken: dict[str, list[Labelled]] = {phase: [] for phase in PHASES}
    quiet = dict.fromkeys(PHASES, 0)
    seen = {key_of(states_of(row.moves)[-1]) for row in apart_from}
    solver, rng = Solver(GENERATOR_BITS), np.random.default_rng([seed, 4])
    while any(len(rows) < per_phase for rows in taken.values()):
        positions = _game(solver, rng)
        for phase, (fewest, most) in PHASES.items():
            plies = range(fewest, min(most, len(positions) - 1) + 1)
            if len(taken[phase]) == per_phase or not plies:
                continue
            row = _label(solver, phase, positions[: int(rng.choice(plies))], seen)
            if row is None or (not row.matters and quiet[phase] >= per_phase // 2):
                continue
            quiet[phase] += not row.matters
            taken[phase].append(row)
            if len(taken[phase]) % 50 == 0:
                progress(f"{phase}: {len(taken[phase])} of {per_phase} positions")
    return [row for rows in taken.values() for row in rows]


def to_lines(rows: list[Labelled]) -> bytes:
    """JSON lines, one position each."""
    lines = [
        json.dumps(
            {
                "phase": row.phase,
                "moves": row.moves,
                "value": row.value,
                "legal": [column + 1 for column in row.legal],
                "keeps": [column + 1 for column in row.keeps],
                "matters": row.matters,
            },
            separators=(",", ":"),
        )
        for row in rows
    ]
    return "".join(line + "\n" for line in lines).encode()


def from_lines(data: bytes) -> Iterator[Labelled]:
    """Read JSON lines. Raises ValueError, KeyError or TypeError for other content."""
    for line in data.splitlines():
        row = json.loads(line)
        legal, keeps = (tuple(int(column) - 1 for column in row[key]) for key in ("legal", "keeps"))
        yield Labelled(row["phase"], row["moves"], row["value"], legal, keeps, row["matters"])


def read(path: Path = COMMITTED) -> list[Labelled]:
    """The labelled positions in a file. Raises BadTruth."""
    try:
        return list(from_lines(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadTruth(
            f"{path} holds no labelled positions ({error}); reinstall azselfplay if the file came with it, "
            "or make one with `azplay known connect_four --out FILE`"
        ) from error


def states_of(moves: str) -> list[State]:
    """The empty board and the position after each move."""
    states = [np.zeros(GAME.state_words, np.uint64)]
    for column in moves:
        states.append(after(states[-1], int(column) - 1))
    return states


def key_of(state: State) -> tuple[int, int]:
    """A key that a position shares with its mirror image."""
    stones = (int(state[0]), int(state[1]))
    cells = GAME.symmetries[0].cells
    mirrored = [sum(1 << int(cells[cell]) for cell in range(CELLS) if word >> cell & 1) for word in stones]
    return min(stones, (mirrored[0], mirrored[1]))


def _label(solver: Solver, phase: str, moves: str, seen: set[tuple[int, int]]) -> Labelled | None:
    state = states_of(moves)[-1]
    key = key_of(state)
    if key in seen or len(legal_columns(state)) < 2:
        return None
    seen.add(key)
    found = solver.verdict(state)
    return Labelled(phase, moves, found.value, found.legal, found.keeps, found.matters)


def _game(solver: Solver, rng: np.random.Generator) -> str:
    """The columns of one game, to its end."""
    kinds = rng.choice(KINDS, 2)
    state, moves = np.zeros(GAME.state_words, np.uint64), ""
    while end_value(state) is None:
        kind = "random" if rng.random() < RANDOM_SHARE else str(kinds[len(moves) % 2])
        action = int(rng.choice(_candidates(solver, state, kind)))
        state, moves = after(state, action), moves + str(action + 1)
    return moves


def _candidates(solver: Solver, state: State, kind: str) -> list[int]:
    """The columns that a player of this kind considers equally good."""
    legal = [int(action) for action in legal_columns(state)]
    if kind == "random":
        return legal
    if kind == "perfect" and int(state[2]) >= PERFECT_FROM:
        return list(solver.verdict(state).keeps)
    depth = 2 if kind == "tactical" else DEPTH
    values = [_looked_at(after(state, action), depth - 1) for action in legal]
    return [action for action, value in zip(legal, values, strict=True) if value == max(values)]


def _looked_at(child: State, depth: int) -> int:
    """The value for the side that has just moved."""
    ended = end_value(child)
    return -ended if ended is not None else -int(look_ahead(*board_of(child), depth))
