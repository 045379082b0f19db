"""A trainer goes on while its archive is away, and on an empty disk as if nothing had happened."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import msgspec
import pytest
from in_process import ends
from test_beginnings import close, opened, refused, welcome_at
from test_committer import game, job
from test_service import beside_trainer

from azselfplay.host.aio import first_cause
from azselfplay.host.exits import Exit, Fatal
from azselfplay.store import archive
from azselfplay.store.players import set_quarantine
from protocol.messages import Welcome
from trainer import checkpoint
from trainer.__main__ import _main, load
from trainer.run_setup import Run


def of_run(run_id: bytes, step: int = 0) -> Welcome:
    return msgspec.structs.replace(welcome_at(step), run_id=run_id * 16)


def ten_games(run: Run, first: int, key: str = "") -> None:
    jobs = [dataclasses.replace(job(game(seed)), key=key) for seed in range(first, first + 10)]
    run.committer.process(jobs, 0)


def five_steps(run: Run) -> bytes:
    """Return the network after five steps on all games that are stored."""
    run.training.apply_quarantine(run.reader)
    run.training.fill(run.reader, run.store.last_seq)
    for _ in range(5):
        run.training.make_step()
    return run.training.export_weights(0)[2]


@pytest.mark.parametrize("lost", ["disk", "checkpoints", "newest games"])
def test_without_its_disk_or_checkpoints_training_makes_the_same_steps(tmp_path: Path, lost: str) -> None:
    """This holds although the server plays with trained weights, a player is in quarantine, and games came
    after the checkpoint."""
    (tmp_path / "archive").mkdir()
    settings = {"archive": str(tmp_path / "archive"), "held_out": 0.1, "ema": 0.9}
    first = opened(tmp_path / "a", of_run(b"r"), **settings)
    ten_games(first, 0)
    backup = tmp_path / "backup.db"
    apsw.Connection(str(first.folder.games)).execute("VACUUM INTO ?", (str(backup),))
    ten_games(first, 10, "cheat")
    set_quarantine(first.folder.games, "keys/cheat", quarantined=True)
    five_steps(first)
    first.training.save()
    assert first.archive is not None
    checkpoint.upload(first.archive, first.folder.checkpoints)
    ten_games(first, 20)
    expected, samples = five_steps(first), first.training.budget.samples
    close(first)
    if lost == "disk":
        shutil.rmtree(tmp_path / "a")
    elif lost == "newest games":
        backup.replace(first.folder.games)
    else:
        for state in first.folder.checkpoints.glob("*.state"):
            state.write_bytes(b"torn")
    resumed = opened(tmp_path / "a", of_run(b"r", step=600), **settings)
    assert resumed.training.step == 5
    assert five_steps(resumed) == expected
    assert resumed.training.budget.samples == samples
    assert resumed.reader.quarantined() == {"keys/cheat"}
    close(resumed)


def test_a_trainer_goes_on_from_what_its_successor_archived(tmp_path: Path) -> None:
    """Its own last checkpoint, of a later step, was never archived, and knows fewer games."""
    (tmp_path / "archive").mkdir()
    settings = {"archive": str(tmp_path / "archive")}
    first = opened(tmp_path / "a", of_run(b"r"), **settings)
    ten_games(first, 0)
    for _ in range(2):
        five_steps(first)
    first.training.save()
    close(first)
    second = opened(tmp_path / "b", of_run(b"r"), **settings)
    ten_games(second, 10)
    five_steps(second)
    second.training.save()
    assert second.archive is not None
    checkpoint.upload(second.archive, second.folder.checkpoints)
    close(second)
    again = opened(tmp_path / "a", of_run(b"r"), **settings)
    assert (again.training.step, again.training.last_seq) == (5, 20)
    close(again)


async def test_with_an_archived_checkpoint_the_server_is_asked_for_no_weights(tmp_path: Path) -> None:
    """Here it could not give any."""
    (tmp_path / "archive").mkdir()
    settings = {"archive": str(tmp_path / "archive")}
    run = opened(tmp_path / "lost", of_run(b"r"), **settings)
    run.training.save()
    assert run.archive is not None
    checkpoint.upload(run.archive, run.folder.checkpoints)
    close(run)

    told = msgspec.structs.replace(of_run(b"r"), weights=None)
    async with beside_trainer(tmp_path / "new", told, weights="server", **settings) as (server, _):
        await server.until(lambda: server.figures)
    assert (tmp_path / "new" / "run-1").exists()


def test_a_trainer_that_is_stopped_at_once_waits_for_no_thread() -> None:
    """One may read back an archive for hours."""
    lines = [
        "import runpy, threading",
        "from azselfplay.host import exits",
        "exits.guarded = lambda _: threading.Thread(target=threading.Event().wait).start() or 75",
        "runpy.run_module('trainer', run_name='__main__')",
    ]
    assert subprocess.run([sys.executable, "-c", "\n".join(lines)], timeout=60).returncode == 75


async def test_the_archive_learns_of_a_quarantine_at_once(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()

    def archived() -> set[str]:
        states = sorted((tmp_path / "archive" / "checkpoints").glob("*.state"))
        return {player for state in states for player in checkpoint.progress_at(state).quarantined}

    settings = {"archive": str(tmp_path / "archive"), "checkpoint_seconds": 1e6}
    async with beside_trainer(tmp_path / "runs", of_run(b"r"), net="1x8", steps=1, **settings) as (server, _):
        for seed in range(60):
            server.play(game(seed))
        await server.until(lambda: server.offers)
        set_quarantine(tmp_path / "runs" / "run-1" / "games.db", "keys/cheat", quarantined=True)
        await server.until(lambda: archived() == {"keys/cheat"})


def test_an_archive_of_another_run_or_among_the_runs_is_refused(tmp_path: Path) -> None:
    """It is refused before anything is written."""
    (tmp_path / "archive").mkdir()
    close(opened(tmp_path / "a", of_run(b"r"), archive=str(tmp_path / "archive")))
    other = (tmp_path / "b", of_run(b"s"))
    refused(Exit.BAD_DATA, "archive of another run", *other, archive=str(tmp_path / "archive"))
    assert not (tmp_path / "b").exists()
    with ends(Exit.USAGE, "would be lost with them"):
        load(["--runs", str(tmp_path), "--archive", str(tmp_path / "archive")], {})


def test_a_run_that_has_used_an_archive_waits_until_its_disk_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a new run, its name may be wrong, and supervisors must not start the trainer again."""
    (folder := tmp_path / "archive").mkdir()
    close(opened(tmp_path / "old", of_run(b"r"), archive=str(folder)))
    folder.rename(tmp_path / "away")
    for runs, code in ((tmp_path / "old", Exit.TRY_AGAIN), (tmp_path / "new", Exit.USAGE)):
        refused(code, "", runs, of_run(b"r"), archive=str(folder))
        flags = ("--runs", str(runs), "--archive", str(folder), "--device", "cpu")
        monkeypatch.setattr("sys.argv", ["trainer", *flags])
        with ends(code, "mount its disk"):
            _main()


