"""Searches one position at a time with a network and a tree, and reports during the search.

A `Thinker` keeps its tree between searches: if the next position continues the last one, the matching subtree
stays. A running search (`Thinking`) can be stopped, or can get a deadline after a ponderhit; both wake the
search loop at once. The result is read from the tree's edges: the best move is a proven win, else the most
visited move, or the one that `final_move` prefers; proven losses come last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from azselfplay.games.game_history import GameHistory
from azselfplay.games.spec import MAX_PLIES, Game, outcome_for_first_player
from azselfplay.play.nets import LoadedNet
from azselfplay.play.orders import Found, Line, Progress, Report, Request
from azselfplay.play.syzygy import Tables
from azselfplay.search.evaluator import Evaluations, evaluate
from azselfplay.search.layout import UNEXPANDED
from azselfplay.search.leaf_parallel import (
    Interrupt,
    Limits,
    ParallelTree,
    node_bytes,
    search_parallel,
    unless_over,
)
from azselfplay.search.mcts import secure_action
from azselfplay.search.result import Candidates
from azselfplay.search.settings import FOR_EVALUATION, resolve
from protocol.settings import MAX_SIMULATIONS, SelfPlaySettings, changed

MOST_MOVES = 6_000
"""Most moves of one game. The longest tournament game of chess had 538 half-moves."""


class OpenGame(GameHistory):
    """A game that may continue after an end by the rules: the controller decides whether it is over."""

    def play(self, action: int) -> None:
        """Play an action. Raises ValueError if it is not legal, or the game is too long."""
        if self.ply >= MOST_MOVES:
            raise ValueError(f"a game has at most {MOST_MOVES} moves here")
        # Moves are legal even if the rules have ended the game: a controller may go on after a repetition.
        if action not in self.legal_actions():
            raise ValueError(f"action {action} is not legal here")
        self._append(action)

    def take_back(self, ply: int) -> None:
        """Return to the position after the first `ply` moves."""
        # Later positions stay in the array and are overwritten.
        del self.actions[ply:]


ROOT_GRACE = 0.03
"""Seconds that the root's evaluation may take beyond the time limit, because no move is known without it. A
stop waits for it."""

PLANNED_SIMULATIONS = 800
"""Simulations of a search that must plan them (gumbel), if none are given."""

Tell = Callable[[Report], None]


class Thinking:
    """One running search, which can be stopped or given a deadline."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.started = request.began
        """When the first simulation began."""
        self.interrupt = Interrupt()
        self.limits = Limits(
            simulations=request.simulations,
            allowed=request.allowed,
            stop_when_proven=request.stop_when_proven,
        )
        if request.seconds is not None and not request.is_pondering:
            self.limits.until = request.began + request.seconds

    def stop(self) -> None:
        self.interrupt.stop()

    def set_deadline(self, until: float | None) -> None:
        """End the search at `until` on the clock of the event loop; None leaves the deadline unchanged."""
        if until is not None:
            self.limits.until = until
        # The search may be waiting for a batch and would notice the new deadline too late.
        self.interrupt.wake()


