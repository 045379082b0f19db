"""Positions whose best moves are known (`games.knowledge`)."""

from __future__ import annotations

from collections.abc import Callable

from games import get_game
from games.knowledge import BadTruth, Row, Solution, knowledge_of
from games.names import WITH_SOLVED
from games.spec import Game
from runtime.exits import Exit, Fatal


def solution_of(game: Game, instead: str) -> Solution:
    """The solved positions of a game. Raises Fatal(CONFIG) if it has none, with the advice `instead`."""
    solution = knowledge_of(game).solution
    if solution is None:
        known = ", ".join(name for name in WITH_SOLVED if knowledge_of(get_game(name)).solution is not None)
        raise Fatal(f"no truth is known for the game {game.name}, only for {known}; {instead}", Exit.CONFIG)
    return solution


def rows_for(game: Game, seed: int = 1, limit: int = 0) -> list[Row]:
    """All rows of a game, or the first `limit` of each group; `seed` is for those chosen at random.

    Raises Fatal(CONFIG) for a game without solved positions.
    """
    solution = solution_of(game, "measure its networks with azplay match or azplay ladder")
    rows = read_rows(lambda: solution.rows(seed, limit))
    left = dict.fromkeys((row.group for row in rows), limit or len(rows))
    chosen = []
    for row in rows:
        left[row.group] -= 1
        if left[row.group] >= 0:
            chosen.append(row)
    return chosen


def final_rows(game: Game) -> list[Row]:
    """Rows for final judgements: not those of `rows_for`, if the game has others."""
    solution = solution_of(game, "judge its networks by matches")
    return rows_for(game) if solution.final_rows is None else read_rows(solution.final_rows)


def read_rows(rows: Callable[[], list[Row]]) -> list[Row]:
    """Return `rows()`. Raises Fatal(BAD_DATA) for a file without rows."""
    try:
        return rows()
    except BadTruth as error:
        raise Fatal(str(error), Exit.BAD_DATA) from error