async def test_while_the_archive_is_away_nothing_is_acknowledged_and_the_figures_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer goes on, but ends if another one has added games to the archive meanwhile."""
    monkeypatch.setattr(archive, "SECONDS", 0.0)
    (folder := tmp_path / "archive").mkdir()
    records, kept = [game(seed) for seed in range(3)], {"stored", "duplicate"}

    async def script() -> None:
        async with beside_trainer(tmp_path / "runs", of_run(b"r"), archive=str(folder)) as (server, _):
            await server.until(lambda: server.figures)
            away = folder.rename(tmp_path / "away")
            server.play(records[0])
            await server.until(lambda: server.acks and str(folder) in str(server.figures["waiting_for"]))
            assert server.acks[records[0].uid].status == "retry"
            away.rename(folder)
            for record in records[:2]:
                server.play(record)
            await server.until(lambda: "more positions" in str(server.figures["waiting_for"]))
            await server.until(lambda: {ack.status for ack in server.acks.values()} == kept)
            other = opened(tmp_path / "other", of_run(b"r"), archive=str(folder))
            ten_games(other, 10)
            close(other)
            server.play(records[2])
            await server.until(lambda: False)

    with pytest.raises(BaseExceptionGroup) as caught:
        await script()
    fatal = first_cause(caught.value)
    assert isinstance(fatal, Fatal)
    assert (fatal.code, "another trainer has gone on" in str(fatal)) == (Exit.TRY_AGAIN, True)