class Thinker:
    """A network and the tree of its game. Runs one search at a time."""

    def __init__(
        self,
        net: LoadedNet,
        hash_mib: int,
        leaves: int,
        seed: int,
        settings: SelfPlaySettings = FOR_EVALUATION,
        game: Game | None = None,
        tables: Tables | None = None,
    ) -> None:
        """`settings`: see `play.nets.settings_for_search`. `game`: another variant with the same board and
        actions as the network's game (`play.nets.check_fits`). `tables`: endgame tables, which choose the
        moves that are searched at the root."""
        self.net = net
        self.game = game or net.game
        # Longer than in self-play, because the controller decides when a game is over.
        changes = {"search.simulations": MAX_SIMULATIONS, "history": net.history, "max_plies": MAX_PLIES}
        self._evaluator = net.evaluator
        self._tables = tables
        self._rng = np.random.default_rng(seed)
        self.tree = ParallelTree(
            self.game,
            resolve(changed(settings, changes), self.game),
            self._rng,
            max_nodes=(hash_mib << 20) // node_bytes(self.game),
            max_leaves=leaves,
            network=net.own,
        )
        # No position has this text, so the first search sets the tree to its own position.
        self._start = "none yet"
        self._played: tuple[int, ...] = ()

    def close(self) -> None:
        self.net.close()

    def warm_up(self) -> None:
        """Compile or load all code that a search calls, before a clock runs: first the network's code, then
        the kernels, with a few simulations without a network. This takes seconds, so do not call it in the
        thread of an event loop."""
        tree = self.tree
        tree.reset(self.game.notation.state_from_text(""))
        evaluation = self._evaluator.answer(tree.root_leaf())
        tree.expand_root(evaluation.priors.astype(np.float32), float(evaluation.values[0]))
        # Run a few batches, so that every kernel runs once with leaves and once without.
        tree.start_search(60)
        while (leaves := tree.gather()).rows:
            priors = np.repeat((1.0 / leaves.counts).astype(np.float32), leaves.counts)
            tree.settle(Evaluations(priors, np.zeros((leaves.rows, 3), np.float32), 0))
        lines_of(tree, self.game, 2)
        # Remove everything, so that nothing of this stays for the first search.
        tree.give_up()
        tree.advance(int(tree.edges_of(0)["action"][0]))
        tree.legal_actions()

    async def think(self, thinking: Thinking, tell: Tell) -> Found:
        """Search, and report regularly and at the end."""
        request, tree = thinking.request, self.tree
        game = as_written(self.game, request)
        # The subtree of the last search is kept if the new position continues the last one.
        known = len(self._played)
        goes_on = request.start == self._start and request.actions[:known] == self._played
        if request.new_game or not goes_on:
            tree.reset(self.game.notation.state_from_text(request.start))
            known = 0
        for played in request.actions[known:]:
            tree.advance(played)
        # Set these before the search: even if it is stopped, the tree is at this position.
        self._start, self._played = request.start, request.actions
        actions = tree.legal_actions()
        reason = tree.end_reason()
        if not len(actions) or reason in request.claims:
            outcome = outcome_for_first_player(tree.outcome(), self.game.rules.side_to_move(tree.state))
            tell(Report(outcome=outcome))
            return Found((), value=outcome, claim=reason if reason in request.claims else "")
        if self._tables is not None:
            game_history = OpenGame(self.game, request.start)
            for played in request.actions:
                game_history.play(played)
            # Probe in a thread, because the files may be on a slow disk.
            best = await asyncio.to_thread(self._tables.best, game_history, request.allowed)
            thinking.request = request = replace(request, allowed=best or request.allowed)
            thinking.limits.allowed = request.allowed
        # Evaluate the root before the search, because a move needs at least the root's priors.
        draw = await self._look_at_root(thinking)
        if not tree.is_expanded:
            tell(Report(note="there was no time to evaluate the position: the first legal move is played"))
            action = int(request.allowed[0] if request.allowed else actions[0])
            return Found((game.notation.action_to_text(tree.state, action),), action)
        ownership: tuple[float, ...] = ()
        if request.ownership and self.net.ownership is not None:
            # Compute in a thread, because a large network would block the event loop too long.
            seen = tree.root_leaf().features
            ownership = tuple((await asyncio.to_thread(self.net.ownership, seen))[0].tolist())
        if self._is_planned:  # sequential halving must know the number of simulations before it begins
            wanted = min(request.simulations or PLANNED_SIMULATIONS, MAX_SIMULATIONS)
            tree.settings = changed(tree.settings, {"search.simulations": wanted})
            thinking.limits.simulations = wanted
        thinking.started = asyncio.get_running_loop().time()
        thinking.limits.is_enough = lambda: self._is_enough(thinking)

        async def report_regularly() -> None:
            while True:
                await asyncio.sleep(request.report_seconds)
                tell(self._report(request, draw, ownership))

        reporting = asyncio.create_task(report_regularly())
        try:
            await search_parallel(tree, self._evaluator, thinking.limits, thinking.interrupt)
        finally:
            # Cancel before the last report, so that no report comes after it.
            reporting.cancel()
        tell(self._report(request, draw, ownership))
        index = best_index(tree, request.allowed, request.temperature, self._rng)
        action = int(tree.edges_of(0)["action"][index])
        moves, value = line_of_play(tree, game, index), value_of(tree, index)
        return Found(moves, action, value, ownership=ownership)

    def contenders(self, allowed: Sequence[int] = ()) -> list[int]:
        """Return the visits of the root's moves that are not proven to lose, among the actions `allowed`
        (empty: all)."""
        edges, proofs = self.tree.edges_of(0), self.tree.edge_proofs(0)
        return [
            int(edge["visits"])
            for edge, proof in zip(edges, proofs, strict=True)
            if proof >= 0 and (not allowed or int(edge["action"]) in allowed)
        ]

    async def _look_at_root(self, thinking: Thinking) -> float | None:
        """Expand the root if needed. Returns the network's draw probability at the root if the request wants
        it, else None."""
        shows_draw = thinking.request.show_draw
        if self.tree.is_expanded and not shows_draw:
            return None
        asked = evaluate(self._evaluator, self.tree.root_leaf())
        evaluation = await unless_over(asked, thinking.limits, thinking.interrupt, ROOT_GRACE)
        if evaluation is None:
            return None
        if not self.tree.is_expanded:
            self.tree.expand_root(evaluation.priors, float(evaluation.values[0]))
        return float(evaluation.wdl[0, 1]) if shows_draw else None

    @property
    def _is_planned(self) -> bool:
        return not self.tree.forest.selection.KEEPS_SUBTREE

    def _is_enough(self, thinking: Thinking) -> bool:
        request, tree = thinking.request, self.tree
        # `depths[0]` is a sum over the simulations, so this compares the mean depth with the limit.
        if request.depth and tree.depths[0] >= request.depth * max(1, tree.simulations):
            return True
        # Sequential halving gives all contenders the same visits, so visits do not tell when the move is
        # decided.
        if self._is_planned or not request.may_move_early or thinking.limits.until == float("inf"):
            return False
        if len(request.allowed) == 1 or len(tree.edges_of(0)) == 1:  # an only move
            return True
        if chooses_by_value(tree):
            return False
        now = asyncio.get_running_loop().time()
        elapsed, left = now - thinking.started, thinking.limits.until - now
        return cannot_be_overtaken(self.contenders(request.allowed), tree.simulations, elapsed, left)

    def _report(self, request: Request, draw: float | None, ownership: tuple[float, ...]) -> Report:
        tree, simulations = self.tree, self.tree.simulations
        total, deepest = tree.depths
        seconds = asyncio.get_running_loop().time() - request.began
        depth = round(total / max(1, simulations))
        progress = Progress(seconds, simulations, depth, deepest, hashfull(tree))
        lines = lines_of(tree, as_written(self.game, request), request.lines, request.allowed)
        return Report(lines, progress, draw, ownership)


