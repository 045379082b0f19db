"""Passes commands of the documentation through the parsers of the real programs, without running them."""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from doc_commands import ROOT

import azselfplay.lab.azcluster
import azselfplay.lab.azplay
import azselfplay.lab.azrun
import azselfplay.lab.experiments.__main__
import azselfplay.lab.experiments.ablation
import azselfplay.lab.experiments.on_games
import bench.__main__
import client.main
import server.keys
import server.main
import trainer.__main__

MAINS: dict[str, Callable[[], int]] = {
    "azrun": azselfplay.lab.azrun._main,
    "azcluster": azselfplay.lab.azcluster._main,
    "azserver": server.main._main,
    "azclient": lambda: client.main._main(None),
    "azplay": azselfplay.lab.azplay._main,
    "trainer": trainer.__main__._main,
}
FILES = {"--server-config": "azserver", "--trainer-config": "trainer", "--client-config": "azclient"}
"""Flags of azrun that name a file, and the program that reads it."""


def check(words: Sequence[str]) -> None:
    """Check that the program accepts these words. Raises AssertionError, or the program's own error, if it
    does not."""
    program, *arguments = words
    if program == "make":
        check_make(arguments)
    elif program == "python":
        check_module(arguments)
    elif program == "azserver" and arguments[:1] and arguments[0] in server.main.KEY_COMMANDS:
        server.keys.parser().parse_args(arguments)
    elif program == "azclient" and arguments[:1] == ["keygen"]:
        client.main.keygen_parser().parse_args(arguments[1:])
    else:
        _make_config_of_a_run(arguments)
        settings_in_force(program, arguments)
        for flag, reader in FILES.items():
            if flag in arguments:
                settings_in_force(reader, ["--config", arguments[arguments.index(flag) + 1]])


def _make_config_of_a_run(arguments: Sequence[str]) -> None:
    """Write the file that `--config` names in a run's folder, as azserver leaves it there."""
    file = Path(arguments[arguments.index("--config") + 1]) if "--config" in arguments else Path()
    if file.parts[:1] == ("runs",):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(settings_in_force("azserver", []), encoding="utf-8")


def settings_in_force(program: str, arguments: Sequence[str]) -> str:
    """Return what `--print-config` prints: the program itself has read every flag, file and value."""
    printed = io.StringIO()
    before, sys.argv = sys.argv, [program, *arguments, "--print-config"]
    needs_server = program == "azclient" and "--server" not in arguments
    sys.argv += ["--server", "A"] if needs_server else []
    try:
        with contextlib.redirect_stdout(printed), without_our_variables(), pytest.raises(SystemExit) as ended:
            MAINS[program]()
    finally:
        sys.argv = before
    assert ended.value.code == 0, f"{shlex.join([program, *arguments])}: exit status {ended.value.code}"
    return printed.getvalue()


def check_module(arguments: Sequence[str]) -> None:
    """Check `python -m MODULE ...` or `python FILE`."""
    assert arguments[0] == "-m", f"python {shlex.join(arguments)}: no module"
    module, *rest = arguments[1:]
    if module == "trainer":
        settings_in_force("trainer", rest)
    elif module == "azselfplay.lab.experiments":
        azselfplay.lab.experiments.recipe.load(azselfplay.lab.experiments.__main__.parse(list(rest)).name)
    elif module == "azselfplay.lab.experiments.on_games":
        azselfplay.lab.experiments.on_games.parse(list(rest))
    elif module == "azselfplay.lab.experiments.ablation":
        azselfplay.lab.experiments.ablation.load(azselfplay.lab.experiments.ablation.parse(list(rest)).name)
    elif module == "bench":
        assert set(rest) <= {*bench.__main__.BENCHMARKS, "all"}, f"bench {rest}"
    elif module == "pytest":
        paths = [one.removeprefix("--ignore=").partition("::")[0] for one in rest if "/" in one]
        missing = [path for path in paths if not (ROOT / path).exists()]
        assert missing == []
    else:
        assert importlib.util.find_spec(module) is not None, f"there is no module {module}"


def check_make(arguments: Sequence[str]) -> None:
    """Check that the target exists, and that the programs in its recipe accept their arguments."""
    # --old-file: skip the installation. -n: run nothing.
    command = ["make", "-n", "-o", ".venv/.installed", *arguments]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    for line in re.sub(r"\\\n\s*", " ", made.stdout).splitlines():
        words = [word for word in shlex.split(line, comments=True) if not re.match(r"[A-Z_0-9]+=", word)]
        program = words[0].rpartition("/")[2] if words else ""
        if program in (*MAINS, "python"):
            check([program, *words[1:]])


@contextlib.contextmanager
def without_our_variables() -> Iterator[None]:
    """Run the block without any AZ_ variable from the environment of the tests."""
    ours = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith("AZ_")}
    try:
        yield
    finally:
        os.environ.update(ours)


def known_flags(settings_page: str) -> set[str]:
    """Return every flag that one of our programs accepts."""
    flags = set(re.findall(r"`(--[\w.-]+)`", settings_page)) | {
        "--config",
        "--print-config",
        "--help",
        "--version",
    }
    for parse in (
        azselfplay.lab.experiments.__main__.parse,
        azselfplay.lab.experiments.ablation.parse,
        azselfplay.lab.experiments.on_games.parse,
    ):
        with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
            parse(["--help"])
        flags |= set(re.findall(r"--[\w-]+", text.getvalue()))
    return flags


def write_titled(files: dict[str, str], folder: Path) -> None:
    """Write the files that a page shows into `folder`, if they are files of the reader."""
    for name, content in files.items():
        if "/" not in name:
            (folder / name).write_text(content, encoding="utf-8")
