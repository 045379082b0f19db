"""A whole worker against a small server: it joins, plays, uploads, survives restarts."""

import asyncio
import hashlib
import logging
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import msgspec
from changed_settings import self_play
from client_server import info_of
from naive_verify import naive_verdict
from worker_site import Site, run_site, spooled

from azselfplay.batching.ring import Demand, Layout
from azselfplay.games import get_game
from client.metrics import SEARCH, figures_line
from client.sources import RingSource
from client.worker import Worker
from protocol.messages import Evaluate, GameAck, Grant, Hello, PutGame


async def test_a_worker_plays_games_that_hold_and_uploads_them(tmp_path: Path) -> None:
    async with run_site(tmp_path, games=5) as site:
        for _ in range(10):
            await site.games.get()
    for record in site.bulk.records:
        assert naive_verdict(get_game("tic_tac_toe"), record) is None
        assert record.source == "here/0"
        assert (record.seed, record.simulations) == (3, 8)
        assert set(record.versions.tolist()) == {7}
    assert len({record.uid for record in site.bulk.records}) == len(site.bulk.records)
    assert isinstance(site.bulk.seen[0], Hello)
    assert spooled(tmp_path) == []


async def test_a_worker_plays_as_many_games_as_the_leaves_port_asks_for(tmp_path: Path) -> None:
    """The newest number counts, whether it came in a WELCOME or in a grant."""
    async with run_site(tmp_path, cache_mib=0) as site:
        site.leaves.welcome = msgspec.structs.replace(site.leaves.welcome, games_in_flight=3)
        together: list[int] = []
        many = asyncio.Event()

        def note(peer: bytes, message: Evaluate, frames: list[memoryview]) -> None:
            together.append(message.rows)
            if len(together) == 20:
                site.leaves.send(peer, Grant(300, 9))
            if message.rows == 9:
                many.set()
            site.leaves.answer(peer, message, frames)

        site.leaves.evaluate = note
        await many.wait()
        assert max(together[:20]) == 3


async def test_a_number_of_games_that_the_servers_user_has_set_is_kept(tmp_path: Path) -> None:
    """Only without one does the evaluator's own wish count."""
    source = RingSource([tmp_path / "ring"], Layout.of(get_game("tic_tac_toe"), 1, 2), "w", lambda: None)
    source._on_demand(Demand(300, 64))
    assert [source.games_to_play(asked) for asked in (16, 8, 0)] == [16, 8, 300]
    source.close()


async def test_a_worker_with_all_positions_in_its_cache_asks_an_evaluator_that_is_behind_again(
    tmp_path: Path, monkeypatch
) -> None:
    """The evaluator may load announced weights only after the worker has cached answers of the old ones."""
    monkeypatch.setattr("client.worker.REPORT_EVERY", 1e-9)
    calls: list[int] = []
    site = Site(tmp_path)
    worker, evaluator = Worker(site.options, site.stop), SimpleNamespace(version=9)
    source = worker._source = SimpleNamespace(evaluator=evaluator, leaves=0)

    def forget() -> None:
        calls.append(evaluator.version)
        evaluator.version = 10

    worker._forest = SimpleNamespace(evaluated=0, cache_hits=0, forget_evaluations=forget)
    worker._weights = info_of(b"", 10, bytes(32))

    class Uploads:
        spool, reports = SimpleNamespace(games=0), 0

        @property
        def why_no_new_games(self) -> str:
            self.reports += 1
            if self.reports == 4:
                raise LookupError("enough")
            return ""

    with suppress(LookupError):
        await worker._report(SimpleNamespace(finished=0), source, Uploads())
    site.close()
    for context in (worker._context, site.context):
        context.destroy(0)
    assert calls == [9]


async def test_a_restarted_server_gets_the_unacknowledged_games_and_new_leaves(tmp_path: Path) -> None:
    """The worker says HELLO again by itself and resends everything unanswered."""
    async with run_site(tmp_path, games=3) as site:
        site.bulk.ack = lambda message: GameAck(message.uid, "retry", retry_after=1000.0)
        await site.bulk.until(PutGame)
        first = site.bulk.records[0].uid
        site.close()
        await asyncio.sleep(0)
        site.serve(session=2)
        uids = set()
        while first not in uids:
            uids.add((await site.games.get()).uid)
        await site.leaves.until(Evaluate)


