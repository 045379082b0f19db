"""A fault in the handling of one message is logged, counted and answered; the front serves on."""

import asyncio
import logging
from pathlib import Path

import pytest
from descriptors import no_descriptor_left
from front_bench import Bench, Peer, beside_front, publish

from azselfplay.host.aio import Faults
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.sockets import new_context
from protocol.errors import Code
from protocol.messages import PROTOCOL_VERSION, Chunk, GetChunk, GetStatus, Goodbye, Hello, Refused


@beside_front
async def test_a_chunk_asked_for_at_the_descriptor_limit_is_refused_and_may_be_asked_for_again(
    bench: Bench,
) -> None:
    downloader = await bench.peer("bulk", "watcher")
    info = bench.store.current
    assert info is not None
    with no_descriptor_left():
        downloader.send(GetChunk(info.sha256, 3))
        refused = (await downloader.receive(Refused))[0]
    assert (refused.code, refused.request, refused.retry_after > 0) == (Code.INTERNAL, 3, True)
    downloader.send(GetChunk(info.sha256, 0))
    assert bytes((await downloader.receive(Chunk))[1][0]) == b"untrained"
    assert (await downloader.status())["faults"] == 1


@beside_front
async def test_weights_that_cannot_be_made_current_leave_the_evaluators_at_work(bench: Bench) -> None:
    evaluator = await bench.evaluator()
    trainer, worker = await bench.peer("bulk", "trainer"), await bench.worker(1, "worker")
    evaluator.answers_loads = False
    info = await publish(trainer, b"newer", 1)
    await evaluator.got_load.wait()
    with no_descriptor_left():
        evaluator.say_loaded(info)
        worker.ask(1, 5)
        await worker.get_all()
    worker.ask(2, 5)
    await worker.get_all()


@beside_front
async def test_a_handler_that_fails_is_answered_internal(bench: Bench) -> None:
    peer = await bench.peer("leaves", "watcher")
    bench.front.figures.trainer = {"no": object()}  # cannot be encoded
    for _ in range(3):
        peer.send(GetStatus())
        assert (await peer.receive(Refused))[0].code == Code.INTERNAL
    bench.front.figures.trainer = {}
    assert (await peer.status())["faults"] == 3


@beside_front
async def test_a_hello_whose_welcome_fails_is_asked_to_come_back(bench: Bench) -> None:
    evaluator = await bench.evaluator()
    bench.front.pool._evaluators[1] = None  # type: ignore[assignment]
    peer = Peer(bench, "leaves")
    peer.send(Hello(PROTOCOL_VERSION, "client"))
    goodbye = (await peer.receive(Goodbye))[0]
    assert (goodbye.code, goodbye.retry_after > 0) == (Code.INTERNAL, True)
    del bench.front.pool._evaluators[1]
    await peer.join("client")
    assert not evaluator.held


def test_faults_of_one_kind_are_logged_with_one_traceback(caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults(logging.getLogger("test"))
    for turn in range(1000):
        with faults.survived("a port"):
            raise KeyError(turn)
    assert faults.count == 1000
    assert [record.exc_info is not None for record in caplog.records].count(True) == 1
    assert len({record.msg for record in caplog.records}) == 2


@pytest.mark.parametrize(
    "end", [Fatal("the end", Exit.CONFIG), asyncio.CancelledError(), KeyboardInterrupt()], ids=repr
)
def test_what_is_to_end_the_process_does(end: BaseException) -> None:
    faults = Faults(logging.getLogger("test"))
    with pytest.raises(type(end)), faults.survived("a port"):
        raise end
    assert faults.count == 0


@pytest.mark.parametrize("files", [128, 256, 287])
def test_too_few_files_for_any_connection_are_said_and_end_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """With 256 files, each of its two ports would have room for nobody."""
    context = new_context()
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))
    try:
        with pytest.raises(Fatal, match=f"may open {files} files, and at least 288 are needed") as error:
            Bench(tmp_path, context)
    finally:
        context.destroy(0)
    assert error.value.code == Exit.CONFIG
