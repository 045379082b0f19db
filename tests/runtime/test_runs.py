"""Run folders, ports and addresses."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from runtime.exits import Exit, Fatal
from runtime.ports import find_base_port, split_address
from runtime.runs import FOLDERS, RunFolder, write_atomically


def test_a_run_can_be_opened_again(tmp_path: Path) -> None:
    """The same game and history: the folder and its description stay."""
    RunFolder(tmp_path, "chess-1").create("chess", 8)
    run = RunFolder(tmp_path, "chess-1")
    created = run.describe()
    run.create("chess", 8)
    assert run.describe() == created
    assert all((run.path / name).is_dir() for name in FOLDERS)


@pytest.mark.parametrize(("game", "history"), [("connect_four", 8), ("chess", 4)])
def test_a_run_of_another_game_is_refused(tmp_path: Path, game: str, history: int) -> None:
    """Mixing games in one store would spoil both."""
    RunFolder(tmp_path, "run").create("chess", 8)
    with pytest.raises(Fatal, match="another --run name") as caught:
        RunFolder(tmp_path, "run").create(game, history)
    assert caught.value.code == Exit.BAD_DATA


@pytest.mark.parametrize("content", [b"", b"[]", b'{"game": 3, "history": 1}', b"{"])
def test_a_damaged_description_is_named(tmp_path: Path, content: bytes) -> None:
    """Instead of a traceback."""
    run = RunFolder(tmp_path, "run")
    run.create("chess", 8)
    run.about.write_bytes(content)
    with pytest.raises(Fatal, match=r"run\.json is damaged"):
        run.describe()


@pytest.mark.parametrize("name", ["", "../other", "a b", ".hidden", "x" * 101])
def test_names_that_are_no_folder_names_are_refused(tmp_path: Path, name: str) -> None:
    """A name never leads out of the folder of runs."""
    with pytest.raises(Fatal, match="cannot be a run's name"):
        RunFolder(tmp_path, name)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """And no partial file is left beside it."""
    write_atomically(tmp_path / "current.json", b"old")
    write_atomically(tmp_path / "current.json", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("current.json", b"new")]


def test_a_base_port_has_three_free_ports() -> None:
    """One taken port of the three makes it try the next base."""
    base = find_base_port(20_000)
    with socket.socket() as other:
        other.bind(("127.0.0.1", base + 2))
        assert find_base_port(base) > base


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("box", ("box", 5600)),
        ("box:7000", ("box", 7000)),
        ("tcp://box:7000", ("box", 7000)),
        ("[::1]:7000", ("[::1]", 7000)),
    ],
)
def test_addresses_are_split(text: str, address: tuple[str, int]) -> None:
    """As people type them."""
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["", "box:", "box:port", "box:0", "box:65535", ":5600"])
def test_wrong_addresses_are_refused(text: str) -> None:
    """With an example of a right one."""
    with pytest.raises(Fatal, match="HOST:PORT"):
        split_address(text)
