"""Well-formed records without any meaning, for tests of code that only keeps and sends them."""

import numpy as np

from protocol.records import POLICY_TARGET, GameRecord


def uid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def record(number: int) -> GameRecord:
    return GameRecord(
        uid=uid(number),
        game="tic_tac_toe",
        start="",
        max_plies=9,
        simulations=8,
        actions=np.array([4], np.uint16),
        visited=np.array([1], np.uint16),
        visit_actions=np.array([4], np.uint16),
        visits=np.array([8], np.uint16),
        root_values=np.array([0.5], np.float32),
        flags=np.array([POLICY_TARGET], np.uint8),
        versions=np.array([0], np.uint32),
        outcome=0,
        reason="ply_cap",
    )
