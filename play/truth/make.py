"""`azplay known GAME|all`: make the known truth, and check it against what is known of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from runtime.config import load
from runtime.exits import Exit, Fatal

if TYPE_CHECKING:
    from play.truth.connect_four import Solver
    from play.truth.connect_four_set import Labelled

EXAMPLES = (
    "azplay known all",
    "azplay known connect_four --seed 2 --per-phase 1000 --apart-from labels.jsonl --out others.jsonl",
    "azplay known chess                      # endgame tables, kept under ~/.cache/azselfplay/truth",
)


@dataclass(frozen=True)
class KnownConfig:
    """Makes the truth that networks are measured against: the tree of tic-tac-toe, labelled positions of
    Connect Four, tables of chess endgames; and prints checks against published figures."""

    game: Positional[Literal["all", "tic_tac_toe", "connect_four", "chess"]]
    """What to make."""
    seed: int = 1
    """Connect Four: of the positions. The same seed gives the same file."""
    per_phase: int = 300
    """Connect Four: positions each of opening, middle and end."""
    out: Path | None = None
    """Connect Four: file to write, JSON lines; not given: only check the files that come with the program."""
    apart_from: Path | None = None
    """Connect Four: a file whose positions, and mirror images of them, are not taken."""


class Checks:
    """Prints each check, and remembers whether one failed."""

    def __init__(self) -> None:
        self.failed = 0

    def same(self, what: str, found: object, expected: object) -> None:
        """One line: what it is, what came out, what is known."""
        right = found == expected
        self.failed += not right
        print(f"{'ok  ' if right else 'FAIL'} {what}: {found}" + ("" if right else f", expected {expected}"))


def main() -> int:
    """Entry point. Returns the exit status."""
    settings = load(
        KnownConfig, command="azplay known", examples=EXAMPLES, description=KnownConfig.__doc__ or ""
    )
    if not 1 <= settings.per_phase <= 100_000 or settings.seed < 0:
        raise Fatal("--per-phase must lie between 1 and 100000, --seed must not be negative", Exit.CONFIG)
    checks = Checks()
    wanted = ("tic_tac_toe", "connect_four", "chess") if settings.game == "all" else (settings.game,)
    if "tic_tac_toe" in wanted:
        _tic_tac_toe(checks)
    if "connect_four" in wanted:
        _connect_four(checks, settings)
    if "chess" in wanted:
        _chess(checks)
    if checks.failed:
        raise Fatal(f"{checks.failed} checks failed: this truth must not be trusted", Exit.INTERNAL)
    return int(Exit.OK)


def _tic_tac_toe(checks: Checks) -> None:
    from play.truth.tic_tac_toe import solve

    tree = solve()
    checks.same("tic-tac-toe: positions", len(tree), 5478)
    checks.same("tic-tac-toe: value of the empty board", tree[0, 0].value, 0)
    checks.same("tic-tac-toe: positions that go on", sum(not one.is_over for one in tree.values()), 4520)


def _connect_four(checks: Checks, settings: KnownConfig) -> None:
    from play.truth import connect_four_set as labelled

    if settings.out is not None:
        begun = time.perf_counter()
        others = labelled.read(settings.apart_from) if settings.apart_from else []
        rows = labelled.generate(settings.seed, settings.per_phase, _say, others)
        labelled.write(settings.out, rows)
        _say(f"{len(rows)} positions in {time.perf_counter() - begun:.0f} s")
    files = [settings.out] if settings.out else [labelled.COMMITTED, labelled.FINAL]
    sets = {file: labelled.read(file) for file in files}
    keys = {labelled.key_of(labelled.states_of(row.moves)[-1]) for rows in sets.values() for row in rows}
    count = sum(len(rows) for rows in sets.values())
    checks.same("connect four: positions that are different, mirror images too", len(keys), count)
    for file, rows in sets.items():
        print(f"     {file}")
        _check_labels(checks, rows)


def _check_labels(checks: Checks, rows: Sequence[Labelled]) -> None:
    from play.truth import connect_four_set as labelled
    from play.truth.connect_four import Solver

    solver = Solver()
    late = [row for row in rows if len(row.moves) >= 14]
    agree = [_mirror_agrees(solver, row.moves, row.value, set(row.keeps)) for row in late]
    checks.same("connect four: mirror images solved anew that agree", sum(agree), len(late))
    for phase in labelled.PHASES:
        of_phase = [row for row in rows if row.phase == phase]
        matter = sum(row.matters for row in of_phase)
        values = "/".join(str(sum(row.value == value for row in of_phase)) for value in (1, 0, -1))
        print(
            f"     {phase}: {len(of_phase)} positions, won/drawn/lost {values}, the move matters in {matter}"
        )


def _mirror_agrees(solver: Solver, moves: str, value: int, keeps: set[int]) -> bool:
    from play.truth.connect_four_set import states_of

    found = solver.verdict(states_of("".join(str(8 - int(column)) for column in moves))[-1])
    return found.value == value and {6 - column for column in found.keeps} == keeps


def _chess(checks: Checks) -> None:
    from play.truth import endgames, endgames_kernel

    for name, moves in (("KQK", 10), ("KRK", 16), ("KPK", 28), ("KBNK", 33)):
        begun = time.perf_counter()
        checks.same(f"{name}: longest mate in moves", endgames.ending(name).longest, moves)
        _say(f"{name}: {time.perf_counter() - begun:.1f} s")
    tables = endgames.ending("KPK")
    won = sum(int((table < endgames_kernel.UNKNOWN).sum()) for table in (tables.white, tables.black))
    checks.same("KPK: won positions, pawn on files a-d (as in the bitbases of engines)", won // 2, 111_282)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
