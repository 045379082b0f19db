"""Trains a recipe: runs `azrun` with its settings for its time, and saves networks along the way.

The run is an ordinary azrun process. This process only looks at it once a second: it copies the newest
weights when a snapshot is due, and interrupts the run when the run has enough games or has used its processor
time, two limits that azrun does not know. The recipe and the machine are stored with the run, so that it can
be judged later.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from azselfplay.games.spec import Game
from azselfplay.host.config import to_toml
from azselfplay.host.exits import Exit, Fatal, as_fatal
from azselfplay.host.hardware import seconds_of_trees, usable_cores
from azselfplay.host.processes import ending_with_parent, python_module
from azselfplay.host.runs import RunFolder, is_locked, newest_row, write_atomically
from azselfplay.lab.experiments.recipe import Recipe
from azselfplay.link.finding import newest_weights
from azselfplay.play.nets import settings_for_search, settings_of_run
from protocol.settings import SelfPlaySettings

POLL_SECONDS = 1.0
"""Seconds between two looks at the run."""

END_SECONDS = 120.0
"""Seconds that azrun has to end."""


@dataclass(frozen=True)
class Snapshot:
    """A network during training."""

    minute: float
    """Minutes since the start of the run, by the recipe's clock, rounded to a hundredth; different for each
    snapshot."""
    games: int
    """Number of games that the trainer had."""
    step: int
    file: str
    """Name in the folder of snapshots."""


@dataclass(frozen=True)
class Trained:
    """A finished run."""

    folder: RunFolder
    snapshots: list[Snapshot]
    """In order: the first is the untrained network, the last the final one."""
    summary: dict[str, Any]
    """azrun's last line."""
    minutes: float
    """Wall-clock minutes, including start and stop."""
    core_minutes: float
    """Processor time of all processes of the run, in minutes."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """`recipe` (its settings), `asked_minutes`, and `machine` (`describe_machine`), as they were before
    training; empty for an old run that did not store them."""

    def path(self, snapshot: Snapshot) -> Path:
        return snapshots_folder(self.folder) / snapshot.file

    def search(self, recipe: Recipe, game: Game) -> SelfPlaySettings:
        """Return the search of this run's networks when they are judged."""
        text = recipe.judge_search
        return settings_for_search(text, game) if text else settings_of_run(self.folder.weights / "any")

    def to_json(self) -> dict[str, Any]:
        """Return all fields except the folder."""
        listed = [asdict(snapshot) for snapshot in self.snapshots]
        rest = {"summary": self.summary, "minutes": self.minutes, "core_minutes": self.core_minutes}
        return {**self.provenance, "snapshots": listed, **rest}


def snapshots_folder(folder: RunFolder) -> Path:
    return folder.path / "snapshots"


def command_of(recipe: Recipe, seed: int, minutes: float, runs: Path, run: str, settings: Path) -> list[str]:
    """Write settings files into the folder `settings`. Returns azrun's command line. A learning rate that
    falls over the recipe's minutes falls over `minutes`."""
    server, trainer = recipe.parts
    # Scale the minutes, so that a shorter run also ends with the low rate.
    if falls := trainer.get("optimizer", {}).get("cosine_minutes"):
        over = falls * minutes / recipe.minutes
        trainer["optimizer"] = {**trainer["optimizer"], "cosine_minutes": over}
    by_azrun = minutes if recipe.clock == "wall" else 0.0
    server |= {"seed": seed, "self_play": {**server["self_play"], "seed": seed}}
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "server.toml").write_text(to_toml(server))
    (settings / "trainer.toml").write_text(to_toml({**trainer, "seed": seed}))
    return python_module(
        "azselfplay.lab.azrun",
        *("--game", recipe.game, "--recipe", "none", "--minutes", str(by_azrun)),
        *("--run", run, "--runs", str(runs), "--workers", str(recipe.workers), "--client-workers", "0"),
        *("--server-config", str(settings / "server.toml")),
        *("--trainer-config", str(settings / "trainer.toml")),
    )


def train(
    recipe: Recipe,
    seed: int,
    runs: Path,
    minutes: float,
    *,
    run: str = "",
    tell: Callable[[str], None] = print,
) -> Trained:
    """Train in `runs` for `minutes` of the recipe's clock. Raises Fatal if the run exists already or ends
    without a network."""
    folder = RunFolder(runs, run or f"{recipe.name}-seed{seed}")
    if folder.path.exists():
        raise Fatal(
            f"{folder.path} exists, but this run makes its own folder: remove or move that one", Exit.CONFIG
        )
    provenance = {"recipe": recipe.of_a_run, "asked_minutes": minutes, "machine": describe_machine()}
    command = command_of(recipe, seed, minutes, runs, folder.name, folder.path / "recipe")
    tell(" ".join(command))
    # This counts processes that have ended, so not yet those of this run.
    began, used = time.monotonic(), _children_seconds()
    with (folder.path / "azrun.txt").open("wb") as output:
        # In a session of its own, so that all its processes can be killed together.
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=output,
            env=os.environ,
            start_new_session=True,
            # If this process is killed, nobody else would ever end a run without minutes of its own.
            preexec_fn=ending_with_parent(signal.SIGTERM),
        )
        try:
            snapshots = _watch(process, recipe, folder, minutes)
            last_line, _ = process.communicate(timeout=END_SECONDS)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)  # azrun with all its processes
    if process.returncode != 0:
        raise Fatal(
            f"azrun ended with status {process.returncode}; see {folder.path}/azrun.txt", Exit.INTERNAL
        )
    took, core_minutes = (time.monotonic() - began) / 60, (_children_seconds() - used) / 60
    end = took if recipe.clock == "wall" else core_minutes
    snapshots.append(_snapshot(folder, minute_after(snapshots, end)))
    summary = json.loads(last_line.splitlines()[-1])
    trained = Trained(folder, snapshots, summary, took, core_minutes, provenance)
    write_atomically(_about(folder), json.dumps(trained.to_json(), indent=1).encode())
    return trained