async def test_a_drain_finishes_the_games_in_progress_and_hands_them_in(tmp_path, caplog) -> None:
    caplog.set_level(logging.INFO, "worker")
    async with run_site(tmp_path, games=5, drain=200.0) as site:
        await site.games.get()
        asked = len(site.bulk.records)
    assert len(site.bulk.records) > asked
    assert spooled(tmp_path) == []
    (last,) = [line for line in caplog.messages if "games finished" in line]
    assert last == f"drained: {len(site.bulk.records)} games finished, all of them handed in"


async def test_a_drain_ends_in_time_although_nobody_takes_the_games(tmp_path: Path) -> None:
    async with run_site(tmp_path, games=2, drain=0.1) as site:
        site.bulk.ack = lambda message: GameAck(message.uid, "retry", "no_trainer", 1000.0)
        await site.bulk.until(PutGame)
    assert spooled(tmp_path)


async def test_a_warm_only_worker_joins_compiles_and_leaves(tmp_path: Path, capsys) -> None:
    """azclient runs it first, and hears what it has compiled; it plays nothing and makes no spool."""
    async with run_site(tmp_path, warm_only=True) as site:
        await site.stop.finishing.wait()
    assert isinstance(site.bulk.seen[0], Hello)
    assert figures_line({SEARCH: ["tic_tac_toe", "puct", ""]}) in capsys.readouterr().out
    assert not any(isinstance(message, Evaluate) for message in site.leaves.seen)
    assert not (tmp_path / "spool").exists()


async def test_a_worker_beside_an_evaluator_of_its_own_machine_plays_with_the_servers_weights(
    tmp_path,
) -> None:
    """The evaluator is a process of its own. No leaf goes to the server; records carry the announced
    version."""
    from net.architectures.network import build
    from net.architectures.residual import Residual
    from net.weights import WeightsMeta, to_bytes

    game, small = get_game("tic_tac_toe"), Residual(blocks=1, channels=8)
    data = to_bytes(build(small, game, 1), WeightsMeta("tic_tac_toe", 1, small))
    async with run_site(tmp_path, games=4, rings=(tmp_path / "ring",)) as site:
        site.close()
        site.serve(weights=info_of(data, 5, hashlib.sha256(data).digest()))
        site.bulk.weights = data
        command = ["-m", "client.evaluator", "--bulk", f"ipc://{tmp_path}/bulk", "--device", "cpu"]
        command += ["--ring", str(tmp_path / "ring"), "--spool", str(tmp_path / "spool"), "--threads", "1"]
        evaluator = await asyncio.create_subprocess_exec(sys.executable, *command)
        for _ in range(3):
            await site.games.get()
        evaluator.terminate()
        assert await evaluator.wait() == 0
    assert not site.leaves.seen
    for record in site.bulk.records:
        assert naive_verdict(get_game("tic_tac_toe"), record) is None
        assert set(record.versions.tolist()) == {5}


async def test_games_are_resigned_once_an_acknowledgement_names_a_threshold(tmp_path: Path) -> None:
    """Before that, no game is resigned; the threshold of the newest acknowledgement counts."""
    settings = self_play(simulations=8, seed=3, value=-0.05, play_on=0.5)
    heard: list[int] = []
    async with run_site(tmp_path, games=1) as site:
        site.leaves.close()
        site.bulk.close()
        site.serve(self_play=asdict(settings))
        take = site.bulk.ack

        def acknowledge(message: PutGame) -> GameAck:
            heard.append(len(site.bulk.records))
            ack = take(message)
            assert ack is not None
            return msgspec.structs.replace(ack, resign_value=-0.05) if len(heard) > 5 else ack

        site.bulk.ack = acknowledge
        while not any(record.reason == "resignation" for record in site.bulk.records):
            await site.games.get()
    assert "resignation" not in {record.reason for record in site.bulk.records[:6]}
    resigned = (record for record in site.bulk.records if record.reason == "resignation")
    assert max(record.root_values[-1] for record in resigned) <= -0.05
