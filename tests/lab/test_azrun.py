"""azrun with stand-ins for the three commands: what it starts, how it ends them, and its last lines."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest
from free_ports import free_base_port

from azselfplay.host.aio import Stop, run
from azselfplay.host.exits import Exit
from azselfplay.host.runs import RunFolder
from azselfplay.lab import azrun, launcher
from azselfplay.lab.azrun_config import RunConfig, make_commands
from azselfplay.lab.launcher import Launcher
from server.config import ServerConfig

SERVER = """
import pathlib, sys, zmq
from protocol.messages import *
socket = zmq.Context().socket(zmq.ROUTER)
socket.bind("tcp://127.0.0.1:" + sys.argv[1])
trainer = {"games": 5, "positions": 50, "step": 3, "versions": {"workers": 2, "clients": 1},
           "games_by_source": {"workers": 3, "clients": 2}}
while True:
    peer, header = socket.recv_multipart()
    workers = pathlib.Path(sys.argv[2], "trainer-is-up").exists()
    figures = {"evals": 450, "uptime_s": 60.0, "mean_batch": 2.5, "sessions": {"workers": workers},
               "trainer": trainer}
    match decode(header):
        case Hello():
            answer = Welcome(1, "fake", "run", "chess", {}, 1, 1, 5.0, 30.0)
        case GetStatus():
            answer = Status(figures)
        case _:
            continue
    socket.send_multipart([peer, encode(answer)])
"""
WAITS_FOR_ITS_END = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
name, folder = sys.argv[1:]
open(f"{folder}/{name}-is-up", "w").close()
if name == "client":
    os.kill(os.getppid(), signal.SIGTERM)
signal.sigwait([signal.SIGTERM])
open(f"{folder}/ended", "a").write(name + " ")
"""


def test_it_ends_players_before_the_trainer_and_sums_up(tmp_path, monkeypatch, capsys) -> None:
    """A signal (here from the client, once it is up) leads to an orderly end; the summary has the server's
    last figures. Until then azrun prints what happens."""
    monkeypatch.setattr(launcher, "ASK_EVERY", 0.05)
    port = free_base_port()
    commands = {"server": [sys.executable, "-c", SERVER, str(port), str(tmp_path)]}
    for name in ("trainer", "client"):
        commands[name] = [sys.executable, "-c", WAITS_FOR_ITS_END, name, str(tmp_path)]
    made = Launcher(RunConfig(runs=tmp_path, run="run"), port, commands)
    made.folder.path.mkdir()
    made.folder.write_figures({"step": 1})  # of an earlier end: the trainer of this run leaves none
    made.folder.figures_log.touch()
    os.utime(made.folder.figures, (1, 1))

    async def main(stop: Stop) -> None:
        async with asyncio.timeout(240):
            await made.main(stop)

    run(main)
    assert (tmp_path / "ended").read_text().split() == ["client", "trainer"]
    told = capsys.readouterr().err
    assert f"Folder: {tmp_path / 'run'}" in told
    assert "the first games are finished and stored: 5" in told
    assert made.summary() == {
        "games": 5, "positions": 50, "steps": 3, "mean_batch": 2.5,
        "evals_per_s": 7.5,  # the mean of the run, not the last reading
        "versions": {"workers": 2, "clients": 1}, "games_by_source": {"workers": 3, "clients": 2},
    }  # fmt: skip


