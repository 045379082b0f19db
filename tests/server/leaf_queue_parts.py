"""Requests, queues and readable instructions for tests of the leaf queue."""

from __future__ import annotations

import numpy as np

from protocol.frames import LeafFrames
from server.leaf_queue import LeafQueue
from server.pieces import SendBatch, gather


def leaves(rows: int, tag: int = 0) -> list[memoryview]:
    """Return `rows` leaves that can be told apart: row i has i % 3 + 1 actions and the feature 1000 tag +
    i."""
    counts = np.arange(rows, dtype=np.uint16) % 3 + 1
    features = (np.arange(rows, dtype=np.uint64) + np.uint64(1000 * tag)).reshape(rows, 1)
    actions = np.repeat(features[:, 0], counts).astype(np.uint16)
    return [memoryview(frame.tobytes()) for frame in (features, counts, actions)]


def joined(batch: SendBatch) -> LeafFrames:
    """Return what the device is sent."""
    features, counts, actions = gather(batch.pieces)
    words = np.frombuffer(features, np.uint64).reshape(-1, 1)
    return LeafFrames(words, np.frombuffer(counts, np.uint16), np.frombuffer(actions, np.uint16))


def plan(instructions: list) -> list:
    """Return instructions with their pieces written out, so that they can be compared."""
    return [
        (i.evaluator, i.batch, [(p.of.session, p.of.request, p.first, p.rows) for p in i.pieces])
        if isinstance(i, SendBatch)
        else i
        for i in instructions
    ]


def ready_queue(target_rows: int = 256, pipeline: int = 2) -> LeafQueue:
    queue = LeafQueue()
    assert queue.evaluator_ready("gpu", target_rows, pipeline, 0.0) == []
    return queue


def marked(rows: int, *wrong: int) -> np.ndarray:
    """Return [rows], True at `wrong`."""
    return np.isin(np.arange(rows), wrong)
