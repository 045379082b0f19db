"""Legal actions become masks and lists again; an answer has the order of its question."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.games.packed import LegalMasks

ACTIONS, MASK_BYTES = 26, 4
LISTS = st.lists(st.lists(st.integers(0, ACTIONS - 1), min_size=1, unique=True), min_size=1, max_size=6)


@given(LISTS)
def test_masks_say_which_actions_are_legal_and_priors_come_back_to_their_actions(
    lists: list[list[int]],
) -> None:
    """The twin is slow: it sets and reads one bit after the other."""
    legal_masks = LegalMasks(MASK_BYTES)
    counts = np.array([len(row) for row in lists], np.uint16)
    actions = np.array([action for row in lists for action in row], np.uint16)
    masks = legal_masks.masks(counts, actions)
    twin = [[sum(1 << one % 8 for one in row if one // 8 == byte) for byte in range(4)] for row in lists]
    assert masks.tolist() == twin
    ascending = legal_masks.lists(counts, masks)
    assert ascending.tolist() == [action for row in lists for action in sorted(row)]
    priors = ascending.astype(np.float16)  # each action's prior is its number
    for _ in range(2):  # the second time, nothing is left over from the first
        assert legal_masks.as_listed(counts, actions, priors).tolist() == actions.tolist()
