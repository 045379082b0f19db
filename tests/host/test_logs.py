"""Logs that stay small: files that rotate, and repeated lines that are counted."""

import io
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from azselfplay.host.logs import (
    LINES,
    WINDOW,
    Allowance,
    LogFile,
    as_line,
    event_in,
    set_up,
)
from azselfplay.host.view import View


def test_a_log_file_rotates_at_its_size_and_keeps_so_many(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "children.log", max_bytes=100, backups=2)
    pieces = [f"{number:02d}".encode() * 20 for number in range(12)]
    for piece in pieces:
        log.write(piece)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["children.log", "children.log.1", "children.log.2"]
    kept = b"".join((tmp_path / name).read_bytes() for name in reversed(names))
    assert kept == b"".join(pieces[-6:])


def test_lines_of_one_kind_are_counted_beyond_their_allowance() -> None:
    allowance = Allowance()
    said = [allowance.admit("joined", 0.0) for _ in range(LINES + 7)]
    assert said == [0] * LINES + [None] * 7
    assert allowance.admit("left", 1.0) == 0
    assert allowance.admit("joined", WINDOW) == 7
    assert allowance.admit("joined", WINDOW) == 0


def test_a_clock_set_back_silences_no_line() -> None:
    allowance = Allowance()
    said = [allowance.admit("joined", 86_400.0) for _ in range(LINES + 1)]
    assert said[-1] is None
    assert allowance.admit("joined", 0.0) == 1


def test_a_name_neither_forges_a_line_nor_steers_the_terminal(tmp_path: Path) -> None:
    """A peer's name may contain line ends and escape sequences; a traceback keeps its lines."""
    set_up("azserver", tmp_path / "azserver.log", quiet=True)
    logging.getLogger("x").info("%s has joined", "client \x1b[2Jé\nI azserver  weights 7 are in use")
    try:
        raise OSError("disk")
    except OSError:
        logging.getLogger("x").exception("a fault")
    lines = (tmp_path / "azserver.log").read_text().splitlines()
    assert lines[0].endswith(r"client \x1b[2Jé\nI azserver  weights 7 are in use has joined")
    assert [lines[1].partition("  ")[2], lines[-1]] == ["a fault", "OSError: disk"]


KILLED = """
import os, signal
from azselfplay.host.folders import own_folder
with own_folder() as folder:
    (folder / "leaves").write_text("")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
ALIVE = """
import sys
from azselfplay.host.folders import own_folder
with own_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_temporary_folders_of_killed_processes_are_removed_by_the_next_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    left = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, check=False)
    orphan = Path(left.stdout.strip())
    assert orphan.exists()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen([sys.executable, "-c", ALIVE], **pipes) as first,  # type: ignore[call-overload]
        subprocess.Popen([sys.executable, "-c", ALIVE], **pipes) as second,  # type: ignore[call-overload]
    ):
        folders = [Path(process.stdout.readline().strip()) for process in (first, second)]
        assert all(folder.exists() for folder in folders)
        assert not orphan.exists()
    assert list(tmp_path.iterdir()) == []


def test_as_json_each_line_is_one_object_whatever_is_in_it(tmp_path: Path) -> None:
    """All lines from one place have the same kind; lines that bypass the log have the same form."""
    set_up("azserver", tmp_path / "azserver.log", quiet=True, form="json")
    log = logging.getLogger("server.front")
    log.info("weights %d (%s) took %f s", 5, Path("a\nb"), float("nan"))
    for _ in range(LINES + 2):
        log.warning("%s has joined", "client \x1b[2J\x9b é\nI azserver")
    try:
        raise OSError("disk")
    except OSError:
        log.exception("a fault")
    lines = (tmp_path / "azserver.log").read_text().splitlines()
    assert all(line.isprintable() and line.isascii() for line in lines)
    entries = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert len(entries) == LINES + 2
    first, fault = entries[0], entries[-1]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", first["time"])
    assert {**first, "time": 0} == {
        "time": 0, "level": "info", "process": "azserver", "event": "weights 5 (a\nb) took nan s",
        "logger": "server.front", "kind": "weights %d (%s) took %f s", "values": [5, "a\nb", "nan"],
    }  # fmt: skip
    assert fault["level"] == "error"
    assert fault["traceback"].endswith("OSError: disk")
    said = as_line("azserver: error: the port is in use", logging.ERROR)
    assert json.loads(said)["level"] == "error"
    assert event_in(said) == "azserver: error: the port is in use"
    stream = io.StringIO()
    View("azserver r", stream).update({"evals_per_s": 7.0}, 0.0)
    assert "evals/s 7" in json.loads(stream.getvalue())["event"]


def test_an_event_is_found_in_lines_of_either_form() -> None:
    assert event_in("worker-0: error: it is too old") == "worker-0: error: it is too old"
    assert event_in('{"event": "worker-0: error: x", "level": "error"}') == "worker-0: error: x"
    assert event_in("{not json") == "{not json"
    assert event_in('{"other": 1}') == '{"other": 1}'
