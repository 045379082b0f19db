"""The figures of searches and of variety agree with plain loops."""

import dataclasses
import math

import numpy as np
import pytest

from azselfplay.diagnostics.stretches import RootSums, Variety
from azselfplay.games import get_game
from bench.random_games import random_game
from protocol.records import SEARCH_DIFFERS, GameRecord

GAME = get_game("connect_four")


def told(seed: int) -> GameRecord:
    """Return a random game in which every third ply has no figures of the network."""
    rng = np.random.default_rng(seed)
    record = random_game(GAME, rng, simulations=30, targets=0.7)
    known = np.arange(record.plies) % 3 != 0
    differs = (rng.random(record.plies) < 0.5) & known
    return dataclasses.replace(
        record,
        flags=record.flags | np.where(differs, SEARCH_DIFFERS, 0).astype(np.uint8),
        prior_kl=np.where(known, rng.random(record.plies), np.nan).astype(np.float16),
        prior_values=np.where(known, rng.uniform(-1, 1, record.plies), np.nan).astype(np.float16),
        mean_depths=np.where(known, rng.uniform(1, 9, record.plies), np.nan).astype(np.float16),
        max_depths=np.where(known, rng.integers(9, 20, record.plies), 0).astype(np.uint8),
    )


def test_sums_are_those_of_plain_loops() -> None:
    """They are taken over policy targets; an unknown figure is left out of its own mean only."""
    records, found = [told(seed) for seed in range(4)], RootSums()
    rows: dict[str, list[float]] = {name: [] for name in found.means()}
    for record in records:
        found.add(record)
        at = 0
        for ply, visited in enumerate(record.visited.tolist()):
            visits = record.visits[at : at + visited].tolist()
            at += visited
            if not record.flags[ply] & 1:
                continue
            shares = [count / sum(visits) for count in visits]
            rows["entropy"].append(-sum(share * math.log(share) for share in shares))
            rows["top_share"].append(max(shares))
            rows["moves"].append(visited)
            if ply % 3 != 0:
                rows["kl"].append(float(record.prior_kl[ply]))
                rows["differs"].append(float(record.flags[ply] & SEARCH_DIFFERS != 0))
                before, after = float(record.prior_values[ply]), float(record.root_values[ply])
                rows["value_shift"].append(abs(after - before))
                rows["mean_depth"].append(float(record.mean_depths[ply]))
                rows["max_depth"].append(float(record.max_depths[ply]))
    deepest = max(rows.pop("max_depth"))
    expected = {name: sum(values) / len(values) for name, values in rows.items()}
    assert found.means() == pytest.approx({**expected, "max_depth": deepest})


def test_what_nobody_told_is_not_known() -> None:
    """A client need not tell more than its visits."""
    record = random_game(GAME, np.random.default_rng(1), simulations=30)
    empty = np.zeros(0, np.float16)
    found = RootSums()
    found.add(dataclasses.replace(record, prior_kl=empty, prior_values=empty))
    means = found.means()
    assert [name for name, mean in means.items() if mean is None] == [
        "kl", "differs", "value_shift", "mean_depth", "max_depth",
    ]  # fmt: skip
    assert set(RootSums().means().values()) == {None}


def test_lengths_and_openings_are_counted() -> None:
    """A game shorter than an opening counts as a whole; a game from another start has another opening."""
    record = random_game(GAME, np.random.default_rng(1), simulations=30)
    record = dataclasses.replace(record, actions=np.arange(12, dtype=np.uint16))
    other = dataclasses.replace(record, actions=np.append(record.actions[:-1], record.actions[-1] + 1))
    found = Variety()
    assert (found.percentile(50), found.unique(10)) == (0, 0.0)
    for one in (record, record, other, dataclasses.replace(record, start="another")):
        found.add(one)
    assert (found.unique(10), found.unique(20)) == (2 / 4, 3 / 4)
    for plies in (3, 9, 12, 7, 8):
        found.lengths[plies] += 1
    lengths = sorted(found.lengths.elements())
    for percent in (1, 10, 50, 90, 100):
        assert found.percentile(percent) == lengths[math.ceil(percent * len(lengths) / 100) - 1]
