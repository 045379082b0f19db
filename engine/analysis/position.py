"""One position to analyse: the request as a line of input, and the answer as a line of output. Pure.

A line is parsed into a request, or refused with a sentence. The second half searches the position that was
asked for and puts the result into words and numbers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from games.knowledge import knowledge_of
from games.names import nearest
from games.spec import Game, outcome_for_first_player
from protocol.messages import MAX_START
from protocol.settings import MAX_SIMULATIONS, SelfPlaySettings, changed
from search.evaluator import Evaluator, LeafBatch, evaluate
from search.mcts import search
from search.moves import choose_action
from search.pool import SearchPool
from search.result import SearchResult, evenly
from search.settings import FOR_EVALUATION, resolve
from search.tree import SearchTree, tree_for

MAX_LINE = 256 * 1024
"""Most bytes in a line."""
MAX_MOVES = 4096
"""Most moves before the position."""
MAX_MOVE, MAX_FEN, MAX_ID = 16, MAX_START, 200
"""Most characters in a move, a start position and an id: error messages repeat them."""
MAX_INTEGER_ID = 2**63

FIELDS = ("id", "fen", "moves", "simulations")

Id = str | int


@dataclass(frozen=True)
class Request:
    """A position: `fen` (empty: the usual start), then `moves`. 0 simulations: the network alone."""

    id: Id
    fen: str
    moves: tuple[str, ...]
    simulations: int


class BadRequest(ValueError):
    """The text says what is wrong with a line. `request_id` is None when the id could not be read."""

    def __init__(self, reason: str, request_id: Id | None = None) -> None:
        super().__init__(reason)
        self.request_id = request_id


def parse(line: bytes | None, simulations: int) -> Request:
    """The request in `line` (None: a line that was too long). Raises BadRequest.

    `simulations` is for lines without a number of their own.
    """
    fields = _fields(line)
    request_id = _id(fields)
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        meant = nearest(unknown[0], FIELDS)
        raise BadRequest(f"{unknown[0][:50]!r} is not a field; the nearest is {meant!r}", request_id)
    return Request(
        request_id,
        _fen(fields, request_id),
        _moves(fields, request_id),
        _simulations(fields, simulations, request_id),
    )


def _fields(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise BadRequest(f"the line is longer than {MAX_LINE} bytes")
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"not a line of JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRequest('not a JSON object; a line looks like {"id": 1, "moves": []}')
    return fields


def _id(fields: dict[str, Any]) -> Id:
    if "id" not in fields:
        raise BadRequest("no id; give each line a text or a whole number of its own")
    request_id = fields["id"]
    if isinstance(request_id, str) and len(request_id) <= MAX_ID:
        return request_id
    if type(request_id) is int and abs(request_id) < MAX_INTEGER_ID:
        return request_id
    raise BadRequest(f"the id must be a text of at most {MAX_ID} characters or a whole number of 64 bits")


def _fen(fields: dict[str, Any], request_id: Id) -> str:
    fen = fields.get("fen", "")
    if not isinstance(fen, str) or len(fen) > MAX_FEN:
        raise BadRequest(f"fen must be a text of at most {MAX_FEN} characters", request_id)
    return fen


def _moves(fields: dict[str, Any], request_id: Id) -> tuple[str, ...]:
    moves = fields.get("moves", [])
    if not isinstance(moves, list) or not all(isinstance(move, str) for move in moves):
        raise BadRequest('moves must be a list of texts, such as ["e2e4", "e7e5"]', request_id)
    if len(moves) > MAX_MOVES:
        raise BadRequest(f"{len(moves)} moves, at most {MAX_MOVES} are taken", request_id)
    for number, move in enumerate(moves, 1):
        if len(move) > MAX_MOVE:
            raise BadRequest(
                f"move {number} has {len(move)} characters, a move has at most {MAX_MOVE}", request_id
            )
    return tuple(moves)


def _simulations(fields: dict[str, Any], default: int, request_id: Id) -> int:
    simulations = fields.get("simulations", default)
    if type(simulations) is not int or not 0 <= simulations <= MAX_SIMULATIONS:
        raise BadRequest(f"simulations must be a whole number from 0 to {MAX_SIMULATIONS}", request_id)
    return simulations


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
