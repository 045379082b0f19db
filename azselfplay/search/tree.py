"""One game's search tree: a slot of a forest, and methods that call the kernels compiled for the game.

The order of calls is: first `reset`; then for each move `SearchPool.expand` if the root is not expanded,
`begin`, `SearchPool.run`, and `advance` to play the move. `search.mcts.search` makes the calls of one search.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.spec import NO_ROOT, PLY_CAP, Game, State, outcome_for_first_player
from azselfplay.search.evaluator import BadEvaluation
from azselfplay.search.forest import KEPT_TREES, Forest
from azselfplay.search.layout import UNEXPANDED, Tree
from protocol.frames import LeafBatch
from protocol.records import MOST_VISITS
from protocol.settings import SelfPlaySettings

NO_ACTIONS = np.zeros(0, np.uint16)


class NetView(NamedTuple):
    """The network's own evaluation of the root, before noise."""

    actions: npt.NDArray[np.uint16]
    """[n] legal actions, in the order of the rules."""
    priors: npt.NDArray[np.float32]
    """[n]"""
    value: float
    """The network's value, for the side to move, in [-1, 1]."""


class _Views(NamedTuple):
    """Views of a tree's arrays, valid until the forest grows. Reading a number through a view of a field
    takes a third of the time of reading a record's field."""

    arrays: Tree
    state: Any
    """STATE; fields that are read often follow."""
    nodes: npt.NDArray[np.int32]
    root_visits: npt.NDArray[np.int32]
    remaining: npt.NDArray[np.int32]
    depth_sum: npt.NDArray[np.int64]
    deepest: npt.NDArray[np.int32]
    first_edges: npt.NDArray[np.int32]
    """[node_room], as the next two."""
    edge_counts: npt.NDArray[np.uint16]
    proofs: npt.NDArray[np.int16]
    history: npt.NDArray[np.uint64]
    """[max_plies + 2, state_words]"""


def _views_of(forest: Forest, slot: int) -> _Views:
    arrays = forest.tree(slot)
    state, nodes = arrays.state, arrays.nodes
    return _Views(
        arrays,
        state[0],
        state["nodes"],
        state["root_visits"],
        state["remaining"],
        state["depth_sum"],
        state["deepest"],
        nodes["first_edge"],
        nodes["edge_count"],
        nodes["proof"],
        forest.arrays.history[slot],
    )


