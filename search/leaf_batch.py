"""Leaves on their way to an evaluator, and evaluations on their way back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Leaf(NamedTuple):
    """One position to evaluate. Both arrays are the tree's own and are reused after the answer."""

    features: npt.NDArray[np.uint64]
    """[words] packed planes."""
    actions: npt.NDArray[np.uint16]
    """[n] legal actions; the priors come back in this order."""


class Evaluation(NamedTuple):
    priors: npt.NDArray[np.float32]
    """[n] over the leaf's legal actions, summing to 1."""
    value: float
    """For the side to move, in [-1, 1]."""


class BadEvaluation(ValueError):
    """An answer that is not as long as what was asked. It ends the search that waits for it, and no more."""


@dataclass(frozen=True, eq=False)
class LeafBatch:
    features: npt.NDArray[np.uint64]
    """[rows, words]"""
    counts: npt.NDArray[np.uint16]
    """[rows] legal actions of each row."""
    actions: npt.NDArray[np.uint16]
    """[sum of counts]"""

    @property
    def rows(self) -> int:
        return len(self.counts)


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Answers to a LeafBatch."""

    priors: npt.NDArray[Any]
    """[sum of counts] float16 or float32."""
    wdl: npt.NDArray[np.float32]
    """[rows, 3] probabilities of win, draw and loss for the side to move."""
    version: int
    """Weights that answered."""


def check_answers(answers: Evaluations, batch: LeafBatch) -> None:
    """BadEvaluation unless there is a prior for each legal action and a row of `wdl` for each position."""
    total = len(batch.actions)
    if answers.priors.shape != (total,) or answers.wdl.shape != (batch.rows, 3):
        raise BadEvaluation(
            f"the network answered {batch.rows} positions with {total} legal actions by priors of shape "
            f"{answers.priors.shape} and win, draw and loss of shape {answers.wdl.shape}"
        )


def gather(leaves: Sequence[Leaf]) -> LeafBatch:
    """Copy leaves into one batch."""
    return LeafBatch(
        features=np.concatenate([leaf.features for leaf in leaves]).reshape(len(leaves), -1),
        counts=np.array([len(leaf.actions) for leaf in leaves], dtype=np.uint16),
        actions=np.concatenate([leaf.actions for leaf in leaves]),
    )


def scatter(
    priors: npt.NDArray[Any],
    wdl: npt.NDArray[np.float32],
    counts: npt.NDArray[np.uint16],
    waiting: Sequence[asyncio.Future[Evaluation]],
) -> None:
    """Resolve one future a row; those given up meanwhile are passed over."""
    priors = priors.astype(np.float32, copy=False)
    values = (wdl[:, 0] - wdl[:, 2]).tolist()
    begin = 0
    for future, count, value in zip(waiting, counts.tolist(), values, strict=True):
        end = begin + count
        if not future.done():
            future.set_result(Evaluation(priors[begin:end], value))
        begin = end
