"""Searches one position at a time with a network and a tree, and reports meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np

from engine.nets import LoadedNet, load_net
from engine.search_choice import search_for
from engine.uci.machine import Request
from engine.uci.options import Setup
from engine.uci.report import Progress, best_index, info_lines, line_of_play
from protocol.settings import SelfPlaySettings, changed
from runtime.exits import Exit, Fatal
from search.evaluation_settings import FOR_EVALUATION
from search.evaluator import evaluate
from search.leaf_batch import Evaluations, LeafBatch
from search.leaf_parallel import (
    Interrupt,
    Limits,
    ParallelTree,
    node_bytes,
    search_parallel,
    unless_over,
)
from search.settings import MAX_SIMULATIONS, resolve

GAME = "chess"
MAX_PLIES = 10_000
"""Longer than in self-play: the GUI decides when a game is a draw."""
REPORT_SECONDS = 0.9
"""Between two reports: GUIs expect one a second."""
ROOT_GRACE = 0.03
"""Seconds that the evaluation of the root may take beyond the time to move: no move is known without it."""
MOST_LEAVES = 128
"""Leaves in flight, unless the option asks for more."""

PLANNED_SIMULATIONS = 800
"""Simulations of a search that must plan them (gumbel), when none are given."""

Say = Callable[[str], None]


def prepare(setup: Setup, preset: str, seed: int) -> Thinker:
    """Load the network, make the tree and compile the kernels. Fatal if the weights cannot be used.

    It takes seconds, or a minute when nothing is compiled yet: run it in a thread.
    """
    weights = None if not setup.weights else _path(setup.weights)
    net = load_net(weights, GAME, device=setup.backend, threads=setup.threads, preset=preset, seed=seed)
    leaves = setup.leaves or min(MOST_LEAVES, net.target_rows)
    try:
        thinker = Thinker(net, setup.hash_mib, leaves, seed, search_for(setup.search, net.game))
    except MemoryError as error:
        net.close()
        raise Fatal(f"not enough memory for Hash {setup.hash_mib} MiB: choose less", Exit.CONFIG) from error
    except Fatal:
        net.close()
        raise
    thinker.warm_up()
    return thinker


def _path(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise Fatal(
            f"the weights file {text!r} does not exist; give the path of a .safetensors file", Exit.BAD_DATA
        )
    return path


class Thinking:
    """One running search, to be stopped or given a deadline."""

    def __init__(self, request: Request) -> None:
        self.request = request
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
        """The search ends at `until`, by the clock of the event loop; None leaves its deadline as it is."""
        if until is not None:
            self.limits.until = until
        self.interrupt.wake()


class Thinker:
    """A network and the tree of its game. One search at a time."""

    def __init__(
        self,
        net: LoadedNet,
        hash_mib: int,
        leaves: int,
        seed: int,
        search: SelfPlaySettings = FOR_EVALUATION,
    ) -> None:
        """`search`: see `engine.search_choice.search_for`."""
        self.net = net
        self.game = net.game
        changes = {"search.simulations": MAX_SIMULATIONS, "history": net.history, "max_plies": MAX_PLIES}
        settings = changed(search, changes)
        self._rng = np.random.default_rng(seed)
        self.tree = ParallelTree(
            self.game,
            resolve(settings, self.game),
            self._rng,
            max_nodes=(hash_mib << 20) // node_bytes(self.game),
            max_leaves=leaves,
        )
        self._start = "none yet"
        self._played: tuple[int, ...] = ()

    def close(self) -> None:
        self.net.close()

    def warm_up(self) -> None:
        """Compile the kernels by a few simulations without a network."""
        tree = self.tree
        tree.reset(self.game.notation.state_from_text(""))
        count = len(tree.root_leaf().actions)
        tree.expand_root(np.full(count, 1 / count, np.float32), 0.0)
        tree.start_search(60)
        while (leaves := tree.gather()).rows:
            tree.settle(_knows_nothing(leaves))
        info_lines(tree, self.game, Progress(1.0, 60, 1, 1), multi_pv=2)
        tree.give_up()
        tree.advance(int(tree.edges_of(0)["action"][0]))
        tree.legal_actions()

    async def think(self, thinking: Thinking, say: Say) -> str:
        """Search and report. Returns the `bestmove` line."""
        request, tree = thinking.request, self.tree
        self._place(request)
        if not len(tree.legal_actions()):
            say(f"info depth 0 score {'cp 0' if tree.outcome() == 0 else 'mate 0'}")
            return "bestmove (none)"
        draw = await self._look_at_root(thinking)
        if not tree.is_expanded:
            say("info string there was no time to evaluate the position: the first legal move is played")
            return (
                f"bestmove {self._text(request.allowed[0] if request.allowed else tree.legal_actions()[0])}"
            )
        self._plan(thinking)
        thinking.limits.is_enough = lambda: self._is_enough(thinking)
        report = _Reporter(lambda: self._report(request, draw, say))
        try:
            await search_parallel(tree, self.net.evaluator, thinking.limits, thinking.interrupt)
        finally:
            report.close()
        self._report(request, draw, say)
        index = best_index(tree, request.allowed, request.options.temperature / 100, self._rng)
        moves = line_of_play(tree, self.game, index)
        return f"bestmove {moves[0]}" + (f" ponder {moves[1]}" if len(moves) > 1 else "")

    # ---- Inside -------------------------------------------------------------------------------

    def _place(self, request: Request) -> None:
        """Bring the tree to the position, and keep the part that belongs to it if the game has gone on."""
        known = len(self._played)
        goes_on = request.start == self._start and request.actions[:known] == self._played
        if request.new_game or not goes_on:
            self.tree.reset(self.game.notation.state_from_text(request.start))
            known = 0
        for action in request.actions[known:]:
            self.tree.advance(action)
        self._start, self._played = request.start, request.actions

    async def _look_at_root(self, thinking: Thinking) -> float | None:
        """Expand the root if needed. Returns the network's share of draws there, if it is to be shown."""
        if self.tree.is_expanded and not thinking.request.options.show_wdl:
            return None
        asked = evaluate(self.net.evaluator, LeafBatch.of(self.tree.root_leaf()))
        evaluation = await unless_over(asked, thinking.limits, thinking.interrupt, ROOT_GRACE)
        if evaluation is None:
            return None
        if not self.tree.is_expanded:
            self.tree.expand_root(evaluation.priors, float(evaluation.values[0]))
        return float(evaluation.wdl[0, 1]) if thinking.request.options.show_wdl else None

    def _plan(self, thinking: Thinking) -> None:
        """Sequential halving must know its number of simulations before it begins."""
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
        speed = tree.simulations / max(1e-3, now - request.began)
        visits = np.sort(tree.edges_of(0)["visits"])
        return len(visits) > 1 and visits[-1] - visits[-2] > speed * (thinking.limits.until - now) + 1

    def _report(self, request: Request, draw: float | None, say: Say) -> None:
        total, deepest = self.tree.depths
        simulations = self.tree.simulations
        seconds = asyncio.get_running_loop().time() - request.began
        progress = Progress(seconds, simulations, round(total / max(1, simulations)), deepest)
        for line in info_lines(
            self.tree,
            self.game,
            progress,
            multi_pv=request.options.multi_pv,
            allowed=request.allowed,
            draw=draw,
        ):
            say(line)

    def _text(self, action: int) -> str:
        return self.game.notation.action_to_text(self.tree.state, int(action))


class _Reporter:
    """Calls `report` every REPORT_SECONDS until it is closed."""

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        self._arm()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(REPORT_SECONDS, self._fire)

    def _fire(self) -> None:
        self._arm()
        self._report()

    def close(self) -> None:
        self._timer.cancel()


def _knows_nothing(leaves: LeafBatch) -> Evaluations:
    priors = np.repeat((1.0 / leaves.counts).astype(np.float32), leaves.counts)
    return Evaluations(priors, np.zeros((leaves.rows, 3), np.float32), 0)