class SearchTree:
    """The search tree of one game, used for all its moves. To free its slot, call `close`, or use the tree as
    a context manager."""

    def __init__(self, forest: Forest, rng: np.random.Generator) -> None:
        self.forest = forest
        self.game: Game = forest.game
        self.settings: SelfPlaySettings = forest.settings
        self.rng = rng
        self.slot = forest.take_slot()
        self.ply = 0
        """Moves played since the start position."""
        self._kernels = forest.kernels
        self._root_actions = np.zeros(self.game.max_legal, np.uint16)
        self._numbers = np.zeros(self.game.max_legal, np.int32)
        self._priors = np.zeros(self.game.max_legal, np.float32)
        self._reason = 0
        """Index of the end reason of the position at the root."""
        self._visits_before = 0
        self._generation = forest.generation
        self._views_now = _views_of(forest, self.slot)
        self.state_of_search["random"] = 0  # another game may have used the slot

    def __enter__(self) -> SearchTree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the tree's slot."""
        if self.slot >= 0:
            self.forest.release(self.slot)
            self.slot = self._generation = -1

    # ---- Its arrays -----------------------------------------------------------------------------

    @property
    def _views(self) -> _Views:
        """Views of the tree's arrays. They are made anew when the forest has grown."""
        if self._generation != self.forest.generation:
            if self.slot < 0:
                raise RuntimeError("this tree is closed: its slot may be another game's")
            self._generation = self.forest.generation
            self._views_now = _views_of(self.forest, self.slot)
        return self._views_now

    @property
    def arrays(self) -> Tree:
        """The arrays of this tree that kernels take, valid until the forest grows."""
        return self._views.arrays

    @property
    def state_of_search(self) -> Any:
        """STATE of this tree, valid until the forest grows."""
        return self._views.state

    @property
    def _history(self) -> npt.NDArray[np.uint64]:
        return self._views.history

    # ---- The game -----------------------------------------------------------------------------

    def reset(self, start: State) -> None:
        """Begin a game at `start`: uint64[state_words]."""
        state = self.state_of_search
        # Answers that are still on their way belong to another game.
        self.forest.give_up(self.slot)
        self.ply, state["positions"] = 0, 1
        state["nodes"] = state["edges"] = state["remaining"] = 0
        state["solves"] = self.settings.search.solver
        self._history[0] = start
        # If the start position was given, the game may already be over there.
        count = self.game.rules.legal_actions(self._history, 1, self._root_actions)
        self._reason = int(self.game.rules.end_reason(self._history, 1, count, NO_ROOT))

    def reset_randomness(self) -> None:
        """Draw a new seed for the kernels' random numbers in this tree, if its selection samples."""
        if self.forest.selection.IS_RANDOM:
            self.state_of_search["random"] = self.rng.integers(1 << 63)

    @property
    def state(self) -> State:
        """The position at the root."""
        position: State = self._history[self.ply]
        return position

    def legal_actions(self) -> npt.NDArray[np.uint16]:
        """Return [n] the legal actions at the root."""
        count = self.game.rules.legal_actions(self._history, self.ply + 1, self._root_actions)
        return self._root_actions[:count].copy()

    def end_reason(self) -> str | None:
        """Return why the game is over at the root, by the rules or by the ply cap; None while it
        continues."""
        if self._reason:
            return self.game.reason_name(self._reason)
        return PLY_CAP if self.ply >= self.settings.max_plies else None

    def outcome_is_certain(self) -> bool:
        """Return whether the rules settle the outcome, though the game may go on (in dots-and-boxes, after a
        side has more than half of the boxes). A search can then tell no move from another."""
        count = self.game.rules.legal_actions(self._history, self.ply + 1, self._root_actions)
        return bool(self.game.rules.end_reason(self._history, self.ply + 1, count, self.ply))

    def outcome(self) -> int:
        """Return the result of a finished game for the first player: +1, 0 or -1."""
        value = self.game.end_reasons[self._reason].value
        return outcome_for_first_player(value, int(self.game.rules.side_to_move(self.state)))

    def advance(self, action: int) -> None:
        """Play the legal `action`. Its subtree is kept if the selection can use it and it is not too
        large. Raises ValueError if `action` is out of range or the game has reached `max_plies`."""
        if not 0 <= action < self.game.actions:  # kernels do not check bounds
            raise ValueError(
                f"{action} is not an action of {self.game.name}: they are 0 to {self.game.actions - 1}"
            )
        if self.ply >= self.settings.max_plies:
            raise ValueError(f"the game is over: it has {self.ply} plies, and max_plies is no more")
        fixed = self.forest.is_fixed
        keep = fixed or self.forest.selection.KEEPS_SUBTREE
        self._reason = self._kernels.advance(
            self.arrays, self._history, self.forest.new_index, self._root_actions, action, keep
        )
        self.ply += 1
        if self.is_expanded and not fixed:
            state, simulations = self.state_of_search, self.settings.search.simulations
            if (
                state["nodes"] > KEPT_TREES * simulations
                # Ends of games add visits, but no nodes.
                or int(state["root_visits"]) + simulations > MOST_VISITS
            ):
                state["nodes"] = state["edges"] = 0

    # ---- The root -----------------------------------------------------------------------------

    @property
    def is_expanded(self) -> bool:
        """Whether the root has been evaluated."""
        return bool(self._views.nodes[0])

    def root_leaf(self) -> LeafBatch:
        """Return the root as a leaf to evaluate: a batch of one row."""
        features = self.game.features(self._history, self.ply + 1, self.settings.history)
        return LeafBatch.of(features, self.legal_actions())

    def expand_root(self, priors: npt.NDArray[np.float32], value: float) -> None:
        """Take the evaluation of `root_leaf`: `priors` [n] over its legal actions. Raises BadEvaluation."""
        if not self._kernels.expand_root(self.arrays, self._history, self._root_actions, priors, value):
            raise BadEvaluation(
                f"an answer has {len(priors)} priors, but its position has {len(self.legal_actions())} "
                "legal actions"
            )

    @property
    def root_edge_count(self) -> int:
        """Return the number of legal actions at the root, which must be expanded."""
        return int(self._views.edge_counts[0])

    def mix_noise(self, noise: npt.NDArray[np.float64], share: float) -> None:
        """Mix `noise [n]`, one number per legal action, summing to 1, into the priors of the root."""
        self._kernels.mix_noise(self.arrays, noise, share)

    def forget_simulations(self) -> int:
        """Reset the root to the state after its evaluation, so that another search of the position starts
        afresh. Returns how many of its edges may be selected."""
        return int(self._kernels.forget_simulations(self.arrays))

    def view_of_net(self) -> NetView:
        """Return the network's evaluation of the root. Call this before `begin`, which adds noise.

        Its value is the root's value_sum minus that of its edges, so it is also known for a kept subtree.
        """
        return self.view_and_wins()[0]

    def view_and_wins(self) -> tuple[NetView, npt.NDArray[np.uint16]]:
        """Return (`view_of_net`, [k] all actions that win at once, ascending)."""
        actions, priors, found = self._root_actions, self._priors, self._numbers
        value, wins = self._kernels.view_and_wins(
            self.arrays, self._history, self.forest.arrays.replies, actions, priors, found
        )
        count = self.root_edge_count
        winning = np.sort(actions[found[:wins]]) if wins else NO_ACTIONS  # the root's edges begin at 0
        return NetView(actions[:count].copy(), priors[:count].copy(), value), winning

    def proven_actions(self) -> npt.NDArray[np.uint16]:
        """Return [k] the best proven actions, ascending: those with the quickest win, or, at a lost root,
        with the slowest loss."""
        return np.sort(self.edges_of(0)["action"][np.array(self.edge_proofs(0)) == self.proof])

    # ---- The search ---------------------------------------------------------------------------

    @property
    def remaining(self) -> int:
        """Simulations that this search may still run."""
        return int(self._views.remaining[0])

    def begin(self) -> None:
        """Prepare a search of `simulations` new simulations."""
        views = self._views
        views.state["has_noise"] = 0
        views.remaining[0] = self.settings.search.simulations
        self.forest.selection.begin(self)
        views.depth_sum[0] = views.deepest[0] = 0
        # Read after `selection.begin`, which may drop a kept subtree.
        self._visits_before = int(views.root_visits[0])

    def mean_and_max_depth(self) -> tuple[float, int]:
        """Return (mean, largest) depth of the simulations since `begin`, in plies."""
        views = self._views
        simulations = int(views.root_visits[0]) - self._visits_before
        return int(views.depth_sum[0]) / max(1, simulations), int(views.deepest[0])

    # ---- Results ------------------------------------------------------------------------------

    def edges_of(self, node: int) -> npt.NDArray[np.void]:
        """Return EDGE[n] of a node, in the order of the rules: a view, valid until the next move."""
        views = self._views
        first = int(views.first_edges[node])
        return views.arrays.edges[first : first + int(views.edge_counts[node])]

    def principal_variation(self, first_action: int | None = None) -> list[int]:
        """Return the line of most visited actions from the root on; ties go to the lowest action, as for the
        move played.

        If `first_action` is given, the line begins with it.
        """
        actions: list[int] = []
        node = 0 if self.is_expanded else UNEXPANDED
        while node >= 0:
            edges = self.edges_of(node)
            if first_action is not None and not actions:
                edges = edges[edges["action"] == first_action]
            edges = edges[edges["visits"] == edges["visits"].max()]
            edge = edges[edges["action"].argmin()]
            if edge["visits"] == 0:
                break
            actions.append(int(edge["action"]))
            node = int(edge["child"])
        return actions

    def root_value(self) -> float:
        """Return the mean of the root's own evaluation and all simulations, for the side to move. If the
        search solves and the root is proven, return the proven result instead."""
        state = self.state_of_search
        if self.settings.search.solver and self.proof:
            return 1.0 if self.proof > 0 else -1.0
        return float(state["root_value_sum"]) / int(state["root_visits"])

    @property
    def root_visit_count(self) -> int:
        return int(self.state_of_search["root_visits"]) if self.is_expanded else 0

    @property
    def node_count(self) -> int:
        """Number of evaluated positions."""
        return int(self.state_of_search["nodes"])

    @property
    def proof(self) -> int:
        """Return the plies to the proven win of the side to move, minus the plies to its proven loss, or
        0."""
        views = self._views
        return int(views.proofs[0]) if views.nodes[0] else 0

    def visits_without_losses(self) -> tuple[npt.NDArray[np.int32], float]:
        """Return ([n] visits of the root's edges, `root_value`), both without the visits of moves that are
        proven to lose: nobody would play them, so they say nothing about the position. If no other move has
        visits, the one with the largest prior counts as visited once. The root is not proven."""
        visits: npt.NDArray[np.int32] = self.edges_of(0)["visits"].copy()
        if not self.settings.search.solver:
            return visits, self.root_value()
        return visits, self._kernels.visits_without_losses(self.arrays, visits)

    def edge_proofs(self, node: int) -> list[int]:
        """Return the proof of each edge of a node, for the side to move there."""
        proofs = np.zeros(len(self.edges_of(node)), np.int64)
        self._kernels.edge_proofs(self.arrays, node, proofs)
        return [int(proof) for proof in proofs]
