"""azclient: what it starts, which errors it reports, and what it does not import."""

import asyncio
import json
import select
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from azselfplay.host.aio import Stop
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.hardware import Gpus
from azselfplay.host.ports import Address
from azselfplay.host.processes import python_module
from client import evaluator, worker
from client.config import ClientConfig, count_gpus, default_spool, devices_for, make_plan
from client.evaluator import PulledWeights, watch
from client.main import chosen_device, main
from client.metrics import SILENT, FigureLines, WorkersFigures, figures_line
from client.sources import own_first
from protocol.messages import LoadWeights, WeightsInfo

HERE = Address("127.0.0.1", 5600)


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("gpu", "no device 'gpu'"),
        ("cuda:0,cuda:0", "twice"),
        ("cpu,remote", "stands alone"),
        ("", "no device"),
    ],
)
def test_a_wrong_device_is_refused_in_words(setting: str, why: str) -> None:
    with pytest.raises(Fatal, match=why):
        devices_for(setting, 1)


def test_gpus_are_counted_by_their_device_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA_VISIBLE_DEVICES may hide some of them."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert count_gpus(tmp_path) == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert count_gpus(tmp_path) == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert count_gpus(tmp_path) == 0


@pytest.mark.parametrize(
    ("device", "gpus", "asked", "devices", "workers"),
    [
        ("auto", 0, 0, [], 8),
        ("auto", 2, 0, ["cuda:0", "cuda:1"], 5),
        ("cuda:1", 2, 3, ["cuda:1"], 3),
        ("cpu,cpu", 2, 0, ["cpu", "cpu"], 2),
        ("remote", 2, 2, [], 2),
    ],
)
def test_the_plan_has_an_evaluator_for_each_device_and_workers_that_know_them_all(
    device: str, gpus: int, asked: int, devices: list[str], workers: int
) -> None:
    """The machine has eight cores."""
    config = ClientConfig("x", device=device, workers=asked)
    plan = make_plan(config, HERE, Path("s"), Path("r"), gpus=gpus, cores=8)
    assert [value(argv, "--device") for argv in plan.evaluators] == devices
    rings = [f"r/ring-{index}" for index in range(len(devices))]
    assert [value(argv, "--ring") for argv in plan.evaluators] == rings
    assert [value(argv, "--index") for argv in plan.workers] == [str(index) for index in range(workers)]
    for argvs in (plan.workers, plan.in_search):
        assert {value(argv, "--of") for argv in argvs} == {str(len(argvs))}
    assert all([part for part in argv if part.startswith("r/")] == rings for argv in plan.workers)
    assert not any("--rings" in argv for argv in plan.in_search)
    assert "--warm-only" in plan.prepare


def test_workers_spread_over_the_evaluators_and_each_knows_the_next_one_to_ask() -> None:
    rings = [Path("0"), Path("1"), Path("2")]
    orders = [" ".join(path.name for path in own_first(rings, worker)) for worker in range(4)]
    assert orders == ["0 1 2", "1 2 0", "2 0 1", "0 1 2"]


