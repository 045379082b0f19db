"""Which batch sizes give the same answers, to the last bit.

A library may add up in another order when it is given another number of rows. So every size is tried on the
same positions, each in two different rows, and only sizes with equal answers are used together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from net.batches import bucket_for

Positions = npt.NDArray[np.int64]
CALL_ROWS = 2
"""Cost of one more batch, in rows: small convolutions take that much more time (`bench inference`)."""

Compute = Callable[[Positions], Sequence[bytes]]
"""Returns all bits of the answers to the positions with these numbers `[n]`, computed as one batch of n
rows."""

TRIED = 16
"""Least number of positions that are tried by default; at larger sizes it is the number of rows."""


def agreeing_sizes(
    sizes: Sequence[int], positions: int, compute: Compute, tried: int = TRIED
) -> tuple[int, ...]:
    """The cheapest group of `sizes` that agree with each other; ascending.

    `positions` is the number of positions, at least the largest size; at each size at least `tried` of them
    are tried. A size at which the answer depends on the row is in no group. Returns `(1,)` if that is so for
    all, because a single row has no other place.
    """
    groups: list[tuple[list[bytes], list[int]]] = []
    for size in sorted(sizes, reverse=True):
        asked = min(positions, max(size, tried))
        answers = _answers(size, asked, 0, compute)
        if answers != _answers(size, asked, 1, compute):
            continue
        same = (group for first, group in groups if first[:asked] == answers)
        group = next(same, None)
        if group is None:
            groups.append((answers, [size]))
        else:
            group.append(size)
    if not groups:
        return (1,)
    found = (tuple(sorted(group)) for _, group in groups)
    return min(found, key=lambda group: cost(group, max(sizes)))


def cost(group: Sequence[int], most: int) -> int:
    """Rows computed, with padding and CALL_ROWS, to answer 1, 2, ... `most` rows in sizes of `group`."""
    total = 0
    for rows in range(1, most + 1):
        full, rest = divmod(rows, group[-1])
        total += full * (group[-1] + CALL_ROWS)
        total += bucket_for(rest, group) + CALL_ROWS if rest else 0
    return total


def _answers(size: int, positions: int, shift: int, compute: Compute) -> list[bytes]:
    """A hash of the answer to each of `positions` positions, `size` at a time from position number `shift`
    on."""
    order = (np.arange(-(-positions // size) * size) + shift) % positions
    found = [b""] * positions
    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        for number, answer in zip(numbers, compute(numbers), strict=True):
            found[number] = hashlib.sha256(answer).digest()
    return found
