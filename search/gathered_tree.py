"""A search tree of fixed size with several leaves in flight (`search.gather_kernel`).

The order of calls is that of `search.gathered.search_gathered`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt

from games import get_game
from games.jit import specialise
from games.spec import Game
from protocol.settings import SelfPlaySettings
from search import gather_kernel
from search.gather_kernel import BLOCKED, GATHER_KERNELS
from search.kernel import KERNELS
from search.layout import EDGE, NODE
from search.leaf_batch import BadEvaluation, Evaluation, Leaf
from search.tree import SearchTree

SLOT = np.dtype([("depth", np.int32), ("count", np.int32)])
"""A leaf that waits: edges on the path to it, its legal actions."""

MOST_VISITS = 1 << 24
"""Of a root: from there on a float32 sum of values no longer takes up single visits."""

WALKS_A_TURN = 512
"""Walks in one call of the kernel (ends of games need no evaluation): about 10 ms at most."""

VIRTUAL_LOSS = 0.0
"""See `search.gather_kernel`; in units of value."""


@cache
def gather_kernels_for(game_name: str) -> SimpleNamespace:
    """The functions of both kernel modules for one game; compiled on their first call, cached on disk."""
    game = get_game(game_name)
    end_values = np.array([reason.value for reason in game.end_reasons], dtype=np.int8)
    names = ("BLOCKED", "WAITS", "ENDED", "COLLIDED")
    constants = {name: getattr(gather_kernel, name) for name in names}
    bindings = {**game.rules.bindings(), **constants, "END_VALUES": end_values}
    return SimpleNamespace(**specialise({**KERNELS, **GATHER_KERNELS}, bindings, game.name))


class GatheredTree(SearchTree):
    """A SearchTree of fixed size: `max_nodes` evaluated positions, `max_leaves` more in flight at most.

    Arrays are reserved at once, so nothing is copied while a clock runs; the system hands out their
    memory as it is used. MemoryError if it will not.
    """

    def __init__(
        self,
        game: Game,
        settings: SelfPlaySettings,
        rng: np.random.Generator,
        *,
        max_nodes: int,
        max_leaves: int,
    ) -> None:
        super().__init__(game, settings, rng)
        self._kernels = gather_kernels_for(game.name)
        room = max(max_nodes, 2)
        self.max_nodes, self.max_leaves = room, max_leaves
        self._nodes = np.empty(room, NODE)
        self._edges = np.empty(room * int(game.mean_legal) + max_leaves * game.max_legal, EDGE)
        self._scratch = np.empty(room, np.int32)
        self._proofs = np.zeros(room, np.int16)
        self._in_flight = np.zeros(len(self._edges), np.uint16)
        self._slots = np.zeros(max_leaves, SLOT)
        self._paths = np.zeros((max_leaves, settings.max_plies + 1), np.int32)
        self._walk = np.zeros(settings.max_plies + 1, np.int32)
        self._leaf_actions = np.zeros((max_leaves, game.max_legal), np.uint16)
        self._leaf_words = np.zeros((max_leaves, game.feature_words(settings.history)), np.uint64)
        self._figures = np.zeros(3, np.int64)
        self._waiting = 0
        self._wanted = 0
        self._bundle_arrays()

    def advance(self, action: int) -> None:
        """Play the legal `action` and keep its subtree, whatever its size."""
        self._check_action(action)
        nodes = int(self._control["nodes"])
        kept = self._kernels.advance(self._tree, self._nodes, self._edges, self._line, self._scratch, action)
        if kept:
            self._kernels.move_proofs(self._proofs, self._scratch, nodes)
        self.kept = int(self._control["root_visits"]) - 1 if kept else 0

    def expand_root(self, priors: npt.NDArray[np.float32], value: float) -> None:
        super().expand_root(priors, value)
        self._proofs[0] = 0

    # ---- The search ---------------------------------------------------------------------------

    def start_search(self, simulations: int, allowed: Sequence[int] = ()) -> None:
        """Begin a search of at most `simulations` (0: without end) over the root actions `allowed` (all)."""
        room = max(0, MOST_VISITS - self.root_visit_count)
        self._wanted = min(simulations or room, room)
        self._control["remaining"] = self._wanted
        self._figures[:] = 0
        self.unblock()
        if allowed:
            first, count = self._nodes[0]
            shut = ~np.isin(self._edges["action"][first : first + count], np.array(allowed, np.uint16))
            if shut.all():
                raise ValueError(f"none of the actions {tuple(allowed)} is legal here")
            self._in_flight[first : first + count][shut] = BLOCKED
        edge = self._kernels.winning_edge(self._tree, self._nodes, self._edges, self._line, self._actions, 0)
        if edge >= 0 and self._in_flight[edge] != BLOCKED and self._control["remaining"] > 0:
            self._kernels.take_win(
                self._tree, self._nodes, self._edges, self._proofs, self._paths[0], self._walk, edge
            )

    def gather(self, wanted: int) -> list[Leaf]:
        """Up to `wanted` leaves to evaluate; none when the search is over or only games' ends were met."""
        self._waiting = self._kernels.gather_leaves(
            self._tree,
            self._nodes,
            self._edges,
            self._in_flight,
            self._proofs,
            self._slots,
            self._paths,
            self._walk,
            self._line,
            self._leaf_actions,
            self._leaf_words,
            self._figures,
            min(wanted, self.max_leaves),
            WALKS_A_TURN,
            VIRTUAL_LOSS,
        )
        counts = self._slots["count"][: self._waiting].tolist()
        return [Leaf(self._leaf_words[i], self._leaf_actions[i, :n]) for i, n in enumerate(counts)]

    def settle(self, evaluations: Sequence[Evaluation]) -> None:
        """The evaluations of all leaves that `gather` gave, in their order.

        BadEvaluation, with nothing changed, if they do not fit.
        """
        counts = self._slots["count"][: self._waiting].tolist()
        given = [len(priors) for priors, _ in evaluations]
        if given != counts:
            raise BadEvaluation(f"answers with {given} priors, but the positions have {counts} legal actions")
        for slot, (priors, value) in enumerate(evaluations):
            self._kernels.settle(
                self._tree,
                self._nodes,
                self._edges,
                self._in_flight,
                self._proofs,
                self._slots,
                self._paths,
                self._leaf_actions,
                slot,
                priors,
                value,
            )
        self._waiting = 0

    def give_up(self) -> None:
        """Forget the leaves that wait."""
        self._kernels.give_up(self._tree, self._in_flight, self._slots, self._paths, self._waiting)
        self._waiting = 0

    def unblock(self) -> None:
        """All root actions are allowed again. No leaf waits."""
        if self.is_expanded:
            first, count = self._nodes[0]
            self._in_flight[first : first + count] = 0

    # ---- What was found -----------------------------------------------------------------------

    @property
    def root_visit_count(self) -> int:
        return int(self._control["root_visits"]) if self.is_expanded else 0

    @property
    def remaining(self) -> int:
        """Simulations this search still may make."""
        return int(self._control["remaining"])

    @property
    def simulations(self) -> int:
        """Simulations that this search has finished."""
        return self._wanted - self.remaining - self._waiting

    @property
    def is_full(self) -> bool:
        """Whether this search ended because no further node fits."""
        return bool(self._figures[2])

    @property
    def depths(self) -> tuple[int, int]:
        """(sum of the depths of this search's simulations, the deepest), in plies."""
        return int(self._figures[1]), int(self._figures[0])

    @property
    def node_count(self) -> int:
        return int(self._control["nodes"])

    @property
    def proof(self) -> int:
        """Plies to the proven win of the side to move, minus plies to its proven loss, or 0."""
        return int(self._proofs[0]) if self.is_expanded else 0

    def edges_of(self, node: int) -> npt.NDArray[np.void]:
        """EDGE[n] of a node, a view."""
        first, count = self._nodes[node]
        return self._edges[first : first + count]

    def edge_proofs(self, node: int) -> list[int]:
        """What is proven about each edge of a node, for the side that chooses it."""
        first, count = self._nodes[node]
        known = self._kernels.edge_proof
        return [int(known(self._edges, self._proofs, e)) for e in range(int(first), int(first) + int(count))]


def node_bytes(game: Game) -> int:
    """Memory of one evaluated position with its edges, bytes."""
    of_node = NODE.itemsize + np.dtype(np.int16).itemsize + np.dtype(np.int32).itemsize
    return of_node + int(game.mean_legal) * (EDGE.itemsize + np.dtype(np.uint16).itemsize)
