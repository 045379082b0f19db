"""All search trees of a process that share the same settings: each is a slot of common arrays.

Every tree has a fixed amount of space, so normally nothing is copied. The operating system provides the
memory only as it is used. If one tree needs more space, all trees get more; this is rare (a game with far
more legal actions than usual).
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from azselfplay.games.spec import Game
from azselfplay.search.cache_kernel import WAYS
from azselfplay.search.compiled import OwnNetwork, kernels_for
from azselfplay.search.layout import (
    COUNTERS,
    EDGE,
    ENTRY,
    GROW,
    IN_FLIGHT,
    NODE,
    PATH_EDGE,
    PENDING,
    REQUEST,
    SETTINGS,
    STATE,
    USED,
    ForestArrays,
    Outbox,
    Tree,
)
from azselfplay.search.selection import selection
from protocol.frames import LeafBatch
from protocol.settings import SelfPlaySettings

NO_PRIORS = np.zeros(0, np.float32)
NO_WDL = np.zeros((0, 3), np.float32)

MOST_EDGES = 2**31 - 1
"""Nodes hold the index of their first edge as int32."""
KEPT_TREES = 2
"""A kept subtree with more than KEPT_TREES * `simulations` nodes is dropped, which bounds the memory."""
SPARE = 1.3
"""Edges reserved for each node, in units of the game's mean number of legal actions."""
PRIOR = np.dtype(np.float32)
"""Number format of cached priors."""


