"""Hypothesis strategies for game records, and a fixed record for golden files."""

import numpy as np
from hypothesis import strategies as st

from protocol.records import GameRecord

unknown = st.just(float("nan"))
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)


@st.composite
def records(draw: st.DrawFn) -> GameRecord:
    """Draw a valid record of up to 12 plies; `to_bytes` must accept it."""
    plies = draw(st.integers(1, 12))
    listed = [sorted(draw(st.sets(st.integers(0, 65535), min_size=1, max_size=6))) for _ in range(plies)]
    total = sum(len(actions) for actions in listed)

    def column(elements: st.SearchStrategy[object], length: int, dtype: str) -> np.ndarray:
        return np.array(draw(st.lists(elements, min_size=length, max_size=length)), dtype=dtype)

    return GameRecord(
        uid=draw(st.binary(min_size=16, max_size=16)),
        game=draw(texts),
        start=draw(texts),
        max_plies=draw(st.integers(plies, 65535)),
        simulations=draw(st.integers(1, 65535)),
        actions=column(st.integers(0, 65535), plies, "<u2"),
        visited=np.array([len(actions) for actions in listed], dtype="<u2"),
        visit_actions=np.array([action for actions in listed for action in actions], dtype="<u2"),
        visits=column(st.integers(1, 65535), total, "<u2"),
        root_values=column(st.floats(-1, 1, width=32), plies, "<f4"),
        flags=column(st.sampled_from([0, 1, 3, 5, 8, 9, 11, 13]), plies, "u1")
        | np.uint8(draw(st.sampled_from([0, 32]))),
        versions=column(st.integers(0, 2**32 - 1), plies, "<u4"),
        outcome=draw(st.integers(-1, 1)),
        reason=draw(texts),
        seed=draw(st.integers(0, 2**63 - 1)),
        source=draw(texts),
        seconds=draw(st.floats(0, 1e9)),
        prior_kl=column(st.floats(0, 20, width=16) | unknown, plies, "<f2"),
        prior_values=column(st.floats(-1, 1, width=16) | unknown, plies, "<f2"),
        mean_depths=column(st.floats(0, 65504, width=16) | unknown, plies, "<f2"),
        max_depths=column(st.integers(0, 255), plies, "u1"),
        run=draw(st.just(b"") | st.binary(min_size=16, max_size=16)),
    )


def example_record() -> GameRecord:
    """Return three plies of tic-tac-toe with every field set; the second one was played without a network."""
    return GameRecord(
        uid=bytes(range(16)),
        game="tic_tac_toe",
        start="",
        max_plies=9,
        simulations=8,
        actions=np.array([4, 0, 8], dtype="<u2"),
        visited=np.array([2, 1, 3], dtype="<u2"),
        visit_actions=np.array([0, 4, 0, 2, 6, 8], dtype="<u2"),
        visits=np.array([3, 5, 8, 1, 2, 5], dtype="<u2"),
        root_values=np.array([0.25, -0.5, 1.0], dtype="<f4"),
        flags=np.array([9, 0, 1], dtype="u1"),
        versions=np.array([0, 1, 1], dtype="<u4"),
        outcome=-1,
        reason="line",
        seed=7,
        source="host/worker-0",
        seconds=0.5,
        prior_kl=np.array([0.5, np.nan, 0.0], dtype="<f2"),
        prior_values=np.array([-0.125, np.nan, 0.75], dtype="<f2"),
        mean_depths=np.array([2.5, np.nan, 1.0], dtype="<f2"),
        max_depths=np.array([4, 0, 1], dtype="u1"),
        run=bytes(range(16, 32)),
    )
