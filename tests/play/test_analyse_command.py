"""`azplay analyse` as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from azselfplay.host.exits import Exit
from net.create import create

COMMAND = [sys.executable, "-m", "azselfplay.lab.azplay", "analyse"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "cf.safetensors"
    create("connect_four", 0, "tiny", 3, path)
    return path


def test_lines_in_are_lines_out_and_the_end_of_input_is_a_clean_end(weights: Path) -> None:
    """The network's file names its game; a bad line does not change the exit status."""
    lines = ['{"id": 1, "moves": ["4"], "simulations": 0}', "nonsense", '{"id": 2, "moves": ["9"]}']
    done = subprocess.run(
        [*COMMAND, str(weights), "--simulations", "3"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == Exit.OK, done.stderr
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert sorted(answers[1]["policy"]) == list("1234567")
    assert "error" in answers[None]
    assert answers[2]["error"].startswith("move 1 ('9'): ")
    assert "1 positions and 2 errors" in done.stderr
    assert "untrained" not in done.stderr


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    """`azplay analyse | head -1` does this while the input is still open."""
    with subprocess.Popen(
        [*COMMAND, "--game", "tic_tac_toe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b'{"id": 1, "simulations": 2}\n')
        process.stdin.flush()
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