class Forest:
    """Search trees for `settings` (resolved by `search.settings.resolve`). There are `slots` of them at
    first.

    `leaves`: most leaves in flight per tree. `max_nodes`: room for evaluated positions per tree; such a tree
    never grows and keeps any subtree (for engines). 0: as much room as a search with these settings needs.
    `cache`: number of cached evaluations, 0: none. `network`: evaluates the leaves in the step kernel, so
    that a whole search is one call; None: leaves go to the outbox. `keeps_subtree`: whether there is
    room for the subtree that a search keeps for the next one.
    """

    def __init__(
        self,
        game: Game,
        settings: SelfPlaySettings,
        slots: int = 1,
        *,
        leaves: int = 1,
        max_nodes: int = 0,
        cache: int = 0,
        network: OwnNetwork | None = None,
        keeps_subtree: bool = True,
    ) -> None:
        self.game, self.settings = game, settings
        self._network, self._weights = network, NO_PRIORS if network is None else network.weights
        self.selection = selection(settings.search.selection)
        self.kernels = kernels_for(
            game.name, settings.search.selection, None if network is None else network.code
        )
        self.leaves = leaves
        self.is_fixed = max_nodes > 0
        self._free: list[int] = []
        self._request, self._result = np.zeros(1, REQUEST), np.zeros(1, np.int8)
        self.generation = 0
        """Counts how often the arrays were replaced by larger ones."""
        if max_nodes:
            nodes = max(2, max_nodes)
        else:
            kept = KEPT_TREES if keeps_subtree and self.selection.KEEPS_SUBTREE else 0
            # Room for the kept subtree, this search, the root, and one spare node.
            nodes = (kept + 1) * settings.search.simulations + 2
        # An engine's tree uses exactly the memory that it was given.
        spare = 1.0 if max_nodes else SPARE
        # Each leaf in flight may be expanded next, and may be a position with the most legal actions.
        each, more = int(game.mean_legal * spare), leaves * game.max_legal
        nodes = min(nodes, (MOST_EDGES - more) // each)
        edges = nodes * each + more
        self._cache = _cache(cache, game)
        self.arrays = self._reserve(0, nodes, edges)
        self.new_index = np.zeros(nodes, np.int32)
        """Scratch for `advance`: the new index of each node of the kept subtree."""
        self.outbox = self._outbox(0)
        self.add_slots(slots)

    # ---- Slots --------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        return len(self.arrays.states)

    def add_slots(self, more: int) -> None:
        """Make room for `more` further trees."""
        slots = self.slots
        self._resize(slots + more, self.arrays.nodes.shape[1], self.arrays.edges.shape[1])
        self._free.extend(reversed(range(slots, slots + more)))

    def take_slot(self) -> int:
        """Return a slot for another tree; the forest grows if none is free."""
        if not self._free:
            self.add_slots(max(1, self.slots // 2))
        return self._free.pop()

    def release(self, slot: int) -> None:
        """Free a tree's slot, and forget its leaves in flight."""
        self.give_up(slot)
        self._free.append(slot)  # the next tree takes it: its memory is already provided

    def give_up(self, slot: int) -> None:
        """Forget this tree's leaves in flight; answers to them will be ignored."""
        arrays = self.arrays
        state = arrays.states[slot : slot + 1]
        self.kernels.give_up(arrays.edges[slot], arrays.paths[slot], arrays.pending[slot], state)

    def tree(self, slot: int) -> Tree:
        """Return the arrays of one tree, valid until `generation` changes."""
        arrays = self.arrays
        return Tree(
            arrays.parameters,
            arrays.states[slot : slot + 1],
            arrays.nodes[slot],
            arrays.edges[slot],
            arrays.root_noise[slot],
            arrays.plan[slot],
        )

    def grow(self) -> None:
        """Give each tree 50 % more space for nodes and edges."""
        nodes, edges = self.arrays.nodes.shape[1], self.arrays.edges.shape[1]
        self._resize(self.slots, nodes * 3 // 2, edges * 3 // 2)

    # ---- Steps --------------------------------------------------------------------------------

    def step(
        self,
        requests: npt.NDArray[np.void],
        priors: npt.NDArray[Any] = NO_PRIORS,
        wdl: npt.NDArray[np.float32] = NO_WDL,
    ) -> list[tuple[int, int]]:
        """Carry out each of `requests` (REQUEST[n]). Returns (index of the request, result) for the results
        that are not IN_FLIGHT. If one is GROW, the trees have already grown when this returns (except in a
        forest of fixed size).

        `priors [sum of counts]` and `wdl [n, 3]` are those of the requests that bring an evaluation.
        """
        self._take_new_weights()
        results = np.empty(len(requests), np.int8)
        priors, wdl = np.ascontiguousarray(priors, np.float32), np.ascontiguousarray(wdl, np.float32)
        if not self.kernels.expand_backup_select(self.arrays, requests, priors, wdl, self.outbox, results):
            return []
        indices = np.flatnonzero(results != IN_FLIGHT)
        others = results[indices].tolist()
        if GROW in others and not self.is_fixed:  # once for all trees that need it; their callers try again
            self.grow()
        return list(zip(indices.tolist(), others, strict=True))

    def step_alone(self, slot: int, command: int) -> int:
        """Carry out a `command` for one tree, which must bring no evaluation. Faster than `step`. Returns the
        result."""
        self._take_new_weights()
        self._request["slot"], self._request["command"] = slot, command
        self.kernels.expand_backup_select(
            self.arrays, self._request, NO_PRIORS, NO_WDL, self.outbox, self._result
        )
        result = int(self._result[0])
        if result == GROW and not self.is_fixed:
            self.grow()
        return result

    @property
    def has_leaves(self) -> bool:
        """Whether there are leaves in the outbox."""
        return bool(self.outbox.used["rows"][0])

    def take_leaves(self) -> tuple[LeafBatch, npt.NDArray[np.void]]:
        """Empty the outbox. Returns the leaves, and the requests (REQUEST[n]) that will bring their
        answers."""
        out = self.outbox
        rows, actions = out.used[0].item()
        out.used[0] = 0
        batch = LeafBatch(out.features[:rows].copy(), out.counts[:rows].copy(), out.actions[:actions].copy())
        return batch, out.requests[:rows].copy()

    @property
    def evaluates(self) -> bool:
        """Whether the forest has a network of its own, which evaluates the leaves."""
        return self._network is not None

    @property
    def evaluated(self) -> int:
        """Leaves that the forest's own network has evaluated."""
        return int(self.arrays.counters["evaluated"][0])

    def _take_new_weights(self) -> None:
        """Use the network's newest weights from now on."""
        # Comparing identities is enough: new weights are a new array (`OwnNetwork.weights`).
        if self._network is not None and self._network.weights is not self._weights:
            self._weights = self._network.weights
            self.arrays = self.arrays._replace(weights=self._weights)
            self.forget_evaluations()

    # ---- The cache of evaluations -------------------------------------------------------------

    @property
    def cache_hits(self) -> int:
        """Leaves answered from the cache."""
        return int(self.arrays.counters["hits"][0])

    def forget_evaluations(self) -> None:
        """Clear the cache, because new weights answer from now on."""
        self.arrays.cache_entries["place"] = -1

    # ---- Memory -------------------------------------------------------------------------------

    def _reserve(self, slots: int, nodes: int, edges: int) -> ForestArrays:
        game, settings, leaves = self.game, self.settings, self.leaves
        shared = settings.history, settings.max_plies, game.max_legal, leaves, settings.search.look_ahead
        entries, priors, counters = self._cache
        return ForestArrays(
            settings=np.array([shared], SETTINGS),
            parameters=np.array(self.selection.parameters(settings), np.float64),
            # Every search writes its state at once, so reserving these page by page would gain nothing.
            states=np.zeros(slots, STATE),
            nodes=_reserved((slots, nodes), NODE),
            edges=_reserved((slots, edges), EDGE),
            history=_reserved((slots, settings.max_plies + 2, game.state_words), np.uint64),
            pending=np.zeros((slots, leaves), PENDING),
            paths=_reserved((slots, leaves, settings.max_plies + 1), PATH_EDGE),
            actions=np.zeros((slots, leaves, game.max_legal), np.uint16),
            root_noise=np.zeros((slots, game.max_legal)),
            plan=np.zeros((slots, self.selection.plan_room(settings)), np.int32),
            replies=np.zeros((2, game.max_legal), np.uint16),
            cache_entries=entries,
            cached_priors=priors,
            counters=counters,
            weights=self._weights,
            priors=np.zeros(game.max_legal, np.float32),
            wdl=np.zeros(3, np.float32),
        )

    def _resize(self, slots: int, nodes: int, edges: int) -> None:
        old, new = self.arrays, self._reserve(slots, nodes, edges)
        for name in ("states", "pending", "actions", "root_noise", "plan"):
            getattr(new, name)[: len(old.states)] = getattr(old, name)
        # Copy only what is in use: the rest takes no memory as long as it is not written.
        for slot, state in enumerate(old.states):
            for name, used in (("nodes", "nodes"), ("edges", "edges"), ("history", "positions")):
                getattr(new, name)[slot, : state[used]] = getattr(old, name)[slot, : state[used]]
            for leaf in np.flatnonzero(old.pending[slot]["ticket"]):
                depth = int(old.pending[slot, leaf]["depth"])
                new.paths[slot, leaf, :depth] = old.paths[slot, leaf, :depth]
        self.arrays = new
        self.new_index = np.zeros(nodes, np.int32)
        self.generation += 1
        if slots > len(old.states):
            outbox = self._outbox(slots)
            for small, large in zip(self.outbox, outbox, strict=True):
                large[: len(small)] = small  # keep the leaves that have not been sent yet
            self.outbox = outbox

    def _outbox(self, slots: int) -> Outbox:
        rows, words = max(1, slots * self.leaves), self.game.feature_words(self.settings.history)
        return Outbox(
            features=np.zeros((rows, words), np.uint64),
            counts=np.zeros(rows, np.uint16),
            actions=np.zeros(rows * self.game.max_legal, np.uint16),
            requests=np.zeros(rows, REQUEST),
            used=np.zeros(1, USED),
        )


def _reserved(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array of zeros whose memory the operating system provides page by page as it is written.

    Huge pages are avoided: one would span the spaces of several trees, which are mostly empty. Raises
    MemoryError if the operating system refuses the request.
    """
    kind = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * kind.itemsize
    if nbytes == 0:
        return np.zeros(shape, kind)
    try:
        memory = mmap.mmap(-1, nbytes)
    except OSError as error:  # such as ENOMEM
        raise MemoryError(f"the system refuses {nbytes >> 20} MiB: {error}") from error
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, kind).reshape(shape)


def cached_in(mebibytes: float, game: Game) -> int:
    """Return how many evaluations a cache of this size holds."""
    return int(mebibytes * 2**20 / (ENTRY.itemsize + PRIOR.itemsize * game.mean_legal))


def _cache(positions: int, game: Game) -> tuple[npt.NDArray[Any], ...]:
    """Return (cache_entries, cached_priors, counters) of ForestArrays."""
    entries = np.zeros((-(-positions // WAYS), WAYS), ENTRY)
    entries["place"] = -1
    # The priors of one position must fit, however small the cache is.
    room = max(int(positions * game.mean_legal), game.max_legal) if positions else 0
    return entries, np.zeros(room, PRIOR), np.zeros(1, COUNTERS)
