"""One game's search tree: the arrays, and the calls into the kernels compiled for the game.

The order of calls is: `reset`, then for each move `root_leaf` and `expand_root` if the root is not
expanded, `begin`, `select`, then `resume` with each evaluation until no leaf is left; `advance` plays.
`search.mcts.search` does just that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from games.spec import PLY_CAP, Game, State, outcome_for_first_player
from protocol.settings import SelfPlaySettings
from search.compiled import kernels_for
from search.insight import NetView
from search.layout import CONTROL, EDGE, FULL, MISFIT, NODE, UNEXPANDED
from search.leaf_batch import BadEvaluation, Leaf
from search.settings import EXPLORATIONS

KEPT_TREES = 2
"""A subtree of more than this many times `simulations` nodes is dropped, which bounds memory."""


MOST_VISITS = 0xFFFF
"""Visits of a root action that a game record can hold."""


class SearchTree:
    """Search over one game, move after move. `settings` are resolved (`search.settings.resolve`)."""

    def __init__(self, game: Game, settings: SelfPlaySettings, rng: np.random.Generator) -> None:
        self.game = game
        self.settings = settings
        self._rng = rng
        self._kernels = kernels_for(game.name)
        nodes = settings.simulations + 2
        self._tree = np.zeros(1, CONTROL)
        self._control = self._tree[0]  # a view: reading a field through it is cheaper
        self._nodes = np.empty(nodes, NODE)
        self._edges = np.empty(nodes * int(game.mean_legal) + game.max_legal, EDGE)
        self._scratch = np.empty(nodes, np.int32)
        self._path = np.empty(settings.max_plies + 1, np.int32)
        self._line = np.zeros((settings.max_plies + 2, game.state_words), np.uint64)
        self._words = np.zeros(game.feature_words(settings.history), np.uint64)
        self._actions = np.zeros(game.max_legal, np.uint16)
        self._visits_before = 0
        self._root_actions = np.zeros(game.max_legal, np.uint16)
        self._resume = self._kernels.resume
        self._is_extended = False
        self._write_settings()
        self._bundle_arrays()

    def _write_settings(self) -> None:
        control, settings = self._control, self.settings
        control["c_base"] = settings.c_base
        control["c_init"] = settings.c_init
        control["c_puct"] = settings.c_puct
        control["exploration"] = EXPLORATIONS.index(settings.exploration)
        control["fpu_absolute"] = settings.fpu == "absolute"
        control["fpu_reduction"] = settings.fpu_reduction
        control["fpu_reduction_root"] = 0.0 if settings.root_noise > 0 else settings.fpu_reduction
        control["fpu_value"] = settings.fpu_value
        control["history"] = settings.history
        control["max_plies"] = settings.max_plies
        control["max_legal"] = self.game.max_legal

    # ---- The game -----------------------------------------------------------------------------

    def reset(self, start: State) -> None:
        """Begin a game at `start`: uint64[state_words]."""
        self._line[0] = start
        control = self._control
        control["positions"] = 1
        control["nodes"] = control["edges"] = 0
        self.kept = 0

    @property
    def state(self) -> State:
        """The position at the root."""
        position: State = self._line[self.ply]
        return position

    @property
    def ply(self) -> int:
        """Moves played since the start position."""
        return int(self._control["positions"]) - 1

    def legal_actions(self) -> npt.NDArray[np.uint16]:
        """[n] legal actions at the root."""
        count = self.game.rules.legal_actions(self._line, self.ply + 1, self._root_actions)
        return self._root_actions[:count].copy()

    def end_reason(self) -> str | None:
        """Why the game is over at the root, by the rules or by the ply cap; None while it goes on."""
        reason = self._end_reason_index()
        if reason:
            return self.game.reason_name(reason)
        return PLY_CAP if self.ply >= self.settings.max_plies else None

    def outcome(self) -> int:
        """Result of a finished game for the first player: +1, 0 or -1."""
        value = self.game.end_reasons[self._end_reason_index()].value
        return outcome_for_first_player(value, int(self.game.rules.side_to_move(self.state)))

    def _end_reason_index(self) -> int:
        count = self.game.rules.legal_actions(self._line, self.ply + 1, self._root_actions)
        return int(self.game.rules.end_reason(self._line, self.ply + 1, count, False))

    def advance(self, action: int) -> None:
        """Play the legal `action` and keep its subtree if the settings say so and it is not too large."""
        self._check_action(action)
        was_kept = self._kernels.advance(
            self._tree, self._nodes, self._edges, self._line, self._scratch, action
        )
        control = self._control
        simulations = self.settings.simulations
        too_large = (
            control["nodes"] > KEPT_TREES * simulations
            or control["root_visits"] + simulations > MOST_VISITS  # terminals take visits, but no nodes
        )
        if was_kept and (too_large or self._is_extended or not self.settings.reuse_tree):
            control["nodes"] = control["edges"] = 0
        self.kept = int(control["root_visits"]) - 1 if control["nodes"] else 0
        self._is_extended = False

    def _check_action(self, action: int) -> None:
        """ValueError for what would lead the kernels out of their arrays."""
        if not 0 <= action < self.game.actions:
            raise ValueError(
                f"{action} is no action of {self.game.name}: they are 0 to {self.game.actions - 1}"
            )
        if self.ply >= self.settings.max_plies:
            raise ValueError(f"the game is over: it has {self.ply} plies, and max_plies is no more")

    # ---- The search ---------------------------------------------------------------------------

    @property
    def is_expanded(self) -> bool:
        """Whether the root has been evaluated."""
        return bool(self._control["nodes"])

    def root_leaf(self) -> Leaf:
        """The root as a leaf to evaluate."""
        count = self._kernels.open_root(self._tree, self._line, self._actions, self._words)
        return Leaf(self._words, self._actions[:count])

    def expand_root(self, priors: npt.NDArray[np.float32], value: float) -> None:
        """The evaluation of `root_leaf`: `priors` [n] over its legal actions, or BadEvaluation."""
        _check_length(priors, int(self._control["leaf_count"]))
        self._kernels.expand_root(self._tree, self._nodes, self._edges, self._actions, priors, value)

    def begin(self, *, is_cheap: bool = False) -> None:
        """Start a search of `simulations` new simulations, with fresh noise at the root.

        A cheap one has `cheap_simulations`, no noise, and the fpu reduction of every other node.
        """
        settings, control = self.settings, self._control
        control["remaining"] = settings.cheap_simulations if is_cheap else settings.simulations
        self._is_extended = False
        has_noise = settings.root_noise > 0 and not is_cheap
        control["forced_playouts"] = settings.forced_playouts if has_noise else 0.0
        control["fpu_reduction_root"] = 0.0 if has_noise else settings.fpu_reduction
        if has_noise:
            count = int(self._nodes[0]["edge_count"])
            noise = self._rng.dirichlet(np.full(count, self.settings.dirichlet_alpha))
            self._kernels.add_noise(self._nodes, self._edges, noise, self.settings.root_noise)

    def extend(self, simulations: int) -> None:
        """Go on with a search that is over. No record has room for these visits: `advance` keeps none."""
        self._control["remaining"] = simulations
        self._is_extended = True

    def view_of_net(self) -> NetView:
        """What the network said about the root, to be asked for before `begin`, which adds noise.

        Its value is what is left of the root's sum without that of its edges: a kept subtree has it, too.
        """
        first, count = self._nodes[0]
        edges = self._edges[first : first + count]
        value = float(self._control["root_value_sum"]) - float(edges["value_sum"].sum())
        return NetView(edges["action"].copy(), edges["prior"].copy(), min(1.0, max(-1.0, value)))

    def start_depths(self) -> None:
        """To be called after `begin`: `mean_and_max_depth` counts from here."""
        control = self._control
        control["depth_sum"] = control["deepest"] = 0
        self._visits_before = int(control["root_visits"])

    def mean_and_max_depth(self) -> tuple[float, int]:
        """(mean, largest) plies that simulations went down from the root since `start_depths`."""
        control = self._control
        simulations = int(control["root_visits"]) - self._visits_before
        return int(control["depth_sum"]) / max(1, simulations), int(control["deepest"])

    def winning_actions(self) -> npt.NDArray[np.uint16]:
        """[k] all actions that win at once, ascending."""
        found: list[int] = []
        first, skip = int(self._nodes[0]["first_edge"]), 0
        arrays = self._tree, self._nodes, self._edges, self._line, self._actions
        while (edge := self._kernels.winning_edge(*arrays, skip)) >= 0:
            found.append(int(self._edges[edge]["action"]))
            skip = edge - first + 1
        return np.array(sorted(found), np.uint16)

    def select(self) -> Leaf | None:
        """Walk to the next leaf to evaluate; None when the search is over."""
        return self._next_leaf(self._kernels.select(*self._arrays))

    def resume(self, priors: npt.NDArray[np.float32], value: float) -> Leaf | None:
        """Expand the leaf, back its value up and walk to the next one; None when the search is over.

        `priors` [n] over the leaf's legal actions. BadEvaluation if there are not so many: the leaf still
        waits then.
        """
        count = self._resume(*self._arrays, priors, value)
        if count == MISFIT:
            _check_length(priors, int(self._control["leaf_count"]))
        return self._next_leaf(count)

    def _next_leaf(self, count: int) -> Leaf | None:
        if count > 0:
            return Leaf(self._words, self._actions[:count])
        return self._select_in_larger_arrays() if count == FULL else None

    def root_visits(self) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int32]]:
        """Actions of the root and their visits, [n] each, in the order of the rules."""
        first, count = self._nodes[0]
        edges = self._edges[first : first + count]
        return edges["action"].copy(), edges["visits"].copy()

    def root_edges(self) -> npt.NDArray[np.void]:
        """EDGE[n] of the root, in the order of the rules; a copy."""
        first, count = self._nodes[0]
        return self._edges[first : first + count].copy()

    def principal_variation(self, first_action: int | None = None) -> list[int]:
        """The most visited actions from the root on; of equals the lowest, as the move played is chosen.

        `first_action`: the one to begin with, where it is known.
        """
        actions: list[int] = []
        node = 0 if self.is_expanded else UNEXPANDED
        while node >= 0:
            first, count = self._nodes[node]
            edges = self._edges[first : first + count]
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
        """Mean of the root's own evaluation and of all simulations, for the side to move."""
        control = self._control
        return float(control["root_value_sum"]) / int(control["root_visits"])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of this tree."""
        arrays = (self._nodes, self._edges, self._scratch, self._path, self._line, self._words)
        return sum(array.nbytes for array in arrays)

    def _bundle_arrays(self) -> None:
        """The arguments of `select`, kept together because it is called once a leaf."""
        self._arrays: tuple[npt.NDArray[Any], ...] = (
            self._tree,
            self._nodes,
            self._edges,
            self._path,
            self._line,
            self._actions,
            self._words,
        )

    def _select_in_larger_arrays(self) -> Leaf | None:
        """Grow what is full by half, then go on. Rare: a search usually fits from the start."""
        nodes = max(len(self._nodes), int(self._control["nodes"]) * 3 // 2 + 2)
        edges = max(len(self._edges), int(self._control["edges"]) * 3 // 2 + self.game.max_legal)
        self._nodes = _grown(self._nodes, nodes)
        self._edges = _grown(self._edges, edges)
        self._scratch = np.empty(nodes, np.int32)
        self._bundle_arrays()
        return self.select()


def _check_length(priors: npt.NDArray[np.float32], legal: int) -> None:
    if len(priors) != legal:
        raise BadEvaluation(f"an answer has {len(priors)} priors, but its position has {legal} legal actions")


def _grown(array: npt.NDArray[np.void], length: int) -> npt.NDArray[np.void]:
    larger = np.empty(length, array.dtype)
    larger[: len(array)] = array
    return larger
