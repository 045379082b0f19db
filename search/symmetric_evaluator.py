"""Each leaf seen through a random symmetry of the game, as AlphaGo Zero's search did.

A network is not exactly symmetric; over many leaves its errors average out. Nothing of this is on the way
of a search that does not ask for it: this wraps the evaluator of one game.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.spec import Game, Symmetry
from search.evaluator import Evaluation, Evaluator
from search.leaf_batch import Leaf


class SymmetricEvaluator:
    """An Evaluator that asks another one about the leaf as a symmetry drawn from `rng` shows it.

    Priors come back in the order of the actions that were asked about, so they need no mapping back.
    """

    def __init__(self, evaluator: Evaluator, game: Game, history: int, rng: np.random.Generator) -> None:
        self.version = evaluator.version
        self._evaluator = evaluator
        self._game = game
        self._history = history
        self._bit_words = game.bit_planes(history) * game.words_per_plane
        self._rng = rng

    async def evaluate(self, leaf: Leaf) -> Evaluation:
        drawn = int(self._rng.integers(len(self._game.symmetries) + 1))
        if drawn:
            leaf = self.seen_through(self._game.symmetries[drawn - 1], leaf)
        answer = await self._evaluator.evaluate(leaf)
        self.version = self._evaluator.version
        return answer

    def seen_through(self, symmetry: Symmetry, leaf: Leaf) -> Leaf:
        """The leaf with its planes, cells and actions where `symmetry` takes them."""
        words = leaf.features.copy()
        planes = words[: self._bit_words].reshape(-1, self._game.words_per_plane)
        bits = np.unpackbits(planes.view(np.uint8), axis=1, bitorder="little")
        moved: npt.NDArray[np.uint8] = np.zeros_like(bits)
        turned = self._game.plane_map(symmetry, self._history)
        moved[turned[:, None], symmetry.cells] = bits[:, : self._game.cells]
        words[: self._bit_words] = np.packbits(moved, axis=1, bitorder="little").view(np.uint64).ravel()
        return Leaf(words, symmetry.actions[leaf.actions].astype(np.uint16))
