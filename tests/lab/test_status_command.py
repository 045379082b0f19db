"""`azplay status` without an address asks the azserver that this user has started on this machine."""

import sys
from pathlib import Path

import pytest
from free_ports import free_base_port
from in_process import ends

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.ports import Address
from azselfplay.host.runs import RunFolder
from azselfplay.lab.report import status_command
from azselfplay.lab.report.status_command import RunStatus, as_text, of_folder, of_server, of_this_machine


def served(tmp_path: Path, name: str, port: int) -> RunFolder:
    run = RunFolder(tmp_path, name)
    run.create("chess", 1)
    run.config.write_text(f'port = {port}\nlisten = "0.0.0.0"\n')
    return run


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Address]:
    """Record the addresses that are asked; none of them answers."""
    addresses: list[Address] = []

    def of_server(address: Address) -> RunStatus:
        addresses.append(address)
        raise Fatal("refused", Exit.UNREACHABLE)

    monkeypatch.setattr(status_command, "of_server", of_server)
    return addresses


def test_the_one_azserver_of_this_user_is_asked_at_its_own_port(
    tmp_path: Path, asked: list[Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_command, "served_runs", lambda: [served(tmp_path, "a", 5640)])
    with pytest.raises(Fatal, match="refused"):
        of_this_machine()
    assert asked == [Address("127.0.0.1", 5640)]


def test_several_are_listed_with_their_ports(tmp_path, asked: list[Address], monkeypatch) -> None:
    runs = [served(tmp_path, "a", 5640), served(tmp_path, "b", 5650)]
    with runs[1].config.open("a") as file:  # its keys are not here
        file.write(f'insecure = false\nkeys = "{tmp_path / "none"}"\n')
    monkeypatch.setattr(status_command, "served_runs", lambda: runs)
    with ends(Exit.USAGE, r"a \(port 5640\), .*b \(port 5650\)"):
        of_this_machine()
    assert asked == []


def test_keys_that_are_not_here_are_asked_for_and_none_is_to_be_made(tmp_path: Path, monkeypatch) -> None:
    run = served(tmp_path, "a", 5640)
    with run.config.open("a") as file:
        file.write(f'insecure = false\nkeys = "{tmp_path / "none"}"\n')
    monkeypatch.setattr(status_command, "served_runs", lambda: [run])
    with pytest.raises(Fatal, match=r"run a asks for keys, .* give --server .*:5640 --server-key KEY"):
        of_this_machine()


def test_without_any_it_says_what_to_give(asked: list[Address], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_command, "served_runs", list)
    with ends(Exit.UNREACHABLE, "--server HOST:PORT, or a run's folder"):
        of_this_machine()
    assert asked == [Address("127.0.0.1", 5600)]


def test_where_no_azserver_is_one_is_to_be_started() -> None:
    with ends(Exit.UNREACHABLE, "start azserver"):
        of_server(Address("127.0.0.1", free_base_port()))


def test_a_trainer_that_stores_no_games_is_a_fault() -> None:
    """All else is well, and the exit status used to say so."""
    well = {"evaluators": 1, "weights_version": 3, "sessions": {"trainer": 1}}
    status = RunStatus(True, {**well, "trainer": {"not_stored": "database or disk is full"}})
    assert "FAULT" in as_text(status)
    assert "stores no games: database or disk is full" in as_text(status)
    assert (status.exit, RunStatus(True, well).exit) == (Exit.FOUND, Exit.OK)


def test_a_run_named_without_an_azserver_is_no_fault_and_says_whether_its_trainer_works(tmp_path) -> None:
    """It used to say that the trainer had left the run, although it was at work."""
    run = served(tmp_path, "a", 5640)
    with run.lock("trainer"):
        at_work = of_folder("a", tmp_path)
    ended = of_folder("a", tmp_path)
    assert (at_work.exit, ended.exit) == (Exit.OK, Exit.OK)
    assert "its trainer works here, and no azserver does" in as_text(at_work)
    assert "as its trainer left it" in as_text(ended)


def test_a_run_that_is_named_counts_more_than_a_server_of_the_environment(tmp_path, monkeypatch) -> None:
    run = served(tmp_path, "a", 5640)
    monkeypatch.setenv("AZ_SERVER", "gpu-box")
    monkeypatch.setattr(sys, "argv", ["azplay", str(run.path)])
    assert status_command.main() == Exit.OK
    sys.argv += ["--server", "another"]
    with pytest.raises(Fatal, match="not both"):
        status_command.main()


def test_old_weights_are_a_warning_that_leaves_the_exit_status_alone() -> None:
    """Every backlog after an outage has old weights, and a cron job raised the alarm for nothing."""

    def seen(*alerts: str) -> RunStatus:
        return RunStatus(False, {"trainer": {"alerts": list(alerts)}})

    old = "old weights: newest games are 6 versions behind"
    both = seen(old, "repetitions: 40%")
    assert (seen(old).exit, both.exit) == (Exit.OK, Exit.FOUND)
    assert f"WARNING {old}" in as_text(both)
    assert "ALERT repetitions: 40%. What to do: double self_play.moves" in as_text(both)
    assert as_text(both).count("repetitions: 40%") == 1


def test_an_alert_of_a_trainer_that_has_left_is_over() -> None:
    figures = {"evaluators": 1, "weights_version": 3, "trainer": {"alerts": ["repetitions: 40%"]}}
    here, left = (RunStatus(True, figures | {"sessions": {"trainer": present}}) for present in (1, 0))
    assert (here.exit, left.exit) == (Exit.FOUND, Exit.OK)
    assert "repetitions" not in as_text(left)
