"""Array frames are accepted only if every length and number fits the message."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.frames import PROBABILITY_LIMIT, EvaluationFrames, check_evaluations, check_leaves, wrong_rows
from protocol.messages import MAX_ROWS, BadMessage

WORDS, ACTIONS, MAX_LEGAL = 3, 10, 4


def leaf_frames(counts: list[int], actions: list[int]) -> list[bytes]:
    features = np.arange(len(counts) * WORDS, dtype="<u8")
    return [
        features.tobytes(),
        np.array(counts, dtype="<u2").tobytes(),
        np.array(actions, dtype="<u2").tobytes(),
    ]


def evaluation_frames(priors: list[float], wdl: list[float]) -> list[bytes]:
    return [np.array(priors, dtype="<f2").tobytes(), np.array(wdl, dtype="<f4").tobytes()]


@given(
    st.lists(st.lists(st.integers(0, ACTIONS - 1), min_size=1, max_size=MAX_LEGAL), min_size=1, max_size=9)
)
def test_good_leaves_come_through_unchanged(rows: list[list[int]]) -> None:
    counts, actions = [len(row) for row in rows], [action for row in rows for action in row]
    leaves = check_leaves(len(rows), WORDS, ACTIONS, leaf_frames(counts, actions), max_legal=MAX_LEGAL)
    assert leaves.counts.tolist() == counts
    assert leaves.actions.tolist() == actions
    assert leaves.features.ravel().tolist() == list(range(len(rows) * WORDS))


def mask_frames(counts: list[int], masks: list[list[int]]) -> list[bytes]:
    """Return frames with masks of ten actions: two bytes a row."""
    return [*leaf_frames(counts, [])[:2], np.array(masks, "u1").tobytes()]


@pytest.mark.parametrize(
    ("rows", "frames", "reason", "mask_bytes"),
    [
        (0, leaf_frames([], []), "0 rows", 0),
        (MAX_ROWS + 1, leaf_frames([1], [0]), "4097 rows", 0),
        (1, leaf_frames([1], [0])[:2], "2 frames after the header, expected 3", 0),
        (2, leaf_frames([1], [0]), "features has 24 bytes, expected 48", 0),
        (1, [leaf_frames([1], [0])[0], b"\1\0\1\0", b"\0\0"], "counts has 4 bytes, expected 2", 0),
        (1, leaf_frames([0], []), "0 legal actions, expected 1 to 4", 0),
        (1, leaf_frames([5], [0, 1, 2, 3, 4]), "5 legal actions, expected 1 to 4", 0),
        (2, leaf_frames([1, 2], [0, 1]), "actions has 4 bytes, expected 6", 0),
        (2, leaf_frames([1, 1], [0, 10]), "action 10 is not below 10", 0),
        (2, mask_frames([1, 1], [[1, 0], [3, 0]]), "row 1: its mask has 2 legal actions, its count is 1", 2),
        (2, mask_frames([1, 1], [[1, 0], [0, 0]]), "row 1: its mask has 0 legal actions, its count is 1", 2),
        (2, mask_frames([1, 1], [[1, 0], [0, 4]]), "row 1: its mask has an action that is not below 10", 2),
        (2, mask_frames([1, 0], [[1, 0], [0, 0]]), "0 legal actions, expected 1 to 4", 2),
        (2, mask_frames([1, 1], [[1, 0]]), "actions has 2 bytes, expected 4", 2),
    ],
)
def test_bad_leaves_are_refused_with_the_reason(
    rows: int, frames: list[bytes], reason: str, mask_bytes: int
) -> None:
    with pytest.raises(BadMessage, match=reason):
        check_leaves(rows, WORDS, ACTIONS, frames, max_legal=MAX_LEGAL, mask_bytes=mask_bytes)


def test_masks_of_legal_actions_come_through_unchanged() -> None:
    masks = [[0b1000_0001, 0b10], [0, 0b01]]
    frames = mask_frames([3, 1], masks)
    leaves = check_leaves(2, WORDS, ACTIONS, frames, max_legal=MAX_LEGAL, mask_bytes=2)
    assert leaves.actions.tolist() == masks


def with_scalar(word: int) -> list[bytes]:
    """Return two leaves with the scalars 0 and 1, except for one word of row 1."""
    features = np.array([[7, 0, 0x3F800000], [2**64 - 1, 0x3F800000, word]], "<u8")
    return [features.tobytes(), *leaf_frames([1, 1], [0, 1])[1:]]


@given(st.floats(0, 1, width=32))
def test_scalars_between_0_and_1_come_through_unchanged(value: float) -> None:
    """The words before them may hold any bits."""
    word = int(np.float32(abs(value)).view(np.uint32))
    leaves = check_leaves(2, WORDS, ACTIONS, with_scalar(word), max_legal=ACTIONS, scalars=2)
    assert leaves.features[1].tolist() == [2**64 - 1, 0x3F800000, word]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (0x7FC00000, "nan"),
        (0xFFC00000, "nan"),
        (0x7F800000, "inf"),
        (0xFF800000, "-inf"),
        (0x3F800001, "1.0000001"),
        (0x7F7FFFFF, "3.4028"),
        (0xBF000000, "-0.5"),
        (0x80000000, "-0.0"),
        (1 << 32, "0x0000000100000000"),
    ],
)
def test_a_scalar_that_is_not_between_0_and_1_is_refused_with_its_row_and_value(
    word: int, value: str
) -> None:
    """A network would turn such numbers into NaN."""
    with pytest.raises(BadMessage, match=f"row 1: word 2 of its features is {value}"):
        check_leaves(2, WORDS, ACTIONS, with_scalar(word), max_legal=ACTIONS, scalars=2)
    assert check_leaves(2, WORDS, ACTIONS, with_scalar(word), max_legal=ACTIONS).features[1, 2] == word


ODD_NUMBERS = st.sampled_from([0.0, 0.25, 1.0, PROBABILITY_LIMIT, 1.5, -0.5, -0.0, np.nan, np.inf, -np.inf])


@given(
    st.lists(
        st.tuples(
            st.lists(ODD_NUMBERS, min_size=1, max_size=3), st.tuples(ODD_NUMBERS, ODD_NUMBERS, ODD_NUMBERS)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_wrong_rows_are_those_that_a_check_of_each_alone_refuses(
    rows: list[tuple[list[float], tuple[float, float, float]]],
) -> None:
    """The slow twin checks one row at a time."""
    twin = []
    for priors, wdl in rows:
        try:
            check_evaluations(1, len(priors), evaluation_frames(priors, list(wdl)))
            twin.append(False)
        except BadMessage:
            twin.append(True)
    counts = np.array([len(priors) for priors, _ in rows], np.uint16)
    of_all = np.array([p for priors, _ in rows for p in priors], np.float16)
    wrong = wrong_rows(EvaluationFrames(of_all, np.array([wdl for _, wdl in rows], np.float32)), counts)
    assert (wrong is None and not any(twin)) or (wrong is not None and wrong.tolist() == twin)


@given(st.integers(0, 5), st.lists(st.binary(max_size=60), max_size=4))
def test_arbitrary_frames_raise_nothing_but_bad_message(rows: int, frames: list[bytes]) -> None:
    with suppress(BadMessage):
        assert check_leaves(rows, WORDS, ACTIONS, frames, max_legal=ACTIONS).features.shape == (rows, WORDS)
    with suppress(BadMessage):
        assert check_leaves(rows, WORDS, ACTIONS, frames, max_legal=ACTIONS, mask_bytes=2).actions.shape == (
            rows,
            2,
        )
    with suppress(BadMessage):
        assert check_evaluations(rows, 5, frames[:2]).wdl.shape == (rows, 3)


def test_views_are_not_copies() -> None:
    frames = [bytearray(frame) for frame in leaf_frames([1], [3])]
    leaves = check_leaves(1, WORDS, ACTIONS, frames, max_legal=ACTIONS)
    frames[0][0] = 77
    assert leaves.features[0, 0] == 77


def test_a_frame_that_is_not_aligned_is_copied() -> None:
    """Jitted code gets aligned arrays, whatever ZeroMQ returns."""
    features, counts, actions = leaf_frames([1], [3])
    leaves = check_leaves(
        1, WORDS, ACTIONS, [memoryview(b"x" + features)[1:], counts, actions], max_legal=ACTIONS
    )
    assert leaves.features.flags.aligned
    assert leaves.features.tolist() == [[0, 1, 2]]


def test_good_evaluations_come_through_unchanged() -> None:
    answer = check_evaluations(2, 3, evaluation_frames([1.0, 0.25, 0.75], [1, 0, 0, 0.5, 0.25, 0.25]))
    assert answer.priors.tolist() == [1.0, 0.25, 0.75]
    assert answer.wdl.tolist() == [[1, 0, 0], [0.5, 0.25, 0.25]]


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (evaluation_frames([0.5, np.nan], [1, 0, 0]), "prior nan"),
        (evaluation_frames([0.5, np.inf], [1, 0, 0]), "prior inf"),
        (evaluation_frames([0.5, -0.5], [1, 0, 0]), "prior -0.5"),
        (evaluation_frames([0.5, 1.5], [1, 0, 0]), "prior 1.5"),
        (evaluation_frames([0.5, 0.5], [np.nan, 0, 0]), "wdl nan"),
        (evaluation_frames([0.5, 0.5], [0, -np.inf, 0]), "wdl -inf"),
        (evaluation_frames([0.5], [1, 0, 0]), "priors has 2 bytes, expected 4"),
        (evaluation_frames([0.5, 0.5], [1, 0]), "wdl has 8 bytes, expected 12"),
        (evaluation_frames([0.5, 0.5], [1, 0, 0])[:1], "1 frames after the header, expected 2"),
    ],
)
def test_bad_evaluations_are_refused_with_the_reason(frames: list[bytes], reason: str) -> None:
    with pytest.raises(BadMessage, match=reason):
        check_evaluations(1, 2, frames)
