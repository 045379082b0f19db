"""The whole loop runs on a file system of its own that fills up. It says so and waits, no process ends by
itself, and it continues when there is space."""

import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from azrun_process import PATIENCE, Azrun
from process_marks import marked, wait_for
from small_disk import SmallDisk, small_disk
from stranger import Ledger

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]


class Player(Ledger):
    """A player that also counts the games that were sent back because the disk was full."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.disk_full = 0

    def hear(self, ack: dict[str, Any], uid: bytes) -> None:
        super().hear(ack, uid)
        self.disk_full += "stores no games" in ack.get("reason", "")


def on_disk(folder: Path, disk: SmallDisk, said: Path) -> Azrun:
    """Start azrun with its run on the small disk, and as many processes on any number of cores."""
    more = "publishing.checkpoint_seconds = 1.0\n"
    return Azrun(folder, "--workers", "1", runs=disk.path, said=said, trainer=more)


def processes(run: Azrun) -> dict[int, str]:
    """Return the processes that azrun runs at the moment with their commands, except short-lived ones."""
    parts = ("server.main", "-m trainer", "client.main", "server.evaluator", "client.worker")
    found = marked(run.environment)
    kept = (pid for pid, line in found.items() if any(one in line for one in parts))
    return {pid: found[pid] for pid in kept if "--warm" not in found[pid]}


def test_a_full_disk_stops_nothing_for_good_and_loses_no_acknowledged_game(tmp_path: Path) -> None:
    """Games are sent back while the disk is full. When there is space again, the same processes store games,
    train and publish; all acknowledged games are in the store."""
    with small_disk(tmp_path / "disk", megabytes=48) as disk:
        run = on_disk(tmp_path, disk, disk.path / "azrun.out")  # its own output goes to that disk, too
        player = Player(run.port)
        try:
            player.start()
            run.wait(lambda: run.trained("weights_version") >= 3, "training, and three published versions")
            run.wait(lambda: len(player.acknowledged) > 5, "acknowledged games")
            run.wait(lambda: len(processes(run)) == 6, "the client's worker")
            before = processes(run)
            filled = run.figures()["uptime_s"]
            disk.fill()

            def is_refused() -> bool:
                disk.fill()  # space that is freed meanwhile is filled again
                return player.disk_full >= 3 and run.figures()["uptime_s"] > filled + 15

            run.wait(is_refused, "games that are sent back, for 15 s")
            assert processes(run) == before
            stored, step = run.trained("games"), run.trained("step")
            version = run.figures()["weights_version"]
            disk.free()
            handed_in = len(player.acknowledged)
            run.wait(lambda: run.trained("games") > stored + 50, "further games")
            run.wait(lambda: len(player.acknowledged) > handed_in, "further acknowledgements")
            run.wait(lambda: run.trained("step") > step, "further training")
            run.wait(lambda: run.figures()["weights_version"] > version, "further weights")
            assert processes(run) == before, f"some were started again\n{run.logs()}"
            player.finished.set()
            player.join(PATIENCE)
            assert player.error is None
            run.process.send_signal(signal.SIGINT)
            run.process.communicate(timeout=PATIENCE)
            assert run.process.returncode == 0
            database = sqlite3.connect(f"file:{run.run}/games.db?mode=ro", uri=True)
            uids = [uid for (uid,) in database.execute("SELECT uid FROM games")]
            database.close()
            assert len(uids) == len(set(uids))
            assert set(player.acknowledged) <= set(uids)
        finally:
            player.finished.set()
            run.process.kill()
            run.process.wait()
            wait_for(lambda: not marked(run.environment), lambda: "the end of all")
