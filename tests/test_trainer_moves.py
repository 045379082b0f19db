"""The trainer's machine is lost: another takes over with one command, and no game pays for steps twice."""

import shutil
import signal
import sqlite3
from pathlib import Path

import pytest
from parts import PATIENCE, RUN, Parts, ended
from stranger import Ledger

from azselfplay.games import get_game
from azselfplay.store.reader import StoreReader
from trainer.checkpoint import Progress, check
from trainer.config import TrainerConfig
from trainer.validation import HeldOut

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]


def newest_checkpoint(run: Path) -> Progress:
    return check(max((run / "checkpoints").glob("*.state")))


def newest_step(run: Path) -> int:
    """Return the newest checkpoint's step. The server may still show that of the killed trainer."""
    return max(
        (int(path.stem.removeprefix("step-")) for path in (run / "checkpoints").glob("*.state")), default=0
    )


def learnable(run: Path, last: int) -> int:
    """Return the positions to learn from in the stored games up to number `last`, each game once."""
    game, config = get_game("tic_tac_toe"), TrainerConfig()
    held_out = HeldOut(game, config.samples.held_out, config.window.positions)
    reader = StoreReader(run / "games.db")
    old = reader.old_between(1, last)
    records = [(seq, record) for seq, record in reader.records(game, 1, last) if seq not in old]
    reader.close()
    return sum(record.targets for _, record in records if not held_out.takes(record.uid))


def test_a_trainer_on_another_machine_takes_over_from_a_backup(tmp_path: Path) -> None:
    with Parts(tmp_path, clients=0) as parts:
        ledger = Ledger(parts.port)
        ledger.start()
        old, new = parts.trainers / RUN, tmp_path / "new_machine" / RUN
        parts.wait(lambda: newest_step(old) > 0, "a checkpoint")
        parts.wait(lambda: len(ledger.acknowledged) > 5, "games of the ledger")
        backup = ended("azplay", "backup", str(old), str(tmp_path / "backup"))
        assert backup.returncode == 0, backup.stderr
        backed_up = newest_checkpoint(tmp_path / "backup")
        parts.end("trainer", signal.SIGKILL)
        shutil.rmtree(old)
        before = len(ledger.acknowledged)
        server = f"127.0.0.1:{parts.port}"
        command = ["restore", str(tmp_path / "backup"), str(new), "--train-for", server]
        parts.take_in("trainer", ["azselfplay.lab.azplay", *command])
        parts.wait(lambda: len(ledger.acknowledged) > before + 20, "games for the new trainer")
        parts.wait(lambda: newest_step(new) > backed_up.step, "a checkpoint of the new trainer")
        after = ledger.acknowledged[before + 1 :]
        assert parts.end("trainer") == 0
        ledger.finished.set()
        ledger.join(PATIENCE)
        assert ledger.error is None
    now = newest_checkpoint(new)
    assert now.step > backed_up.step > 0
    assert now.last_seq > backed_up.last_seq
    assert now.learned_from == learnable(new, now.last_seq), "each stored game is paid for once"
    with sqlite3.connect(f"file:{new}/games.db?mode=ro", uri=True) as database:
        stored = [uid for (uid,) in database.execute("SELECT uid FROM games")]
    assert len(stored) == len(set(stored))
    assert set(after) <= set(stored)
