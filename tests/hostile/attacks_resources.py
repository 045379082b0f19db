"""Items 9, 11 and 12: no file descriptors left, a stopped evaluator, azrun killed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from free_ports import free_base_port
from peers import crowd
from process_marks import marked, marked_environment
from target import PATIENCE, ROOT, Target

T = TypeVar("T")

SILENT_FOR = 23.0
"""Seconds that the evaluator is stopped: longer than libzmq keeps a silent connection."""
BACK_WITHIN = 60.0
"""Seconds within which evaluations must come again."""
GONE_WITHIN = 30.0
"""Seconds within which all children of a killed azrun must be gone."""
AZRUN_STARTS = 5
"""Server, evaluator, worker, trainer, azclient; its worker starts later."""


def descriptors(target: Target) -> Iterator[None]:
    """Item 9. The server has no file descriptor left, because strangers use them all: its limit is lowered to
    what it has open, and they connect. Then chunks of the weights are requested; each opens a file."""
    limit = resource.prlimit(target.front, resource.RLIMIT_NOFILE)
    while True:
        with crowd() as peers:
            peer = peers.peer(target.port + 1)
            weights = (peer.join("watcher") if peer else {}).get("weights") or {"sha256": bytes(32)}
            used = len(list(Path(f"/proc/{target.front}/fd").iterdir()))
            resource.prlimit(target.front, resource.RLIMIT_NOFILE, (used + 8, limit[1]))
            try:
                for _ in range(24):
                    peers.silent(target.port)
                for offset in (0, 1, 2**40):
                    ask = {"type": "get_chunk", "sha256": weights["sha256"], "offset": offset}
                    if peer and peer.tell(ask):
                        peer.wait_for("chunk", "refused")
                yield
            finally:
                if target.is_alive():
                    resource.prlimit(target.front, resource.RLIMIT_NOFILE, limit)


def stopped_evaluator(target: Target) -> Iterator[None]:
    """Item 11. The evaluator is stopped for 23 s (SIGSTOP) and continues. Evaluations must come again within
    a minute: from it, or from a replacement."""
    while True:
        standing = target.evaluator()
        os.kill(standing, signal.SIGSTOP)
        try:
            time.sleep(SILENT_FOR)
        finally:
            if Path(f"/proc/{standing}").exists():
                os.kill(standing, signal.SIGCONT)
        wanted = target.figures()["evals"] + 1000
        _wait(partial(_has_evaluated, target, wanted), "evaluations once it goes on", BACK_WITHIN)
        yield


def _has_evaluated(target: Target, rows: int) -> bool:
    return target.figures()["evals"] > rows


def killed_azrun(target: Target) -> Iterator[None]:
    """Item 12. An azrun beside the target is killed (SIGKILL) once its server, trainer and client run. All
    its children must be gone within half a minute."""
    for number in count():
        argv = [sys.executable, "-m", "azselfplay.lab.azrun", "--game", "tic_tac_toe", "--gpus", "cpu"]
        argv += ["--port", str(free_base_port()), "--runs", str(target.folder / f"killed-{number}")]
        argv += ["--client-workers", "1"]
        environment = marked_environment()
        quiet = subprocess.DEVNULL
        azrun = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet)
        try:
            _wait(partial(_are_all_there, environment), "all that azrun starts")
        finally:
            azrun.kill()
            azrun.wait()
        try:
            _wait(partial(_are_gone, environment), "the end of what a killed azrun had started", GONE_WITHIN)
        finally:
            for pid in marked(environment):
                os.kill(pid, signal.SIGKILL)
        yield


def _are_all_there(environment: dict[str, str]) -> bool:
    return len(marked(environment)) > AZRUN_STARTS


def _are_gone(environment: dict[str, str]) -> bool:
    return not marked(environment)


def _wait(what: Callable[[], T], meaning: str, seconds: float = PATIENCE) -> T:
    """Return the result of `what()` once it is true."""
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, f"in vain: {meaning}"
        time.sleep(0.2)
    return found
