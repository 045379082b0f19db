"""Transforms packed positions: applies a symmetry to packed features, and converts legal actions between
lists and bit masks. Games with many legal actions send them as masks, one bit for each action of the game.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_trailing_zeros
from azselfplay.games.jit import copy, jit, signed

Numbers = npt.NDArray[np.integer]

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]


@jit
def move_features(
    packed_features: npt.NDArray[np.uint64],
    cells: Numbers,
    planes: Numbers,
    code_bits: int,
    history: int,
    moved: npt.NDArray[np.uint64],
) -> None:
    """Write `packed_features` to `moved`, both uint64[feature_words], after applying a symmetry of the board.

    cells: [cells of the board] where each cell goes, with its bits and its code. planes: [bit planes of a
    position] where each plane goes. code_bits: bits of a cell's code, 0 where cells have none.
    """
    # The same maps apply to each position of the history. Bits that are 0 are written too, so that no branch
    # depends on the data.
    words_a_plane = (len(cells) + 63) // 64
    bit_words = history * len(planes) * words_a_plane
    a_word = 64 // max(code_bits, 1)
    code_words = (len(cells) + a_word - 1) // a_word if code_bits > 0 else 0
    # Scalars follow the codes. No symmetry changes them, so they are copied.
    end_of_codes = bit_words + history * code_words
    for word in range(len(moved)):
        moved[word] = ZERO if word < end_of_codes else packed_features[word]
    for plane in range(history * len(planes)):
        kind = plane % len(planes)
        old, new = plane * words_a_plane, (plane - kind + planes[kind]) * words_a_plane
        for cell in range(len(cells)):
            bit = (packed_features[old + cell // 64] >> np.uint64(cell % 64)) & ONE
            goes = cells[cell]
            moved[new + goes // 64] |= bit << np.uint64(goes % 64)
    if code_bits == 0:
        return
    mask = (ONE << np.uint64(code_bits)) - ONE
    for position in range(history):
        first = bit_words + position * code_words
        for cell in range(len(cells)):
            goes = cells[cell]
            code = (packed_features[first + cell // a_word] >> np.uint64(cell % a_word * code_bits)) & mask
            moved[first + goes // a_word] |= code << np.uint64(goes % a_word * code_bits)


# ---- Legal actions as masks ----------------------------------------------------------------------


class LegalMasks:
    """Converts between concatenated lists of legal actions and one mask per position.

    Bit `a % 8` of byte `a // 8` is set where action `a` is legal. Priors for a mask are in the order of the
    actions' numbers.
    """

    def __init__(self, mask_bytes: int) -> None:
        """Take `mask_bytes`, the size of one position's mask (`Game.mask_bytes`)."""
        self._bytes = mask_bytes
        self._ranks = np.zeros(8 * mask_bytes, np.uint16)

    def masks(self, counts: U16, actions: U16) -> U8:
        """Return uint8[rows, mask_bytes], the masks of concatenated lists `actions [sum of counts]` with
        `counts [rows]` actions each."""
        found = np.zeros((len(counts), self._bytes), np.uint8)
        write_masks(counts, actions, found)
        return found

    def lists(self, counts: U16, masks: U8) -> U16:
        """Return uint16[sum of counts], the actions of `masks [rows, mask_bytes]`, ascending in each row;
        `counts [rows]` are their numbers."""
        found = np.empty(int(counts.sum(dtype=np.int64)), np.uint16)
        read_masks(masks, found)
        return found

    def as_listed(
        self, counts: U16, actions: U16, priors: npt.NDArray[np.float16]
    ) -> npt.NDArray[np.float16]:
        """Return float16[sum of counts]: `priors [sum of counts]` in the order of masks, reordered to that of
        the concatenated lists `actions [sum of counts]` with `counts [rows]` actions each."""
        # The kernel sees the bits as uint16: it only moves them, and Numba has no float16 on CPUs.
        found = np.empty(len(priors), np.float16)
        reorder(counts, actions, priors.view(np.uint16), self._ranks, found.view(np.uint16))
        return found


@jit
def write_masks(counts: U16, actions: U16, masks: U8) -> None:
    """Set the bits of `actions [sum of counts]` in `masks [rows, mask_bytes]`, which must be all 0."""
    at = 0
    for row in range(len(counts)):
        for k in range(at, at + signed(counts[row])):
            action = signed(actions[k])
            masks[row, action >> 3] |= np.uint8(1 << (action & 7))
        at += signed(counts[row])


@jit
def read_masks(masks: U8, actions: U16) -> None:
    """Write the actions of `masks [rows, mask_bytes]`, ascending in each row, to `actions [of all rows]`."""
    at = 0
    for row in range(masks.shape[0]):
        for byte in range(masks.shape[1]):
            bits = np.uint64(masks[row, byte])
            while bits != ZERO:
                actions[at] = 8 * byte + signed(count_trailing_zeros(bits))
                at += 1
                bits &= bits - ONE


@jit
def reorder(counts: U16, actions: U16, ascending: U16, ranks: U16, out: U16) -> None:
    """Write the entries of `ascending` [sum of counts], which in each row are in ascending order of the
    actions, to `out [sum of counts]` in the order of `actions [sum of counts]`. `ranks [all actions]` is
    scratch, all 0 before and after."""
    at = 0
    for row in range(len(counts)):
        end = at + signed(counts[row])
        if is_ascending(actions[at:end]):
            copy(ascending[at:end], out[at:end])
        else:
            reorder_row(actions[at:end], ascending[at:end], ranks, out[at:end])
        at = end


@jit
def is_ascending(actions: U16) -> bool:
    """Return whether `actions [legal]` are ascending, as most games list them unless a symmetry is
    applied."""
    steps_back = 0
    for k in range(len(actions) - 1):
        # Count without a branch: most lists are ascending, so leaving the loop early would seldom help.
        steps_back += actions[k] > actions[k + 1]
    return steps_back == 0


@jit
def reorder_row(actions: U16, ascending: U16, ranks: U16, out: U16) -> None:
    """Do `reorder` for one position: `actions`, `ascending` and `out` are [legal]."""
    for action in actions:
        ranks[action] = 1
    found = 0
    for action in range(len(ranks)):
        if ranks[action] != 0:
            ranks[action] = found
            found += 1
    for k in range(len(actions)):
        out[k] = ascending[ranks[actions[k]]]
    for action in actions:
        ranks[action] = 0
