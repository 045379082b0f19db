"""Measures how often moves are wrong in positions whose best moves are known.

Positions and their best moves come from the knowledge about the games (`games.knowledge`). This module counts
how often a move loses a known result, and by how much it delays a mate. The last part asks networks for their
moves in many positions at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from azselfplay.games.game_history import GameHistory
from azselfplay.games.knowledge import BadTruth, Row, Solution, knowledge_of
from azselfplay.games.spec import Game, outcome_for_first_player
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.view import aligned
from azselfplay.play.analysis import BATCHES_IN_FLIGHT
from azselfplay.play.builtin_players import solved_games
from azselfplay.play.nets import LoadedNet, search_name
from azselfplay.play.openings import Opening
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import choose_action
from azselfplay.search.mcts import search as search_tree
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import FOR_EVALUATION
from azselfplay.search.tree import SearchTree
from protocol.settings import SelfPlaySettings


def solution_of(game: Game, instead: str) -> Solution:
    """Return the solved positions of a game. Raises Fatal(CONFIG) with the advice `instead` if the game has
    none."""
    solution = knowledge_of(game).solution
    if solution is None:
        known = ", ".join(solved_games())
        raise Fatal(f"no truth is known for the game {game.name}, only for {known}; {instead}", Exit.CONFIG)
    return solution


def rows_for(game: Game, seed: int = 1, limit: int = 0) -> list[Row]:
    """Return all rows of a game, or the first `limit` of each group; `seed` is for rows that are chosen at
    random.

    Raises Fatal(CONFIG) for a game without solved positions.
    """
    solution = solution_of(game, "measure its networks with azplay match or azplay ladder")
    rows = read_rows(lambda: solution.rows(seed, limit))
    # Keep the order of the rows, so that a limited measurement uses a part of the full one.
    left = dict.fromkeys((row.group for row in rows), limit or len(rows))
    chosen = []
    for row in rows:
        left[row.group] -= 1
        if left[row.group] >= 0:
            chosen.append(row)
    return chosen


def final_rows(game: Game) -> list[Row]:
    """Return the rows for final judgements. They differ from those of `rows_for` if the game has separate
    ones."""
    solution = solution_of(game, "judge its networks by matches")
    return rows_for(game) if solution.final_rows is None else read_rows(solution.final_rows)


def read_rows(rows: Callable[[], list[Row]]) -> list[Row]:
    """Return `rows()`. Raises Fatal(BAD_DATA) for a file without rows."""
    try:
        return rows()
    except BadTruth as error:
        raise Fatal(str(error), Exit.BAD_DATA) from error


@dataclass(frozen=True)
class Errors:
    """Figures of the rows of one group."""

    group: str
    rows: int
    errors: float
    """Share of the rows in which the move does not keep the result."""
    matter: int
    """Rows in which some legal move does not keep the result."""
    errors_matter: float
    """Share of errors in these rows."""
    longer: float | None
    """Average number of moves by which a move that keeps a won endgame delays the mate; None elsewhere."""


def groups_of(rows: Sequence[Row]) -> list[str]:
    """Return the groups in their order, and "all" if there is more than one."""
    groups = list(dict.fromkeys(row.group for row in rows))
    return [*groups, "all"] if len(groups) > 1 else groups


def count_errors(rows: Sequence[Row], played: Sequence[int], group: str) -> Errors:
    """Return the figures of one group (or "all"). `played` has an action for each row."""
    pairs = [(row, a) for row, a in zip(rows, played, strict=True) if group in (row.group, "all")]
    wrong = [float(action not in row.keeps) for row, action in pairs]
    # Convert to moves, because a table counts plies.
    delays = [row.longer[action] / 2 for row, action in pairs if action in row.longer]
    return _errors(group, [row for row, _ in pairs], wrong, delays)


def expected_errors(rows: Sequence[Row], group: str) -> Errors:
    """Return the expected figures of random moves."""
    chosen = [row for row in rows if group in (row.group, "all")]
    # All legal moves are equally likely.
    wrong = [1 - len(row.keeps) / row.legal for row in chosen]
    delays = [sum(row.longer.values()) / len(row.longer) / 2 for row in chosen if row.longer]
    return _errors(group, chosen, wrong, delays)


def _errors(group: str, rows: Sequence[Row], wrong: Sequence[float], delays: Sequence[float]) -> Errors:
    # If every move keeps the result, no error is possible.
    matter = [share for row, share in zip(rows, wrong, strict=True) if row.matters]
    return Errors(
        group=group,
        rows=len(rows),
        errors=sum(wrong) / max(1, len(rows)),
        matter=len(matter),
        errors_matter=sum(matter) / max(1, len(matter)),
        longer=sum(delays) / len(delays) if delays else None,
    )


@dataclass(frozen=True)
class TreeResult:
    """All games of a player that always plays the same move in a position, against every reply."""

    lines: int
    """Total number of games."""
    won: int
    drawn: int
    lost: int


def play_whole_tree(game: Game, played: Mapping[bytes, int], *, first: bool) -> TreeResult:
    """Play a game of few positions from its start against all replies.

    `played`: the player's action in each position where it is to move, by the bytes of the state. `first`:
    whether the player moves first.
    """
    player = 0 if first else 1
    counts: dict[bytes, tuple[int, int, int]] = {}

    def walk(game_history: GameHistory) -> tuple[int, int, int]:
        """Return the numbers of (won, drawn, lost) games of the player from here on."""
        # Count by position: many orders of moves lead to the same position, which has the same continuations.
        key = game_history.state.tobytes()
        if key not in counts:
            if game_history.end_reason() is not None:
                value = outcome_for_first_player(game_history.outcome(), player)
                counts[key] = int(value > 0), int(value == 0), int(value < 0)
            else:
                own_turn = game_history.side_to_move == player
                actions = [played[key]] if own_turn else game_history.legal_actions().tolist()
                after = []
                for action in actions:
                    child = game_history.up_to(game_history.ply)
                    child.play(action)
                    after.append(walk(child))
                won, drawn, lost = (sum(column) for column in zip(*after, strict=True))
                counts[key] = won, drawn, lost
        return counts[key]

    won, drawn, lost = walk(GameHistory(game))
    return TreeResult(won + drawn + lost, won, drawn, lost)


async def chosen_actions(
    net: LoadedNet, rows: Sequence[Row], simulations: int, settings: SelfPlaySettings = FOR_EVALUATION
) -> list[int]:
    """Return the action played in every row; 0 simulations means the raw policy. Each row gets a new tree."""
    most = max(64, BATCHES_IN_FLIGHT * net.target_rows)
    forest = Forest(net.game, net.resolved(settings, simulations), min(most, len(rows)), network=net.own)
    pool = SearchPool(forest, net.evaluator)
    # Use as many trees as keep the device's batches full; more would only take memory.
    places = asyncio.Semaphore(most)

    rng = np.random.default_rng(0)  # never used: no noise, no temperature

    async def one(row: Row) -> int:
        async with places:
            with SearchTree(pool.forest, rng) as tree:
                tree.reset(tree.game.notation.state_from_text(row.start))
                for action in row.moves:
                    tree.advance(action)
                if simulations == 0:
                    await pool.expand(tree)
                    view = tree.view_of_net()
                    return int(view.actions[np.argmax(view.priors)])
                return choose_action(await search_tree(tree, pool), tree.ply, tree.settings, rng)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(row)) for row in rows]
    return [task.result() for task in tasks]


async def measure(
    nets: Sequence[LoadedNet],
    rows: Sequence[Row],
    simulations: Sequence[int],
    progress: Callable[[str], None] = lambda _: None,
    settings: SelfPlaySettings = FOR_EVALUATION,
) -> list[PlayerErrors]:
    """Return the errors of every network at every number of simulations of the search, then the errors of
    random moves."""
    found = []
    for net in nets:
        for count in simulations:
            progress(f"{net.name}: {count} simulations, {len(rows)} positions")
            played = await chosen_actions(net, rows, count, settings)
            groups = [count_errors(rows, played, group) for group in groups_of(rows)]
            trees: dict[str, TreeResult] = {}
            # With --limit, some positions have no move, so the whole tree cannot be played.
            if net.game.few_positions and len(rows) == len(rows_for(net.game)):
                actions = {
                    Opening("", row.start, row.moves).game_history(net.game).state.tobytes(): action
                    for row, action in zip(rows, played, strict=True)
                }
                for side in ("first", "second"):
                    trees[side] = play_whole_tree(net.game, actions, first=side == "first")
            found.append(PlayerErrors(net.name, count, groups, trees, search_name(settings)))
    groups = [expected_errors(rows, group) for group in groups_of(rows)]
    return [*found, PlayerErrors("random moves", None, groups, {})]


# The table that `azplay truth` prints, and the same as JSON.

HEADINGS = (
    *("player", "moves by", "positions", "rows", "errors", "it matters", "errors there", "mate later by"),
)
LEGEND = (
    "An error throws the known result away. it matters: positions in which some legal move is an error; "
    "errors there: the share of those in which the player errs."
)
"""Explanation of the columns, printed below the table."""


@dataclass(frozen=True)
class PlayerErrors:
    """The errors of one player, by group."""

    player: str
    """The network's name, `untrained ...` or `random moves`."""
    simulations: int | None
    """0: raw policy; None: no network."""
    groups: Sequence[Errors]
    trees: Mapping[str, TreeResult]
    """Tic-tac-toe only: "first" and "second", against all replies."""
    how: str = "puct"
    """The search (`play.nets`); unused without simulations."""

    @property
    def search(self) -> str:
        if self.simulations is None:
            return "expected"
        return f"{self.simulations} simulations, {self.how}" if self.simulations else "raw policy"