def test_it_starts_the_commands_with_its_settings(tmp_path: Path) -> None:
    given = {"simulations": 9, "games": 8, "client_workers": 1, "client_device": "cpu"}
    settings = RunConfig("connect_four", runs=tmp_path, net="tiny", **given)
    server, trainer, client = (" ".join(argv) for argv in make_commands(settings, 7000).values())
    assert "-m server.main --game connect_four" in server
    assert "--games 8 --self-play.search.simulations 9 --port 7000 --run connect_four-tiny" in server
    assert "--workers" not in server, "azserver knows how many the machine takes: most cores beside GPUs"
    assert "-m client.main" in client
    assert "--server 127.0.0.1:7000 --device cpu" in client
    assert "-m trainer --server 127.0.0.1:7000 --run connect_four-tiny" in trainer


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--minutes", "-1", "minutes"),
        ("--games", "-3", "games"),
        ("--workers", "-1", "workers"),
        ("--client-device", "gpu", "gpu"),
        ("--game", "ludo", "ludo"),
        ("--game", "dots_and_boxes_20x20", "20"),
        ("--run", "a/b", "a/b"),
        ("--trainer-config", "[samples]\nper_postion = 2", "the nearest is 'samples.per_position'"),
        ("--server-config", "[self_play.search]\nsimulation = 2", "'self_play.search.simulations'"),
        ("--client-config", "drain = -1", "drain must be a number of at least 0, not -1"),
        ("--recipe", "chess_spares", "there is no recipe 'chess_spares'; the nearest is 'chess_sparse'"),
        ("--recipe", "shogi_wins", "--recipe shogi_wins is for shogi, not for chess: give --game shogi"),
        *(
            ("--server-config", text, "azrun's own parts cannot join")
            for text in ("listen = '0.0.0.0'", "listen = '::1'", "listen = '10.0.0.1'\ninsecure = true")
        ),
    ],
)
def test_wrong_settings_end_it_before_anything_starts(
    flag: str, value: str, said: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    if flag.endswith("-config"):
        (tmp_path / "part.toml").write_text(value)
        value = str(tmp_path / "part.toml")
    monkeypatch.setattr(sys, "argv", ["azrun", "--runs", str(tmp_path / "runs"), flag, value])
    assert azrun.main() == Exit.CONFIG
    told = capsys.readouterr().err
    assert told.startswith("azrun: error: ")
    assert said in told
    assert not (tmp_path / "runs").exists()


def test_a_client_that_finishes_its_games_gets_the_time_for_it(tmp_path, monkeypatch) -> None:
    (tmp_path / "client.toml").write_text("drain = 60")
    graces: dict[str, float] = {}
    monkeypatch.setattr(launcher, "Part", lambda name, _argv, grace, *_: graces.update({name: grace}))
    monkeypatch.setattr("azselfplay.host.aio.run", lambda main: main.__self__._parts(None))
    flags = ["--game", "tic_tac_toe", "--runs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["azrun", *flags, "--client-config", str(tmp_path / "client.toml")])
    azrun.main()
    assert graces == {"server": 45, "trainer": 30, "client": 75}


def test_a_run_in_use_is_named_before_anything_is_announced(tmp_path, monkeypatch, capsys) -> None:
    folder = RunFolder(tmp_path, "tic_tac_toe-tiny")
    folder.create("tic_tac_toe", 1)
    monkeypatch.setattr(sys, "argv", ["azrun", "--game", "tic_tac_toe", "--runs", str(tmp_path)])
    with folder.lock("azserver"):
        assert azrun.main() == Exit.TRY_AGAIN
    assert capsys.readouterr().err.startswith("azrun: error: run 'tic_tac_toe-tiny'")


def test_a_port_in_use_ends_it_before_anything_starts(tmp_path, monkeypatch, capsys) -> None:
    port, runs = free_base_port(), tmp_path / "runs"
    flags = ["--game", "tic_tac_toe", "--port", str(port), "--runs", str(runs)]
    monkeypatch.setattr(sys, "argv", ["azrun", *flags])
    with socket.create_server(("127.0.0.1", port + 1)):
        assert azrun.main() == Exit.TRY_AGAIN
        assert f"port {port + 1} is in use" in capsys.readouterr().err
        monkeypatch.setattr(sys, "argv", ["azrun", *flags[:2], *flags[4:], "--web", str(port + 1)])
        assert azrun.main() == Exit.TRY_AGAIN
        assert f"--web {port + 1}: Address already in use" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["azrun", *flags, "--web", str(port)])
    assert azrun.main() == Exit.CONFIG
    assert not runs.exists()


def test_people_are_told_how_it_ended_though_nobody_reads_the_summary(tmp_path, monkeypatch, capsys) -> None:
    """Ctrl-C in `azrun | tee log` ends `tee`, too."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        assert Launcher(RunConfig(runs=tmp_path, run="run"), 1, {}).report() == Exit.OK
    assert "No game was stored yet" in capsys.readouterr().err


FAILS = """
import os, pathlib, signal, sys
folder, ending, said = sys.argv[1:]
starts = pathlib.Path(folder, "starts")
starts.open("a").write("x")
pathlib.Path(folder, "trainer-is-up").touch()  # if this is the client, it is up already
print(said, file=sys.stderr, flush=True)
if len(starts.read_text()) == 2:
    os.kill(os.getppid(), signal.SIGTERM)
if ending == "waits":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.kill(os.getppid(), signal.SIGTERM)
    signal.sigwait([signal.SIGTERM])
    sys.exit(0)
os.kill(os.getpid(), signal.SIGKILL) if ending == "killed" else sys.exit(int(ending))
"""
NOT_FINITE = "trainer: error: the loss is not finite at step 3; start again with a smaller --optimizer.lr"
FULL = "2026-11-25 18:00:00 E trainer  games are NOT being stored: database or disk is full"


@pytest.mark.parametrize(
    ("part", "ending", "said", "told", "status"),
    [
        ("trainer", "70", NOT_FINITE, "the loss is not finite at step 3", Exit.INTERNAL),
        ("trainer", "74", "trainer: error: a.db: Permission denied", "a.db: Permission denied", Exit.DISK),
        ("trainer", "killed", "", "killed by SIGKILL: the machine may lack memory", Exit.FOUND),
        ("trainer", "waits", FULL, "games are NOT being stored: database or disk is full", Exit.FOUND),
        ("client", "70", "azclient: error: no room", "client: exit 70 (INTERNAL): no room", Exit.INTERNAL),
        ("client", "1", "ImportError", "client: exit 1", Exit.FOUND),
    ],
)
def test_why_training_fails_is_said_at_the_end_and_is_the_exit_status(
    part: str, ending: str, said: str, told: str, status: Exit, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(launcher, "ASK_EVERY", 0.05)
    server = SERVER.replace('"step": 3', '"step": 0')
    waits = WAITS_FOR_ITS_END.replace('name == "client"', "False")

    def made(_: RunConfig, port: int, _basis: Path) -> dict[str, list[str]]:
        parts = {"server": [sys.executable, "-c", server, str(port), str(tmp_path)]}
        for name in ("trainer", "client"):
            parts[name] = [sys.executable, "-c", waits, name, str(tmp_path)]
        return parts | {part: [sys.executable, "-c", FAILS, str(tmp_path), ending, said]}

    monkeypatch.setattr(azrun, "make_commands", made)
    monkeypatch.setattr(azrun, "check_parts", lambda given: (ServerConfig(port=int(given["server"][3])), 0.0))
    monkeypatch.setattr(sys, "argv", ["azrun", "--runs", str(tmp_path), "--run", "run"])
    assert azrun.main() == status
    *_, before, end = capsys.readouterr().err.split("Training FAILED. ")
    assert told in end.splitlines()[0]
    assert "too short" not in end
    if ending != "killed":
        assert told.rpartition(": ")[2] in before
