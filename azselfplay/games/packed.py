"""How packed positions and their legal actions are turned: features after a symmetry of the board, and legal
actions as one bit for each action of the game, the form in which they are sent when there are many.
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
    """Write `packed_features` to `moved`, both uint64[feature_words], with everything moved by a symmetry.

    cells: [cells of the board] the target of each cell, with its bits and its code. planes: [bit planes of a
    position] the target of each plane. code_bits: bits of a cell's code, 0 where cells have none.
    """
    # The maps are those of one position and serve the whole history. Bits that are 0 are written as well, so
    # that no branch depends on the data.
    words_a_plane = (len(cells) + 63) // 64
    bit_words = history * len(planes) * words_a_plane
    a_word = 64 // max(code_bits, 1)
    code_words = (len(cells) + a_word - 1) // a_word if code_bits > 0 else 0
    # What follows are scalars, which no symmetry changes: those are copied.
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
        """`mask_bytes`: size of one position's mask (`Game.mask_bytes`)."""
        self._bytes = mask_bytes
        self._ranks = np.zeros(8 * mask_bytes, np.uint16)

    def masks(self, counts: U16, actions: U16) -> U8:
        """uint8[rows, mask_bytes] the masks of lists with `counts [rows]` actions each, `actions [sum of
        counts]`."""
        found = np.zeros((len(counts), self._bytes), np.uint8)
        write_masks(counts, actions, found)
        return found

    def lists(self, counts: U16, masks: U8) -> U16:
        """uint16[sum of counts] the actions of `masks [rows, mask_bytes]`, ascending; each row has `counts
        [rows]` actions."""
        found = np.empty(int(counts.sum(dtype=np.int64)), np.uint16)
        read_masks(masks, found)
        return found

    def as_listed(
        self, counts: U16, actions: U16, priors: npt.NDArray[np.float16]
    ) -> npt.NDArray[np.float16]:
        """float16[sum of counts] `priors [sum of counts]` for masks, reordered to lists with `counts [rows]`
        actions each, `actions [sum of counts]`."""
        # As uint16 for the kernel: only places change, and Numba has no float16 on a CPU.
        found = np.empty(len(priors), np.float16)
        reorder(counts, actions, priors.view(np.uint16), self._ranks, found.view(np.uint16))
        return found


@jit
def write_masks(counts: U16, actions: U16, masks: U8) -> None:
    """Set the bits of `actions [sum of counts]` in `masks [rows, mask_bytes]`, which must be 0."""
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
    """Write to `out [sum of counts]`, for each of `actions [sum of counts]`, its entry of `ascending` [sum of
    counts], whose rows are in the order of the actions' numbers. `ranks [all actions]` is scratch, 0 before
    and after."""
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
    """Whether `actions [legal]` are ascending, as most games list them unless a symmetry is applied."""
    steps_back = 0
    for k in range(len(actions) - 1):
        # Counted without a branch: the usual list is ascending to its end anyway.
        steps_back += actions[k] > actions[k + 1]
    return steps_back == 0


@jit
def reorder_row(actions: U16, ascending: U16, ranks: U16, out: U16) -> None:
    """`reorder` of one position: `actions`, `ascending` and `out` [legal]."""
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
