"""If one of azserver's two ports is in use, the error names the requested port, and no run is left behind."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from free_ports import free_base_port
from front_bench import Bench

from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.sockets import new_context

ROOT = Path(__file__).resolve().parents[2]


def test_when_the_second_port_is_in_use_the_first_is_named_too(tmp_path: Path) -> None:
    port = free_base_port()
    with socket.create_server(("127.0.0.1", port + 1)):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "server.main", "--game", "tic_tac_toe", "--gpus", "cpu"),
                *("--port", str(port), "--runs", str(tmp_path)),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    assert done.returncode == Exit.TRY_AGAIN
    assert list(tmp_path.iterdir()) == []
    assert (
        f"--port {port} takes the ports {port} and {port + 1}, and port {port + 1} is in use" in done.stderr
    )


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
