"""Searches one position at a time with a network and a tree, and reports while it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from engine.core.orders import Request
from engine.core.report import Found, Progress, Report, best_index, hashfull, line_of_play, lines_of, value_of
from engine.core.timing import cannot_be_overtaken
from engine.nets import LoadedNet
from games.spec import Game, outcome_for_first_player
from protocol.settings import MAX_SIMULATIONS, SelfPlaySettings, changed
from search.evaluator import Evaluations, LeafBatch, evaluate
from search.leaf_parallel import (
    Interrupt,
    Limits,
    ParallelTree,
    node_bytes,
    search_parallel,
    unless_over,
)
from search.settings import FOR_EVALUATION, resolve

MAX_PLIES = 10_000
"""Longer than in self-play, because the controller decides when a game is over."""
ROOT_GRACE = 0.03
"""Seconds that the root's evaluation may take beyond the time limit, because no move is known without it."""

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
        """End the search at `until`, by the clock of the event loop; None leaves its deadline unchanged."""
        if until is not None:
            self.limits.until = until
        self.interrupt.wake()


class Thinker:
    """A network and the tree of its game. Runs one search at a time."""

    def __init__(
        self,
        net: LoadedNet,
        hash_mib: int,
        leaves: int,
        seed: int,
        search: SelfPlaySettings = FOR_EVALUATION,
        game: Game | None = None,
    ) -> None:
        """`search`: see `engine.search_choice.search_for`. `game`: another variant with the same board and
        actions as the network's game (`engine.nets.check_fits`)."""
        self.net = net
        self.game = game or net.game
        changes = {"search.simulations": MAX_SIMULATIONS, "history": net.history, "max_plies": MAX_PLIES}
        settings = changed(search, changes)
        self._evaluator = net.evaluator
        self._rng = np.random.default_rng(seed)
        self.tree = ParallelTree(
            self.game,
            resolve(settings, self.game),
            self._rng,
            max_nodes=(hash_mib << 20) // node_bytes(self.game),
            max_leaves=leaves,
            network=net.own,
        )
        self._start = "none yet"
        self._played: tuple[int, ...] = ()

    def close(self) -> None:
        self.net.close()

    def warm_up(self) -> None:
        """Compile the kernels with a few simulations without a network."""
        tree = self.tree
        tree.reset(self.game.notation.state_from_text(""))
        count = len(tree.root_leaf().actions)
        tree.expand_root(np.full(count, 1 / count, np.float32), 0.0)
        tree.start_search(60)
        while (leaves := tree.gather()).rows:
            tree.settle(_knows_nothing(leaves))
        lines_of(tree, self.game, 2)
        tree.give_up()
        tree.advance(int(tree.edges_of(0)["action"][0]))
        tree.legal_actions()

    async def think(self, thinking: Thinking, tell: Tell) -> Found:
        """Search, and report regularly and at the end."""
        request, tree = thinking.request, self.tree
        self._place(request)
        actions = tree.legal_actions()
        reason = tree.end_reason()
        if not len(actions) or reason in request.claims:
            outcome = outcome_for_first_player(tree.outcome(), self.game.rules.side_to_move(tree.state))
            tell(Report(outcome=outcome))
            return Found((), value=outcome, claim=reason if reason in request.claims else "")
        draw = await self._look_at_root(thinking)
        if not tree.is_expanded:
            tell(Report(note="there was no time to evaluate the position: the first legal move is played"))
            action = int(request.allowed[0] if request.allowed else actions[0])
            return Found((self.game.notation.action_to_text(tree.state, action),), action)
        self._plan(thinking)
        thinking.started = asyncio.get_running_loop().time()
        thinking.limits.is_enough = lambda: self._is_enough(thinking)
        reporter = _Reporter(lambda: tell(self._report(request, draw)), request.report_seconds)
        try:
            await search_parallel(tree, self._evaluator, thinking.limits, thinking.interrupt)
        finally:
            reporter.close()
        tell(self._report(request, draw))
        index = best_index(tree, request.allowed, request.temperature, self._rng)
        action = int(tree.edges_of(0)["action"][index])
        return Found(line_of_play(tree, self.game, index), action, value_of(tree, index))

    def contenders(self, allowed: Sequence[int] = ()) -> list[int]:
        """Visits of the root's moves, of the actions `allowed` (none: all), that are not proven to lose."""
        edges, proofs = self.tree.edges_of(0), self.tree.edge_proofs(0)
        return [
            int(edge["visits"])
            for edge, proof in zip(edges, proofs, strict=True)
            if proof >= 0 and (not allowed or int(edge["action"]) in allowed)
        ]

    # ---- Inside -------------------------------------------------------------------------------

    def _place(self, request: Request) -> None:
        """Set the tree to the position, and keep the matching subtree if the game has continued."""
        known = len(self._played)
        goes_on = request.start == self._start and request.actions[:known] == self._played
        if request.new_game or not goes_on:
            self.tree.reset(self.game.notation.state_from_text(request.start))
            known = 0
        for action in request.actions[known:]:
            self.tree.advance(action)
        self._start, self._played = request.start, request.actions

    async def _look_at_root(self, thinking: Thinking) -> float | None:
        """Expand the root if needed. Returns the network's draw probability there, if it is to be shown."""
        shows_draw = thinking.request.show_draw
        if self.tree.is_expanded and not shows_draw:
            return None
        asked = evaluate(self._evaluator, LeafBatch.of(self.tree.root_leaf()))
        evaluation = await unless_over(asked, thinking.limits, thinking.interrupt, ROOT_GRACE)
        if evaluation is None:
            return None
        if not self.tree.is_expanded:
            self.tree.expand_root(evaluation.priors, float(evaluation.values[0]))
        return float(evaluation.wdl[0, 1]) if shows_draw else None

    def _plan(self, thinking: Thinking) -> None:
        """Plan the simulations: sequential halving must know their number before it begins."""
        if self._is_planned:
            wanted = min(thinking.request.simulations or PLANNED_SIMULATIONS, MAX_SIMULATIONS)
            self.tree.settings = changed(self.tree.settings, {"search.simulations": wanted})
            thinking.limits.simulations = wanted

    @property
    def _is_planned(self) -> bool:
        return not self.tree.forest.selection.KEEPS_SUBTREE

    def _is_enough(self, thinking: Thinking) -> bool:
        request, tree = thinking.request, self.tree
        if request.depth and tree.depths[0] >= request.depth * max(1, tree.simulations):
            return True
        if self._is_planned or not request.may_move_early or thinking.limits.until == float("inf"):
            return False
        now = asyncio.get_running_loop().time()
        elapsed, left = now - thinking.started, thinking.limits.until - now
        return cannot_be_overtaken(self.contenders(request.allowed), tree.simulations, elapsed, left)

    def _report(self, request: Request, draw: float | None) -> Report:
        tree, simulations = self.tree, self.tree.simulations
        total, deepest = tree.depths
        seconds = asyncio.get_running_loop().time() - request.began
        depth = round(total / max(1, simulations))
        progress = Progress(seconds, simulations, depth, deepest, hashfull(tree))
        return Report(lines_of(tree, self.game, request.lines, request.allowed), progress, draw)


class _Reporter:
    """Calls `report` every `seconds` until it is closed."""

    def __init__(self, report: Callable[[], None], seconds: float) -> None:
        self._report = report
        self._seconds = seconds
        self._arm()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._fire)

    def _fire(self) -> None:
        self._arm()
        self._report()

    def close(self) -> None:
        self._timer.cancel()


def _knows_nothing(leaves: LeafBatch) -> Evaluations:
    priors = np.repeat((1.0 / leaves.counts).astype(np.float32), leaves.counts)
    return Evaluations(priors, np.zeros((leaves.rows, 3), np.float32), 0)
