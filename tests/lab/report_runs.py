"""Run folders to report on, as the trainer leaves them, healthy or not."""

import dataclasses
import json
from pathlib import Path

import numpy as np
from games_runs import records, store_run

from bench.random_games import entry
from protocol.records import GameRecord

STEPS = 40


def figures(step: int) -> dict[str, object]:
    """Return a line of figures.jsonl."""
    return {
        "time": 1000.0 + step, "trainer/step": float(step), "trainer/games": step * 3.0,
        "trainer/policy_loss": 3.0 - step / 100, "trainer/policy_entropy": 2.0,
        "trainer/value_loss": 1.0, "trainer/samples_per_position": 2.0, "alerts": [],
        "window_outcomes/draw": 0.5, "probe_values/KQK": 0.1, "trainer/held_out_value_loss": 1.1,
    }  # fmt: skip


def whole_run(folder: Path, name: str, games: list[GameRecord]) -> Path:
    """Make a run with everything that a trainer writes except event files."""
    store_run(folder, name, [entry(record) for record in games])
    about = {"format": 5, "game": name, "history": 1, "created": "2026-01-01T00:00:00+00:00"}
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "config.toml").write_text('net = "tiny"\n[self_play.search]\nsimulations = 20\n')
    (folder / "figures.json").write_text(json.dumps({"games": len(games), "alerts": []}))
    lines = "".join(json.dumps(figures(step)) + "\n" for step in range(1, STEPS))
    (folder / "figures.jsonl").write_text(lines)
    (folder / "weights").mkdir()
    newest = max(int(record.versions.max()) for record in games)
    (folder / "weights" / "current.json").write_text(json.dumps({"version": newest}))
    return folder


def copies(record: GameRecord, count: int, version: int, **changes: object) -> list[GameRecord]:
    """Return the same game under other uids, as played by weights of this version."""
    versions = np.full(record.plies, version, np.uint32)
    one = dataclasses.replace(record, versions=versions, **changes)  # type: ignore[arg-type]
    uids = (version.to_bytes(8, "big") + at.to_bytes(8, "big") for at in range(count))
    return [dataclasses.replace(one, uid=uid) for uid in uids]


def collapsed_run(folder: Path) -> Path:
    """Make a run of chess that always ends in the same drawn game."""
    (record,) = records("chess", 1)
    games = copies(record, 40, 1, outcome=1, reason="checkmate")
    for version in (2, 3, 4):
        games += copies(record, 40, version, outcome=0, reason="threefold_repetition")
    whole_run(folder, "chess", games)
    alerts = ["draw collapse: 100%, 100%, 100% draws", "repetitions: 100% of the newest games"]
    with (folder / "figures.jsonl").open("a") as file:
        file.write(json.dumps(figures(STEPS) | {"alerts": alerts}) + "\n")
    return folder
