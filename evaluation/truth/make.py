"""`azplay known GAME|all`: make the known truth, and check it against published results."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from tyro.conf import Positional

from protocol.settings import Seed
from runtime.config import load
from runtime.exits import Exit, Fatal

if TYPE_CHECKING:
    from games.knowledge import Solution

EXAMPLES = (
    "azplay known all",
    "azplay known connect_four --seed 2 --per-phase 1000 --apart-from labels.jsonl --out others.jsonl",
    "azplay known chess                      # endgame tables, kept under ~/.cache/azselfplay/truth",
)


@dataclass(frozen=True)
class KnownConfig:
    """Makes the known results that networks are measured against (trees, labelled positions, endgame tables),
    and prints checks against published figures."""

    game: Positional[str]
    """A game, or `all`; the names are at the top of `--help`."""
    seed: Seed = 1
    """Seed of labelled positions. The same seed gives the same file."""
    per_phase: Annotated[int, Meta(ge=1, le=100_000)] = 300
    """Number of labelled positions for each phase of a game."""
    out: Path | None = None
    """File of labelled positions to write, JSON lines. Without it, those that come with the program are
    checked."""
    apart_from: Path | None = None
    """A file of labelled positions that are left out, with their mirror images."""


class Checks:
    """Prints each check, and counts those that failed."""

    def __init__(self) -> None:
        self.failed = 0

    def same(self, what: str, found: object, expected: object) -> None:
        """Print what was checked, what was found, and what was expected."""
        right = found == expected
        self.failed += not right
        print(f"{'ok  ' if right else 'FAIL'} {what}: {found}" + ("" if right else f", expected {expected}"))


def main() -> int:
    """Entry point. Returns the exit status."""
    settings = load(KnownConfig, command="azplay known", examples=EXAMPLES)
    from games.knowledge import BadTruth

    checks = Checks()
    try:
        for solution in _solutions(settings.game):
            if settings.out is not None:
                _label(solution, settings, settings.out)
            for check in solution.checks(settings.out, _say):
                checks.same(*check)
    except BadTruth as error:
        raise Fatal(str(error), Exit.BAD_DATA) from error
    if checks.failed:
        raise Fatal(f"{checks.failed} checks failed: do not use these labels", Exit.INTERNAL)
    return int(Exit.OK)


def _solutions(name: str) -> list[Solution]:
    """The solution of one game, or of all solved games. Raises Fatal(CONFIG)."""
    from evaluation.truth.errors import solution_of
    from games import get_game
    from games.knowledge import knowledge_of
    from games.names import WITH_SOLVED

    if name == "all":
        found = [knowledge_of(get_game(one)).solution for one in WITH_SOLVED]
        return [one for one in found if one is not None]
    try:
        return [solution_of(get_game(name), "nothing can be made")]
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error


def _label(solution: Solution, settings: KnownConfig, out: Path) -> None:
    """Write a file of labelled positions, whole or not at all. Raises Fatal(CONFIG or DISK)."""
    from games.knowledge import Labels
    from runtime.runs import write_atomically

    if solution.label is None:
        raise Fatal(
            f"--out has nothing to write: positions of {settings.game} are solved when they are asked about",
            Exit.CONFIG,
        )
    data = solution.label(Labels(settings.seed, settings.per_phase, settings.apart_from), _say)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, data)
    except OSError as error:
        raise Fatal(f"cannot write {out}: {error.strerror}", Exit.DISK) from error


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