MEASURED_SHARE = 0.1
"""Share of a move's time after which the speed of the search counts as measured."""

MEASURED_SIMULATIONS = 100
"""Number of simulations after which the speed of a search counts as measured."""


def cannot_be_overtaken(visits: Sequence[int], simulations: int, elapsed: float, left: float) -> bool:
    """Return whether no other move can still become the most visited one, so that the rest of the time can be
    saved.

    `visits`: the visits of each move that may be played, including visits from earlier searches.
    `simulations` and `elapsed` count only this search, because they estimate how many visits fit into the
    `left` seconds; visits in a tree that was kept from the last move do not tell the speed. Returns False
    until the speed is measured.
    """
    if simulations < MEASURED_SIMULATIONS or elapsed <= 0 or elapsed < MEASURED_SHARE * (elapsed + left):
        return False
    # True if even all simulations that still fit would not be enough for the second move.
    best, second = sorted([*visits, 0, 0], reverse=True)[:2]
    return best - second > simulations / elapsed * max(0.0, left) + 1


def as_written(game: Game, request: Request) -> Game:
    """Return the game with the notation that the request wants for moves."""
    text = game.notation.action_to_chess if request.as_in_chess else None
    return game if text is None else replace(game, notation=replace(game.notation, action_to_text=text))


MOST_PV_MOVES = 64
"""Most moves of a principal variation that are reported."""


def lines_of(tree: ParallelTree, game: Game, count: int = 1, allowed: Sequence[int] = ()) -> tuple[Line, ...]:
    """Return lines for the `count` best visited moves, or for the best move if none is visited."""
    edges, proofs = tree.edges_of(0), tree.edge_proofs(0)
    order = ranked(tree, 0, allowed)
    # Show at least one move, because a GUI needs one.
    shown = [index for index in order[:count] if edges[index]["visits"]] or order[:1]
    return tuple(
        Line(
            line_of_play(tree, game, index),
            int(edges[index]["visits"]),
            value_of(tree, index),
            float(edges[index]["prior"]),
            proofs[index],
        )
        for index in shown
    )


