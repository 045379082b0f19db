"""The analysis of one position by the network and a search, as an answer to print."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.analysis.requests import BadRequest, Request
from games.knowledge import knowledge_of
from games.spec import Game, outcome_for_first_player
from protocol.settings import SelfPlaySettings, changed
from search.evaluation_settings import FOR_EVALUATION
from search.evaluator import Evaluator, evaluate
from search.leaf_batch import LeafBatch
from search.mcts import search
from search.moves import choose_action
from search.pool import SearchPool
from search.result import SearchResult, evenly
from search.settings import resolve
from search.tree import SearchTree, tree_for

DIGITS = 6
"""Decimals of numbers in an answer."""

Answer = dict[str, Any]


@dataclass(frozen=True)
class Analyst:
    """A game, a network behind its batching evaluator, and the settings of the search."""

    game: Game
    evaluator: Evaluator
    settings: SelfPlaySettings
    """The search without noise and temperature. `simulations` and `max_plies` come from the request."""

    @classmethod
    def of(
        cls,
        game: Game,
        evaluator: Evaluator,
        history: int,
        search: SelfPlaySettings = FOR_EVALUATION,
    ) -> Analyst:
        """`search`: see `engine.search_choice`."""
        settings = changed(search, {"history": history, "search.reuse_tree": False})
        return cls(game, evaluator, settings)

    def warm_up(self) -> None:
        """Compile the kernels that `answer` without simulations calls. The first time takes up to a minute,
        so a server does it in a thread."""
        tree = self._tree(Request(id="", fen="", moves=(), simulations=0))
        actions = tree.root_leaf().actions
        tree.expand_root(np.full(len(actions), 1 / len(actions), np.float32), 0.0)
        tree.advance(int(actions[0]))
        tree.end_reason()

    async def answer(self, request: Request) -> Answer:
        """Analyse a position. Raises BadRequest."""
        began = time.perf_counter()
        tree = self._tree(request)
        finished = tree.end_reason()
        if finished is not None:
            return _of_finished(tree, request, finished)
        leaf = tree.root_leaf()
        evaluation = await evaluate(self.evaluator, LeafBatch.of(leaf))
        value = float(evaluation.values[0])
        tree.expand_root(evaluation.priors, value)
        priors = dict(zip(leaf.actions.tolist(), evaluation.priors.tolist(), strict=True))
        if request.simulations:
            result = await search(tree, SearchPool(tree.forest, self.evaluator))
            found = _of_search(tree, result)
        else:
            found = Found(min(priors, key=lambda action: (-priors[action], action)), value)
        answer = _written(tree, found, priors, evaluation.wdl[0].tolist())
        return {"id": request.id, **answer, "ms": _milliseconds(began)}

    def _tree(self, request: Request) -> SearchTree:
        """A tree with the position at its root. The limit on the length of games counts from this
        position."""
        changes = {
            "search.simulations": max(1, request.simulations),
            "max_plies": self.game.max_plies + len(request.moves),
        }
        settings = changed(self.settings, changes)
        tree = tree_for(self.game, resolve(settings, self.game), np.random.default_rng(0))
        try:
            tree.reset(self.game.notation.state_from_text(knowledge_of(self.game).read_start(request.fen)))
        except ValueError as error:
            raise BadRequest(f"fen: {error}", request.id) from error
        for number, move in enumerate(request.moves, 1):
            try:
                _play(tree, move)
            except ValueError as error:
                raise BadRequest(f"move {number} ({move!r}): {error}", request.id) from error
        return tree


@dataclass(frozen=True)
class Found:
    """The result of the search at the root, or of the network alone (without visits)."""

    best: int
    value: float
    """Value for the side to move, in [-1, 1]."""
    visits: Mapping[int, int] | None = None
    variation: tuple[int, ...] = ()


def _play(tree: SearchTree, move: str) -> None:
    reason = tree.end_reason()
    if reason is not None:
        raise ValueError(f"the game is over ({reason})")
    action = tree.game.notation.action_from_text(tree.state, move)
    if action not in tree.legal_actions():  # the notation does not know the past: superko in Go
        raise ValueError("not legal: it repeats an earlier position")
    tree.advance(action)


def _of_finished(tree: SearchTree, request: Request, reason: str) -> Answer:
    outcome = tree.outcome()
    side = int(tree.game.rules.side_to_move(tree.state))
    value = outcome_for_first_player(outcome, side)
    return {"id": request.id, "finished": reason, "outcome": outcome, "value": value}


def _of_search(tree: SearchTree, result: SearchResult) -> Found:
    best = choose_action(result, tree.ply, tree.settings, np.random.default_rng(0))
    actions, visits = _visited(tree, result)
    variation = tuple(tree.principal_variation(best)) or (best,)  # a move that wins at once is not searched
    return Found(best, result.value, dict(zip(actions.tolist(), visits.tolist(), strict=True)), variation)


def _visited(tree: SearchTree, result: SearchResult) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int32]]:
    """(actions uint16[n], visits int32[n]) of the visited actions; a Gumbel search reports shares instead."""
    if not result.is_improved:
        return result.actions, result.visits
    if result.scores is None:  # moves that win at once are not searched
        return result.actions, evenly(tree.settings.search.simulations, len(result.actions))
    seen = result.scores.visits > 0
    return result.scores.actions[seen], result.scores.visits[seen]


def _written(tree: SearchTree, found: Found, priors: Mapping[int, float], wdl: list[float]) -> Answer:
    text = {action: tree.game.notation.action_to_text(tree.state, action) for action in priors}
    visits = found.visits or {}
    return {
        "best": text[found.best],
        "visits": {text[action]: visits[action] for action in sorted(visits, key=lambda x: (-visits[x], x))},
        "policy": {
            text[action]: round(priors[action], DIGITS)
            for action in sorted(priors, key=lambda x: (-priors[x], x))
        },
        "value": round(found.value, DIGITS),
        "wdl": [round(probability, DIGITS) for probability in wdl],
        "pv": _variation_text(tree, found.variation or (found.best,)),
    }


def _variation_text(tree: SearchTree, actions: tuple[int, ...]) -> list[str]:
    game = tree.game
    texts: list[str] = []
    state: npt.NDArray[np.uint64] = tree.state.copy()
    for action in actions:
        texts.append(game.notation.action_to_text(state, action))
        child = np.zeros_like(state)
        game.rules.play(state, action, child)
        state = child
    return texts


def _milliseconds(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
