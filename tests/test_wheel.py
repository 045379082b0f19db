"""The wheel is complete, and a client with only it and its few packages plays for a server.

The client's environment has no torch. These tests build and install with pip, so they are skipped where pip
cannot reach a package index.
"""

import os
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from free_ports import free_base_port

from azselfplay.host.config import version
from azselfplay.host.exits import Exit
from client.spool import SUFFIX
from protocol.records import from_bytes

ROOT = Path(__file__).resolve().parents[1]
MOST_MEGABYTES = 250
LEFT_OUT = ("tests", ".*", "runs", "results", "docs", "build", "dist", "site", "*.egg-info", "__pycache__")
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        find_spec("pip") is None or find_spec("setuptools") is None, reason="no pip or setuptools here"
    ),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the tree, because building writes into it."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "tree", ignore=shutil.ignore_patterns(*LEFT_OUT))
    built = subprocess.run(
        [*PIP, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, folder / "tree"],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return next(folder.glob("azselfplay-*.whl"))


def test_the_wheel_has_every_module_and_every_data_file_of_its_packages(wheel: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("the files of the project are not known without git")
    inside = set(zipfile.ZipFile(wheel).namelist())
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
    files = [name for name in listed.stdout.split() if not name.endswith(".md")]
    expected = {name for name in files if name.split("/")[0] in packages}
    assert "azselfplay/games/connect_four/data/connect_four.jsonl" in expected
    assert expected - inside == set()
    assert {name.split("/")[0] for name in inside if ".dist-info/" not in name} == packages


@pytest.fixture(scope="module")
def slim(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the commands of an empty environment into which the wheel was installed, without any extra."""
    folder = tmp_path_factory.mktemp("slim") / "venv"
    venv.create(folder, symlinks=True)
    # docs/install.md recommends this for small clients: Numba before 0.62 comes with a smaller LLVM.
    packages = [str(wheel), "numba<0.62"]
    python = str(folder / "bin" / "python")
    installed = subprocess.run(
        [*PIP, "--python", python, "install", "--no-compile", *packages], capture_output=True, text=True
    )
    if installed.returncode and "azselfplay" not in installed.stderr:
        pytest.skip(f"pip cannot install here: {installed.stderr.strip().splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    return folder / "bin"


def run(slim: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the environment in `folder`."""
    environment = {**os.environ, "PATH": f"{slim}:/usr/bin:/bin"}
    return subprocess.run(
        [str(slim / words[0]), *words[1:]], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_commands_answer_from_another_folder(slim: Path, tmp_path: Path) -> None:
    for command in ("azserver", "azclient", "azrun", "azplay"):
        assert run(slim, tmp_path, command, "--help").returncode == Exit.OK
        said = run(slim, tmp_path, command, "--version").stdout
        assert said == f"{command} {version()}\n", "the wheel has the sources of this checkout"
    # Status needs none of the extras: it asks, and nobody answers.
    asked = run(slim, tmp_path, "azplay", "status", "--server", "127.0.0.1:1")
    assert (asked.returncode, "refused" in asked.stderr) == (Exit.UNREACHABLE, True)


@pytest.mark.parametrize(
    "words",
    [
        ("azserver", "--game", "tic_tac_toe"),
        ("azrun", "--game", "tic_tac_toe"),
        ("python", "-m", "trainer"),
        ("azclient", "--server", "127.0.0.1", "--device", "cpu"),
        ("azplay", "uci"),
        ("azplay", "analyse", "--game", "tic_tac_toe"),
    ],
)
def test_a_command_that_needs_more_says_what_to_install(slim: Path, tmp_path, words: tuple[str, ...]) -> None:
    done = run(slim, tmp_path, *words)
    assert done.returncode == Exit.CONFIG, done.stderr
    assert "pip install 'azselfplay[train]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    """Yield the base port of an azserver of this tree, without workers of its own."""
    port = free_base_port()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "server.main", "--game", "tic_tac_toe", "--gpus", "cpu"),
            *("--workers", "0", "--self-play.search.simulations", "8", "--port", str(port)),
            *("--runs", str(tmp_path / "runs"), "--run", "wheel"),
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def test_a_client_without_torch_is_small_and_plays(slim: Path, server: int, tmp_path: Path) -> None:
    """It takes less than 250 MB, even after it has played; its games are intact."""
    (site,) = slim.parent.glob("lib/python*/site-packages")
    assert not (site / "torch").exists()
    spool = tmp_path / "spool"
    client = subprocess.Popen(
        [
            *(str(slim / "azclient"), "--server", f"127.0.0.1:{server}", "--workers", "1", "--games", "16"),
            *("--spool", str(spool)),
        ],
        cwd=tmp_path,
    )
    try:
        # No trainer takes the games: they stay in the client's spool.
        while not (games := list(spool.rglob(f"*{SUFFIX}"))):
            assert client.poll() is None
            time.sleep(0.2)
    finally:
        client.terminate()
        client.wait()
    record = from_bytes(games[0].read_bytes())
    assert len(record.actions) >= 5
    counted = subprocess.run(["du", "-sm", slim.parent], capture_output=True, text=True)
    megabytes = int(counted.stdout.split()[0])
    print(f"the client's environment takes {megabytes} MB")
    assert megabytes < MOST_MEGABYTES