def remove_unfinished(folder: RunFolder) -> None:
    """Remove the remains of a run whose `train` was interrupted. Raises Fatal(CONFIG) if the run is still
    active."""
    if not folder.path.exists() or _about(folder).exists():
        return
    if any(is_locked(folder.lock_of(program)) for program in ("azserver", "trainer")):
        raise Fatal(f"{folder.path} is being trained at this moment: end that run first", Exit.CONFIG)
    shutil.rmtree(folder.path)


def trained_before(folder: RunFolder, recipe: Recipe, minutes: float) -> Trained | None:
    """Return the finished run in `folder` if it was trained with these settings in this number of minutes,
    else None. It may have been made to be judged in another way."""
    if not _about(folder).exists():
        return None
    found = read_trained(folder)
    # Convert as JSON does: tuples become lists.
    asked = json.loads(json.dumps(recipe.of_training))
    stored = found.provenance.get("recipe", {})
    same = {name: stored.get(name) for name in asked} == asked
    return found if same and found.provenance.get("asked_minutes") == minutes else None


def read_trained(folder: RunFolder) -> Trained:
    """Return a run that `train` made earlier. Raises Fatal(BAD_DATA) if there is none, or it was not
    finished."""
    if not folder.path.is_dir():
        raise Fatal(
            f"there is no run {folder.path}: train it first, without --judge-only, or say with --runs which "
            "folder holds it",
            Exit.BAD_DATA,
        )
    what = f"{folder.path} holds no finished run ({_about(folder).name}: "
    to_do = "); train it first, without --judge-only"
    with as_fatal((OSError, ValueError, KeyError, TypeError), Exit.BAD_DATA, what, to_do):
        about = json.loads(_about(folder).read_bytes())
        snapshots = [Snapshot(**one) for one in about.pop("snapshots")]
        provenance = {
            name: about.pop(name) for name in ("recipe", "machine", "asked_minutes") if name in about
        }
        return Trained(folder, snapshots, **about, provenance=provenance)


def _about(folder: RunFolder) -> Path:
    return snapshots_folder(folder) / "trained.json"


def _watch(
    process: subprocess.Popen[bytes], recipe: Recipe, folder: RunFolder, minutes: float
) -> list[Snapshot]:
    """Take snapshots until the run ends. Interrupt the run when it has enough games, or when its processor
    time is used up, which azrun does not know. Raises Fatal(INTERNAL) if the run does not end."""
    snapshots: list[Snapshot] = []
    began, asked, over = time.monotonic(), False, math.inf
    while process.poll() is None:
        now = time.monotonic()
        # Measure by the recipe's clock: wall-clock time, or processor time of azrun and all its descendants.
        minute = (now - began if recipe.clock == "wall" else seconds_of_trees([process.pid])) / 60
        if now > over:
            raise Fatal(f"azrun does not end; see {folder.path}/azrun.txt", Exit.INTERNAL)
        due = recipe.snapshot_minutes * len(snapshots)
        # The last snapshot is taken after the end, when all weights are written.
        if due <= minute < minutes and (folder.weights / "current.json").exists():
            snapshots.append(_snapshot(folder, minute_after(snapshots, minute)))
        has_games = bool(recipe.most_games) and _progress(folder)[0] >= recipe.most_games
        if minute >= minutes or has_games:
            # The deadline counts from the first such look; later looks must not extend it.
            over = min(over, now + END_SECONDS)
            # azrun knows wall-clock minutes, and ends by itself.
            if not asked and (has_games or recipe.clock == "cores"):
                process.send_signal(signal.SIGINT)
                asked = True
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_SECONDS)
    return snapshots


def minute_after(snapshots: Sequence[Snapshot], minute: float) -> float:
    """Return `minute` rounded to a hundredth, but later than all `snapshots`, because it names their
    files."""
    rounded = round(minute, 2)
    return max(rounded, round(snapshots[-1].minute + 0.01, 2)) if snapshots else rounded


def _snapshot(folder: RunFolder, minute: float) -> Snapshot:
    target = snapshots_folder(folder)
    target.mkdir(exist_ok=True)
    games, step = _progress(folder)
    snapshot = Snapshot(minute, games, step, f"{minute:06.2f}.safetensors")
    shutil.copyfile(newest_weights(folder), target / snapshot.file)
    return snapshot


def _progress(folder: RunFolder) -> tuple[int, int]:
    """Return (games, step) as the trainer last wrote them."""
    row = newest_row(folder)
    return int(row.get("trainer/games", 0)), int(row.get("trainer/step", 0))


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ---- The machine that a recipe was run on, so that wall-clock times can be compared --------------


def describe_machine() -> dict[str, str | int | float]:
    """Return processor, cores, memory (GB), versions, date, commit, and the load average, which shows whether
    anything else was running. The commit has a "+" if files of the working tree have changed since; it is
    empty without git."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    commit = ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        # Ignore results/, where files are written while one seed runs after the other.
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
        commit = _git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    return {
        "processor": processor,
        "cores": usable_cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none",
        "load_before": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit,
    }


def _git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
