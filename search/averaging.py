"""Evaluates each leaf through all symmetries of the board and answers with the mean.

AlphaGo (Silver et al. 2016, Methods, "Symmetries") calls it an explicit symmetry ensemble. It costs one
evaluation for each symmetry. `tests/search/naive_averaging.py` is the slow twin.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.jit import jit
from games.moved_features import move_features
from games.spec import Game, Symmetry
from protocol.settings import SelfPlaySettings
from search.evaluator import Evaluator
from search.leaf_batch import BadEvaluation, Evaluations, LeafBatch, Reply, cut, joined

MOST_ROWS = 128
"""Rows asked for at once, if a leaf has no more: no leaf waits for many others, so that some searches go on
while the rest is evaluated."""


def averaged(evaluator: Evaluator, game: Game, settings: SelfPlaySettings) -> Evaluator:
    """Return the evaluator of a search with these settings: `evaluator`, or one on top of it that averages.
    One that averages already is returned as it is."""
    wanted = settings.search.average_symmetries and game.symmetries
    if not wanted or isinstance(evaluator, AveragingEvaluator):
        return evaluator
    return AveragingEvaluator(evaluator, game, settings.history)


def views_of(evaluator: Evaluator) -> int:
    """Return the number of evaluations that `evaluator` spends on a leaf."""
    return evaluator.views if isinstance(evaluator, AveragingEvaluator) else 1


class AveragingEvaluator:
    """An Evaluator on top of another one, for a game that has symmetries.

    Priors come back in the order in which the actions were given, so those of a transformed position need not
    be mapped back.
    """

    def __init__(self, evaluator: Evaluator, game: Game, history: int) -> None:
        self._evaluator, self._code_bits, self._history = evaluator, game.code_bits, history
        self._symmetries = [(one, game.plane_map(one, 1)) for one in game.symmetries]
        self.views = 1 + len(game.symmetries)
        """Evaluations of a leaf."""

    @property
    def version(self) -> int:
        return self._evaluator.version

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        most, first = max(1, MOST_ROWS // self.views), 0
        while batch.rows > most:
            some, batch = cut(batch, most)
            self._submit(some, first, reply)
            first += most
        self._submit(batch, first, reply)

    def _submit(self, batch: LeafBatch, first: int, reply: Reply) -> None:
        """Ask for all views of some leaves. `first`: number of their first one in the request."""
        views = [batch, *(self._seen_through(*symmetry, batch) for symmetry in self._symmetries)]
        self._evaluator.submit(joined(views), _Mean(batch, self.views, first, reply))

    def _seen_through(self, symmetry: Symmetry, planes: npt.NDArray[np.int64], batch: LeafBatch) -> LeafBatch:
        """Return the batch with every position and its actions transformed. `planes`: where `symmetry` takes
        each plane of a position."""
        moved = np.empty_like(batch.features)
        _move_all(batch.features, symmetry.cells, planes, self._code_bits, self._history, moved)
        return LeafBatch(moved, batch.counts, symmetry.actions[batch.actions].astype(np.uint16))


class _Mean:
    """The answers to all views of a batch: passes on their mean when each of them is answered or has
    failed.

    Row `view * leaves + leaf` of the question is a view of a leaf. `first`: number that `reply` has for the
    first leaf. While new weights are loaded, a mean may be of two networks; it counts as the newer one's.
    """

    def __init__(self, batch: LeafBatch, views: int, first: int, reply: Reply) -> None:
        self._leaves, self._first, self._reply = batch.rows, first, reply
        self._begins = np.concatenate([[0], np.cumsum(np.tile(batch.counts, views), dtype=np.int64)])
        """[rows + 1] first prior of each row, in `_priors` laid flat."""
        self._priors = np.zeros((views, len(batch.actions)), np.float32)
        self._wdl = np.zeros((views, batch.rows, 3), np.float32)
        self._waits = np.ones(views * batch.rows, np.bool_)
        """[rows] whether the row is waited for."""
        self._has_failed = np.zeros(batch.rows, np.bool_)
        self._left = views * batch.rows
        self._version = 0

    def answered(self, first: int, evaluations: Evaluations) -> None:
        end = first + len(evaluations.wdl)
        begin, last = self._begins[first], self._begins[end]
        if len(evaluations.priors) != last - begin:
            text = f"an answer has {len(evaluations.priors)} priors for {last - begin} legal actions"
            self.failed(first, end - first, BadEvaluation(text))
            return
        self._priors.reshape(-1)[begin:last] = evaluations.priors
        self._wdl.reshape(-1, 3)[first:end] = evaluations.wdl
        self._version = max(self._version, evaluations.version)
        self._settle(first, end)

    def failed(self, first: int, rows: int, error: Exception) -> None:
        for leaf in sorted({row % self._leaves for row in range(first, first + rows)}):
            if not self._has_failed[leaf]:
                self._has_failed[leaf] = True
                self._reply.failed(self._first + leaf, 1, error)
        self._settle(first, first + rows)

    def _settle(self, first: int, end: int) -> None:
        """Note that these rows are not waited for; after the last ones, pass on the means."""
        new = int(self._waits[first:end].sum())
        self._waits[first:end] = False
        self._left -= new
        if new and not self._left:
            self._pass_on()

    def _pass_on(self) -> None:
        """Answer the leaves that did not fail, in runs of neighbours."""
        priors, wdl = self._priors.mean(axis=0), self._wdl.mean(axis=0)
        good = np.flatnonzero(~self._has_failed)
        for run in np.split(good, np.flatnonzero(np.diff(good) > 1) + 1):
            if len(run):
                first, end = int(run[0]), int(run[-1]) + 1
                some = priors[self._begins[first] : self._begins[end]]
                found = Evaluations(some, wdl[first:end], self._version)
                self._reply.answered(self._first + first, found)


@jit
def _move_all(
    features: npt.NDArray[np.uint64],
    cells: npt.NDArray[np.int64],
    planes: npt.NDArray[np.int64],
    code_bits: int,
    history: int,
    moved: npt.NDArray[np.uint64],
) -> None:
    """Write each row of `features [rows, words]` to `moved`, transformed (`games.moved_features`)."""
    for row in range(len(features)):
        move_features(features[row], cells, planes, code_bits, history, moved[row])
