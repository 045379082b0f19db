"""Run folders with a games.db of random games, as the trainer writes it."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from azselfplay.games import get_game
from azselfplay.lab.report.games_command import main
from azselfplay.store.sqlite import Entry, Store
from bench.random_games import random_game
from protocol.records import GameRecord


def records(name: str, count: int, *, start: str = "", versions: tuple[int, ...] = (0,)) -> list[GameRecord]:
    """Return random games; game `i` is of version `versions[i % len]`."""
    game, found = get_game(name), []
    for seed in range(count):
        record = random_game(game, np.random.default_rng(seed), simulations=20, start=start)
        version = np.full(record.plies, versions[seed % len(versions)], np.uint32)
        found.append(dataclasses.replace(record, versions=version))
    return found


def azplay_games(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Run `azplay games` in this process; return its exit status."""
    monkeypatch.setattr(sys, "argv", ["azplay games", *map(str, arguments)])
    return main()


def store_run(folder: Path, name: str, entries: Sequence[Entry]) -> Path:
    """Make a run folder that holds the entries; return its path."""
    folder.mkdir(parents=True)
    store = Store(folder / "games.db", name)
    assert set(store.commit(entries)) <= {"stored"}
    store.close()
    return folder
