"""`azplay analyse` as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

from azselfplay.host.exits import Exit

COMMAND = [sys.executable, "-m", "azselfplay.lab.azplay", "analyse"]


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    """`azplay analyse | head -2` does this while the input is still open. A bad line is answered, too."""
    with subprocess.Popen(
        [*COMMAND, "--game", "tic_tac_toe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b'nonsense\n{"id": 1, "simulations": 2}\n')
        process.stdin.flush()
        assert "error" in json.loads(process.stdout.readline())
        assert json.loads(process.stdout.readline())["id"] == 1
        process.stdout.close()
        process.stdin.write(b'{"id": 2, "simulations": 2}\n')
        process.stdin.flush()
        assert process.wait(240) == Exit.OK
        said = process.stderr.read().decode()
        assert "an untrained network for tic_tac_toe" in said
        assert "Traceback" not in said


def test_answers_that_cannot_be_written_end_it_with_the_reason() -> None:
    """A full disk causes no traceback."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "--game", "tic_tac_toe"],
            input=b'{"id": 1, "simulations": 0}\n',
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=240,
            check=False,
        )
    assert done.returncode == Exit.DISK
    assert b"cannot write the answers: [Errno 28]" in done.stderr
    assert b"Traceback" not in done.stderr
