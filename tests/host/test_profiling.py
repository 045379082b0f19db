"""`AZ_PROFILE`: a process says where its processor time went."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.profile import lines_of

PROGRAM = """
import sys, threading, time
from azselfplay.host.exits import guarded

def busy():
    while time.thread_time() < 0.5:
        pass

def main():
    other = threading.Thread(target=busy, name="other")
    other.start()
    other.join()
    return 7

sys.exit(guarded(main))
"""


WAITING = """
import sys, time
from azselfplay.host.exits import guarded

def main():
    print("ready", flush=True)
    while True:
        time.sleep(0.1)

sys.exit(guarded(main))
"""


def profile_of(folder: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    every = os.environ | {"AZ_PROFILE": str(folder)} | env
    return subprocess.run([sys.executable, "-c", PROGRAM], env=every, capture_output=True, check=False)


def test_the_thread_and_function_that_used_the_time_are_named(tmp_path: Path) -> None:
    """The exit code stays that of the program."""
    assert profile_of(tmp_path).returncode == 7
    (path,) = tmp_path.glob("*.json")
    used = json.loads(path.read_text())["functions"]
    assert max(used, key=used.get) == "other | __main__:busy"
    assert used["other | __main__:busy"] > 0.25


def test_a_process_that_is_told_to_stop_writes_its_profile(tmp_path: Path) -> None:
    """As evaluators are: they have no handler of their own."""
    env = os.environ | {"AZ_PROFILE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", WAITING], env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=60) == 143
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_lines_of_all_processes_are_sorted_by_cores(tmp_path: Path) -> None:
    for name, functions in (("azrun-1", {"a | b": 1.0}), ("trainer-2", {"c | d": 4.0, "e | f": 2.0})):
        (tmp_path / f"{name}.json").write_text(json.dumps({"seconds": 4.0, "functions": functions}))
    assert lines_of(tmp_path) == [
        (1.0, "trainer", "c | d"),
        (0.5, "trainer", "e | f"),
        (0.25, "azrun", "a | b"),
    ]
