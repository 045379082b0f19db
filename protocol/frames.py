"""Raw array frames of EVALUATE and EVALUATED, checked before anyone computes with them.

Every check is a length or one pass of NumPy. The arrays returned are views of the frames; only a frame that
is not aligned for its type is copied (ZeroMQ stores tiny messages inline). Views of `bytes` are read-only,
and Numba treats read-only arrays as another type: copy rows into your own batch before calling jitted code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from protocol.messages import MAX_ROWS, BadMessage

Buffer = bytes | bytearray | memoryview

_U8, _U16, _U64, _F16, _F32 = (np.dtype(name) for name in ("u1", "<u2", "<u8", "<f2", "<f4"))

PROBABILITY_LIMIT = 1.001
"""Largest value accepted as a probability: rounding may make 1 a little larger."""
_HALF_LIMIT = 0x3C01
"""Bits of the largest float16 not above PROBABILITY_LIMIT; larger words are > 1, negative, infinite or
NaN."""
_SINGLE_LIMIT = int(np.float32(PROBABILITY_LIMIT).view(np.uint32))
"""The same limit for float32; the bits of -0.0 are larger, too."""
_largest = np.maximum.reduce
"""Returns the largest element of an array, as its method `max` does, but saves two Python calls."""
_SCALAR_LIMIT = np.uint64(0x3F800000)
"""Bits of the float32 1.0. Non-negative floats are ordered like their bits, so a larger word is > 1,
negative, infinite or NaN, or has bits set in its upper half."""


class LeafBatch(NamedTuple):
    """Leaves to evaluate: what a search requests, EVALUATE carries and a network answers."""

    features: npt.NDArray[np.uint64]
    """[rows, words] packed positions."""
    counts: npt.NDArray[np.uint16]
    """[rows] number of legal actions of each row."""
    actions: npt.NDArray[Any]
    """uint16[sum of counts] the legal actions; the priors come back in this order. In a message they may be
    uint8[rows, mask_bytes] with a bit for each action."""

    @property
    def rows(self) -> int:
        return len(self.counts)

    @classmethod
    def of(cls, features: npt.NDArray[np.uint64], actions: npt.NDArray[np.uint16]) -> LeafBatch:
        """Return one position as a batch: its packed features [words], and its legal actions."""
        return cls(features[np.newaxis], np.array([len(actions)], np.uint16), actions)

    def split(self, rows: int) -> tuple[LeafBatch, LeafBatch]:
        """Return the first `rows` rows, and the rest. The actions must not be masks."""
        actions = int(self.counts[:rows].sum(dtype=np.int64))
        return (
            LeafBatch(self.features[:rows], self.counts[:rows], self.actions[:actions]),
            LeafBatch(self.features[rows:], self.counts[rows:], self.actions[actions:]),
        )


class EvaluationFrames(NamedTuple):
    """Frames of EVALUATED."""

    priors: npt.NDArray[np.float16]
    """[sum of counts] probabilities, row after row."""
    wdl: npt.NDArray[np.float32]
    """[rows, 3] win, draw, loss for the side to move."""


def check_leaves(
    rows: int,
    feature_words: int,
    actions_limit: int,
    frames: Sequence[Buffer],
    *,
    max_legal: int,
    scalars: int = 0,
    mask_bytes: int = 0,
) -> LeafBatch:
    """Return `frames` as leaves of a game with `feature_words` words a position, `actions_limit` actions, and
    at most `max_legal` legal actions a position.

    The last `scalars` words of each position hold a float32 in [0, 1] each. `mask_bytes` is the size of a
    position's mask of legal actions; 0 where actions come as a list. Raises BadMessage with the exact reason.
    """
    _check_outline(rows, frames, ("features", "counts", "actions"))
    features = _view(frames[0], _U64, rows * feature_words, "features").reshape(rows, feature_words)
    if scalars and _largest(features[:, feature_words - scalars :], axis=None) > _SCALAR_LIMIT:
        first = feature_words - scalars
        rows_found, columns = np.nonzero(features[:, first:] > _SCALAR_LIMIT)
        row, word = int(rows_found[0]), first + int(columns[0])
        bits = int(features[row, word])
        value = np.uint32(bits & 0xFFFFFFFF).view(np.float32)
        said = f"0x{bits:016x}" if bits >> 32 else f"{value} (0x{bits:08x})"
        text = f"word {word} of its features is {said}, expected a float32 in [0, 1], 0 above it"
        raise BadMessage(f"row {row}: {text}")
    counts = _view(frames[1], _U16, rows, "counts")
    actions = check_actions(counts, frames[2], actions_limit, max_legal, mask_bytes)
    return LeafBatch(features, counts, actions)


def check_actions(
    counts: npt.NDArray[np.uint16], frame: Buffer, actions_limit: int, max_legal: int, mask_bytes: int = 0
) -> npt.NDArray[Any]:
    """Return `frame` as the legal actions of leaves with `counts [rows]` of them (`LeafBatch.actions`).
    Otherwise as `check_leaves`."""
    rows, listed = len(counts), counts.tolist()  # cheaper than three NumPy calls for a hundred numbers
    least, most = min(listed), max(listed)
    if least < 1 or most > max_legal:
        raise BadMessage(
            f"a leaf has {least if least < 1 else most} legal actions, expected 1 to {max_legal}"
        )
    if mask_bytes:
        masks = _view(frame, _U8, rows * mask_bytes, "actions").reshape(rows, mask_bytes)
        # The last byte may have bits beyond the last action.
        if unused := 8 * mask_bytes - actions_limit:
            beyond = masks[:, -1] >> np.uint8(8 - unused)
            if beyond.any():
                row = int(beyond.argmax())
                raise BadMessage(f"row {row}: its mask has an action that is not below {actions_limit}")
        found = np.bitwise_count(masks).sum(axis=1)
        if (found != counts).any():
            row = int((found != counts).argmax())
            text = f"its mask has {found[row]} legal actions, its count is {counts[row]}"
            raise BadMessage(f"row {row}: {text}")
        return masks
    actions = _view(frame, _U16, sum(listed), "actions")
    largest = int(_largest(actions))
    if largest >= actions_limit:
        raise BadMessage(f"action {largest} is not below {actions_limit}")
    return actions


def check_evaluations(rows: int, total: int, frames: Sequence[Buffer]) -> EvaluationFrames:
    """Return `frames` as evaluations of `rows` leaves with `total` legal actions together.

    Raises BadMessage with the exact reason, also for a number that is not a probability (such as NaN).
    """
    _check_outline(rows, frames, ("priors", "wdl"))
    priors = _view(frames[0], _F16, total, "priors")
    wdl = _view(frames[1], _F32, 3 * rows, "wdl").reshape(rows, 3)
    # Every leaf has a legal action, so it has a prior.
    if total < rows:
        raise BadMessage(f"{rows} leaves cannot have {total} legal actions together")
    answers = EvaluationFrames(priors, wdl)
    if are_probabilities(answers):
        return answers
    if not _are_priors(answers.priors):
        raise BadMessage(f"prior {_first_wrong(answers.priors)} is not a probability")
    if not _are_probabilities(answers.wdl).all():
        raise BadMessage(f"wdl {_first_wrong(answers.wdl)} is not a probability")
    return answers


def are_probabilities(answers: EvaluationFrames) -> bool:
    """Return whether all numbers are probabilities. This is a quick check that also rejects -0.0; where it
    fails, `wrong_rows` decides."""
    return (
        _are_priors(answers.priors) and int(_largest(answers.wdl.view(np.uint32), axis=None)) <= _SINGLE_LIMIT
    )


def wrong_rows(answers: EvaluationFrames, counts: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_] | None:
    """Return a mask [rows] of the rows with a number that is not a probability; None when all rows are fine.

    `counts`: [rows] legal actions of each row, at least 1.
    """
    are_good = _are_probabilities(answers.wdl)
    if _are_priors(answers.priors) and are_good.all():
        return None
    # `reduceat` needs where each row begins; every row has at least one prior.
    begins = np.cumsum(counts, dtype=np.int64) - counts
    largest = np.maximum.reduceat(answers.priors.view(np.uint16), begins)
    wrong: npt.NDArray[np.bool_] = (largest > _HALF_LIMIT) | ~are_good.all(axis=1)
    return wrong


def _are_priors(priors: npt.NDArray[np.float16]) -> bool:
    return int(_largest(priors.view(np.uint16))) <= _HALF_LIMIT


def _are_probabilities(wdl: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    return (wdl >= 0) & (wdl <= PROBABILITY_LIMIT)


def _check_outline(rows: int, frames: Sequence[Buffer], names: tuple[str, ...]) -> None:
    if not 1 <= rows <= MAX_ROWS:
        raise BadMessage(f"{rows} rows, expected 1 to {MAX_ROWS}")
    if len(frames) != len(names):
        raise BadMessage(f"{len(frames)} frames after the header, expected {len(names)}: {', '.join(names)}")


def _view(frame: Buffer, dtype: np.dtype[Any], length: int, name: str) -> npt.NDArray[Any]:
    """Return `frame` as `length` elements. Raises BadMessage with both byte counts."""
    size = frame.nbytes if isinstance(frame, memoryview) else len(frame)
    if size != length * dtype.itemsize:
        raise BadMessage(f"frame {name} has {size} bytes, expected {length * dtype.itemsize}")
    # `frombuffer` refuses an empty buffer.
    if length == 0:
        return np.empty(0, dtype)
    array = np.frombuffer(frame, dtype)
    # Unaligned numbers are slower, and jitted code may refuse them.
    return array if array.flags.aligned else array.copy()


def _first_wrong(values: npt.NDArray[Any]) -> float:
    wide = values.astype(np.float64).ravel()
    return float(wide[~((wide >= 0) & (wide <= PROBABILITY_LIMIT) & ~np.signbit(wide))][0])