def errors_table(players: Sequence[PlayerErrors]) -> str:
    """Return a table with one line per player and group."""
    rows: list[Sequence[str]] = [HEADINGS]
    lines = []
    for player in players:
        for one in player.groups:
            figures = [str(one.rows), f"{one.errors:.1%}", str(one.matter), f"{one.errors_matter:.1%}"]
            later = "" if one.longer is None else f"{one.longer:.2f} moves"
            rows.append([player.player, player.search, one.group, *figures, later])
        for side, tree in player.trees.items():
            verdict = "never loses" if tree.lost == 0 else f"loses {tree.lost} of {tree.lines} games"
            lines.append(
                f"{player.player}, {player.search}, as {side} player against all replies: {verdict} "
                f"(won {tree.won}, drawn {tree.drawn})"
            )
    # A column without entries is left out: for example, only chess endgames have mates.
    filled = [place for place in range(len(HEADINGS)) if any(row[place] for row in rows[1:])]
    table = aligned([[row[place] for place in filled] for row in rows], left=3)
    return "\n".join([table, *lines, LEGEND])


def to_json(game: str, players: Sequence[PlayerErrors]) -> dict[str, Any]:
    """Return the figures for JSON. Shares are between 0 and 1, `longer` is in moves."""
    return {
        "game": game,
        "players": [
            {
                "player": player.player,
                "simulations": player.simulations,
                "search": player.how if player.simulations else "",
                "groups": {one.group: asdict(one) for one in player.groups},
                "trees": {side: asdict(tree) for side, tree in player.trees.items()},
            }
            for player in players
        ],
    }
