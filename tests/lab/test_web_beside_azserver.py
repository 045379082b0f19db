"""Pages beside a real azserver: `azserver --web PORT`."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_base_port

PATIENCE = 400.0
"""Seconds for two processes to start on a busy machine."""


def events(url: str) -> Iterator[Any]:
    """Yield the events for a page, as soon as the server answers."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            stream = urllib.request.urlopen(url, timeout=PATIENCE)
            break
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < until, "no pages came up"
            time.sleep(0.2)
    with stream:
        while line := stream.readline():
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))
            assert time.monotonic() < until


@pytest.mark.timeout(1200)
def test_a_server_shows_its_own_run_with_its_live_figures(tmp_path: Path) -> None:
    port, base = free_base_port(), free_base_port()
    argv = [sys.executable, "-m", "server.main", "--game", "tic_tac_toe", "--net", "1x8", "--gpus", "cpu"]
    argv += ["--workers", "0", "--port", str(base), "--runs", str(tmp_path), "--run", "shown"]
    with (
        (tmp_path / "said").open("wb") as said,
        subprocess.Popen([*argv, "--web", str(port)], stdout=said, stderr=said) as server,
    ):
        try:
            for found in events(f"http://127.0.0.1:{port}/api/run/shown/events"):
                if found.get("live"):
                    break
            assert found["server"] == ""
            assert found["summary"]["running"]
            assert found["live"]["sessions"] == {"workers": 0, "clients": 0, "trainer": 0}
            assert ["evaluations/s", "0"] in found["lines"]
        finally:
            server.terminate()
        assert server.wait(PATIENCE) == 0, (tmp_path / "said").read_text()
    assert f"http://127.0.0.1:{port}/run/shown" in (tmp_path / "said").read_text()
    with socket.socket() as nobody:
        assert nobody.connect_ex(("127.0.0.1", port)) != 0