def line_of_play(tree: ParallelTree, game: Game, index: int) -> tuple[str, ...]:
    """Return the principal variation that begins with root edge `index`."""
    state, node = tree.state.copy(), 0
    moves: list[str] = []
    while len(moves) < MOST_PV_MOVES:
        edge = tree.edges_of(node)[index]
        moves.append(game.notation.action_to_text(state, int(edge["action"])))
        child = np.zeros_like(state)
        game.rules.play(state, int(edge["action"]), child)
        state, node = child, int(edge["child"])
        # The child is a leaf, or the end of the game.
        if node <= UNEXPANDED:
            break
        index = ranked(tree, node)[0]
        if not tree.edges_of(node)[index]["visits"]:
            break
    return tuple(moves)


def value_of(tree: ParallelTree, index: int) -> float:
    """Return the value of root edge `index` for the side to move; the root's value if the edge was not
    visited."""
    edge = tree.edges_of(0)[index]
    return float(edge["value_sum"]) / int(edge["visits"]) if edge["visits"] else tree.root_value()


def ranked(tree: ParallelTree, node: int, allowed: Sequence[int] = ()) -> list[int]:
    """Return the indices of a node's edges, best first: proven wins (the quickest first), then by visits,
    then proven losses (the slowest first). At the root, the move that `final_move` chooses comes first,
    unless one is proven to win."""
    edges, proofs = tree.edges_of(node), np.array(tree.edge_proofs(node))
    visits = edges["visits"]
    if node == 0 and not tree.forest.selection.KEEPS_SUBTREE:
        # Sequential halving leaves several moves with the same visits; then their scores decide.
        scores = tree.forest.selection.root_scores(tree)[0].scores
    else:
        means = edges["value_sum"].astype(np.float64) / np.maximum(1, visits)
        scores = np.where(visits > 0, means, -1.0)  # unvisited moves come last
    # The shorter of two wins is better, and the longer of two losses: `-proofs` orders both.
    best = np.where(proofs != 0, -proofs, visits)
    # Not with Python's `sorted`: a report of 100 lines on a large board would take a second.
    order = np.lexsort((-edges["prior"], -scores, -best, -np.sign(proofs)))
    if allowed:
        order = order[np.isin(edges["action"][order], allowed)]
    if node == 0 and chooses_by_value(tree) and not proofs[order[0]]:
        seen = order[(proofs[order] == 0) & (visits[order] > 0)]
        if len(seen):
            final = secure_action(Candidates(seen, visits[seen], means[seen]))
            order = np.concatenate([[final], order[order != final]])
    return list(map(int, order))


def best_index(
    tree: ParallelTree, allowed: Sequence[int], temperature: float, rng: np.random.Generator
) -> int:
    """Return the root edge to play: the best of `ranked`, or one drawn from visits ** (1 / temperature)
    among those that are not proven to lose."""
    order, proofs = ranked(tree, 0, allowed), tree.edge_proofs(0)
    # A proven result at the top decides, whatever the temperature.
    if proofs[order[0]] or temperature <= 0:
        return order[0]
    order = [index for index in order if proofs[index] >= 0]
    visits = tree.edges_of(0)["visits"][order].astype(np.float64)
    if visits.max() <= 0:
        return order[0]
    # Divide by the maximum: powers of thousands would overflow at low temperatures.
    weights = (visits / visits.max()) ** (1.0 / temperature)
    return int(rng.choice(order, p=weights / weights.sum()))


def chooses_by_value(tree: ParallelTree) -> bool:
    """Return whether `final_move` prefers another move than the most visited one. It says nothing about
    selections that plan a whole search and keep no subtree (Gumbel): they choose by their scores."""
    is_secure = tree.settings.moves.final_move == "secure"
    return is_secure and bool(tree.forest.selection.KEEPS_SUBTREE)


def hashfull(tree: ParallelTree) -> int:
    """Return how much of the tree's memory is in use, per mille."""
    return 1000 if tree.is_full else min(1000, 1000 * tree.node_count // tree.max_nodes)