def value(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_values_that_begin_with_a_hyphen_reach_workers_and_evaluators() -> None:
    given = {"name": "-gpu1", "server_key": "-Z85", "key": Path("-key")}
    plan = make_plan(ClientConfig("x", device="cpu", **given), HERE, Path("-s"), cores=1, has_torch=True)
    for module, argv in ((worker, plan.prepare), (evaluator, plan.evaluators[0])):
        options = vars(module.parse(argv[len(python_module("")) :]))
        assert options | given | {"spool": Path("-s")} == options


def test_own_cpu_evaluators_share_the_cores_and_know_how_many_workers_they_have() -> None:
    config = ClientConfig("x", device="cpu,cpu", workers=3)
    plan = make_plan(config, HERE, Path("s"), gpus=0, cores=8)
    assert [value(argv, "--threads") for argv in plan.evaluators] == ["4", "4"]
    assert [value(argv, "--workers") for argv in plan.evaluators] == ["2", "2"]


@pytest.mark.parametrize(
    ("has_loaded", "silent", "ends"),
    [(False, 300.0, False), (False, 700.0, True), (True, 100.0, False), (True, 130.0, True)],
)
def test_an_evaluator_that_is_silent_for_too_long_ends_its_process(
    has_loaded: bool, silent: float, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its device may never answer. The first weights may take longer, because they are compiled."""
    now, codes = 1000.0, []
    monkeypatch.setattr("client.evaluator.time.monotonic", lambda: now)
    monkeypatch.setattr("client.evaluator.WATCH_EVERY", 0.0)
    control = PulledWeights()
    if has_loaded:
        control._loading = Future()
        control.loaded(LoadWeights(1, bytes(32), "w"))
    now += silent

    def leave(code: int) -> None:
        codes.append(code)
        raise asyncio.CancelledError

    async def some_turns() -> None:
        watching = asyncio.create_task(watch(control))
        for _ in range(5):
            await asyncio.sleep(0)
        watching.cancel()
        await asyncio.wait([watching])

    monkeypatch.setattr("client.evaluator.leave_at_once", leave)
    asyncio.run(some_turns())
    assert codes == [Exit.TRY_AGAIN] * ends


def test_weights_of_another_architecture_may_take_as_long_as_the_first() -> None:
    """A trainer may begin the run with another network than the untrained one of the server."""
    control, error = PulledWeights(), Fatal("the end")
    control._loading = Future()
    control.loaded(LoadWeights(1, bytes(32), "w"))
    control.last_alive -= 300.0
    assert control.hangs()
    info = WeightsInfo(2, 2, bytes(32), 1, "chess", "19x256")
    with ThreadPoolExecutor(1) as thread:
        loading = thread.submit(control.load, Path("w"), info)
        select.select([control], [], [])
        assert not control.hangs()
        control.refused(control.receive(), "it goes on with those in use")  # type: ignore[arg-type]
        assert control.hangs()
        assert loading.result()
        loading = thread.submit(control.load, Path("w"), info)
        select.select([control], [], [])
        control.fail(error)
        assert loading.exception() is error
    # A thread that waited for a later load would keep the process from ending.
    with pytest.raises(Fatal, match="the end"):
        control.load(Path("w"), info)


def test_a_device_that_hangs_while_it_is_opened_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    left, codes = threading.Event(), []

    def leave(code: int) -> None:
        codes.append(code)
        left.set()
        raise asyncio.CancelledError

    def hang(*_: object) -> None:
        left.wait(5)
        raise Fatal("at last")

    changed = {"WATCH_EVERY": 0.0, "FIRST_LOAD": 0.0, "leave_at_once": leave, "open_device": hang}
    for name, value in changed.items():
        monkeypatch.setattr(evaluator, name, value)
    run = SimpleNamespace(game=None, settings=SimpleNamespace(history=1))
    monkeypatch.setattr(evaluator, "read_welcome", lambda _: run)

    async def serve() -> None:
        options = "--bulk tcp://127.0.0.1:1 --spool spool --ring ring --device cuda:0"
        one = evaluator.ClientEvaluator(evaluator.parse(options.split()), Stop())
        one._first_welcome.set_result(None)
        try:
            await one._serve()
        finally:
            one._context.destroy(0)

    with pytest.raises(ExceptionGroup):
        asyncio.run(serve())
    assert codes == [Exit.TRY_AGAIN]


def test_figures_of_a_worker_go_to_azclient_and_all_else_is_passed_on() -> None:
    passed: list[bytes] = []
    figures: list[object] = []
    lines = FigureLines(passed.append, figures.append)
    text = f"one\n{figures_line({'leaves': 3})}\nfigures: nonsense\n".encode()
    for at in range(len(text)):
        lines(text[at : at + 1])
    assert figures == [{"leaves": 3}]
    assert passed == [b"one\n", b"figures: nonsense\n"]


def test_azclient_is_ready_while_a_worker_that_talks_has_a_session() -> None:
    now = [0.0]
    workers = WorkersFigures(2, lambda: now[0])
    assert "no worker has a session" in workers.not_ready()
    workers.report(1, {"joined": True, "leaves": 5})
    assert workers.not_ready() == ""
    assert workers.as_dict(2, 0)["leaves"] == {1: 5}
    now[0] = 2 * SILENT
    assert "said anything" in workers.not_ready()
    workers.report(1, {"joined": True, "leaves": 6})
    workers.ended(1)
    assert "no worker has a session" in workers.not_ready()
    assert workers.as_dict(1, 1)["leaves"] == {1: 6}


def test_what_a_drain_has_to_do_is_the_sum_over_workers() -> None:
    workers = WorkersFigures(2)
    assert workers.left() == "0 games in progress, 0 finished ones to hand in"
    workers.report(0, {"in_progress": 60, "spool_games": 2})
    workers.report(1, {"in_progress": 4, "spool_games": 1})
    assert workers.left() == "64 games in progress, 3 finished ones to hand in"
    workers.report(0, {"in_progress": 1, "spool_games": 0})
    workers.ended(0)
    assert workers.left() == "4 games in progress, 1 finished ones to hand in"


def test_a_drain_is_passed_on_to_every_worker_and_has_them_tell_their_figures() -> None:
    plan = make_plan(ClientConfig("x", workers=2, drain=600), HERE, Path("s"), gpus=0, cores=2)
    for argv in plan.workers:
        assert argv[argv.index("--drain") + 1] == "600"
        assert "--figures" in argv


def test_each_server_has_its_own_spool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    spools = {default_spool(Address(*at)) for at in (("../x", 5), ("../x", 6), ("y", 5))}
    assert (len(spools), {one.parent for one in spools}) == (3, {tmp_path / "azselfplay" / "spool"})


@pytest.mark.parametrize(
    "flags",
    [["--server", "a b"], ["--server", "x", "--workers", "-1"], ["--server", "x", "--max-wait", "-1"]],
)
def test_senseless_settings_end_with_78(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags) == Exit.CONFIG
    assert "error: " in capsys.readouterr().err


def test_an_unreachable_server_ends_azclient_with_69(tmp_path: Path) -> None:
    flags = ["--server", "127.0.0.1:1", "--max-wait", "0.1", "--spool", str(tmp_path), "--device", "remote"]
    command = [sys.executable, "-m", "client.main", *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    text = ended.stderr
    assert ended.returncode == Exit.UNREACHABLE
    assert "azclient: error: no azserver answered at 127.0.0.1:1 " in text, "the address that was given"
    assert "has ended" not in text, "one error is enough"
    assert text.count("error: ") == 1
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("setting", "found", "files", "device"),
    [
        ("auto", [], 1, "remote"),
        ("auto", ["cuda:1"], 2, "cuda:1"),
        ("auto", None, 2, "auto"),
        ("auto", None, 0, "remote"),
        ("cpu", [], 1, "cpu"),
    ],
)
def test_auto_takes_the_gpus_that_torch_can_use_waits_for_a_driver_and_else_takes_the_server(
    setting: str, found: list[str] | None, files: int, device: str, monkeypatch, caplog
) -> None:
    """A GPU's device file does not say that torch can use it, and WSL 2 has none. None: none answers now."""

    async def output(*_: str, stop: Stop) -> str:
        return json.dumps(Gpus((), found or (), "none", may_come=found is None))

    monkeypatch.setattr("client.main.may_have_gpus", lambda: True)
    monkeypatch.setattr("client.main.output_of", output)
    monkeypatch.setattr("client.main.count_gpus", lambda: files)
    chosen = asyncio.run(chosen_device(setting, Stop()))
    assert chosen == device
    plan = make_plan(ClientConfig("x", device=chosen), HERE, Path("s"), gpus=files, cores=1, has_torch=True)
    assert (plan.device_text == "the server") == (device == "remote")
    assert ("GPUs are not used" in caplog.text) == (device == "remote")


def test_without_torch_auto_takes_the_server_and_says_so() -> None:
    """This holds beside GPUs, too. For a device that needs torch, the error says what to install."""
    plan = make_plan(ClientConfig("x"), HERE, Path("s"), gpus=2, cores=1, has_torch=False)
    assert plan.device_text.startswith("the server (torch is not installed")
    with pytest.raises(Fatal, match=r"azselfplay\[train\]"):
        make_plan(ClientConfig("x", device="cpu"), HERE, Path("s"), gpus=0, cores=1, has_torch=False)
