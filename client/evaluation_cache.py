"""Evaluations are kept for a while: the next search looks at many positions that the last one looked at.

The key is the whole input of the network and the legal actions, over which the priors are. The features
alone do not tell them: chess with one position of history does not see that a pawn may be taken en passant.
So two positions that differ in anything that the network sees or is asked about never share an answer, and a
kept answer is what the same weights would say again. All are forgotten when other weights answer; one that
was on its way just then may outlive its weights by a version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from hashlib import blake2b
from typing import NamedTuple

from search.evaluator import Evaluator
from search.leaf_batch import Evaluation, Leaf

LONG_KEY = 64
"""Bytes of network input and actions from which on their 128-bit hash is the key."""


class CachedEvaluator:
    """`Evaluator` that asks another one about positions it has not asked about lately."""

    def __init__(self, evaluator: Evaluator, positions: int) -> None:
        """Keeps the answers to at least half of `positions` and at most that many, the newest."""
        self.hits = 0
        """Leaves answered from memory."""
        self._evaluator = evaluator
        self._half = max(1, positions // 2)
        self._new: dict[bytes, Evaluation] = {}
        self._old: dict[bytes, Evaluation] = {}
        self._kept_version = evaluator.version

    @property
    def version(self) -> int:
        """Weights version of the newest answer."""
        return self._evaluator.version

    @property
    def positions(self) -> int:
        """Answers kept now."""
        return len(self._new) + len(self._old)

    def evaluate(self, leaf: Leaf) -> Awaitable[Evaluation]:
        """From memory, without a turn of the event loop, or from the evaluator behind."""
        if self._kept_version != self._evaluator.version:
            self._forget()
        key = _key(leaf)
        known = self._new.get(key)
        if known is None:
            known = self._old.get(key)
            if known is None:
                return self._ask(key, leaf)
            self._keep(key, known)
        self.hits += 1
        return _Known(known)

    async def _ask(self, key: bytes, leaf: Leaf) -> Evaluation:
        answer = await self._evaluator.evaluate(leaf)
        if self._kept_version != self._evaluator.version:
            self._forget()
        # A copy, as the priors are a view of a whole message.
        self._keep(key, Evaluation(answer.priors.copy(), answer.value))
        return answer

    def _keep(self, key: bytes, answer: Evaluation) -> None:
        if len(self._new) >= self._half:
            self._old, self._new = self._new, {}
        self._new[key] = answer

    def _forget(self) -> None:
        self._kept_version = self._evaluator.version
        self._new, self._old = {}, {}


class _Known(NamedTuple):
    """An awaitable that is answered at once."""

    answer: Evaluation

    def __await__(self) -> Generator[None, None, Evaluation]:
        yield from ()
        return self.answer


def _key(leaf: Leaf) -> bytes:
    # Features have one length in a game, so this tells where the actions begin.
    data = leaf.features.tobytes() + leaf.actions.tobytes()
    return data if len(data) <= LONG_KEY else blake2b(data, digest_size=16).digest()
