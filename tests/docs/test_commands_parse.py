"""The real programs accept every command on a page, and every flag on a page exists."""

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
from doc_commands import PAGES, ROOT, blocks, named, shown, titled

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
from azselfplay.lab.azplay import COMMANDS as AZPLAY
from azselfplay.lab.generated_pages import settings_page

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


OF_OTHERS = {
    "--tyro-print-completion",  # of every program
    *("--hypothesis-profile", "--hypothesis-seed", "--strict", "--quiet"),  # pytest, mypy, mkdocs
    *("--mode", "--positional-superko", "--allow-suicide"),  # gnugo
    *("--no-compile", "--editable", "--find-links", "--force-reinstall", "--no-deps"),  # pip
    *("--cpus",),  # docker
    *("--standalone", "--nproc-per-node", "--max-restarts"),  # torchrun
    *("--head", "--address", "--labels"),  # ray
    *("--directory",),  # python -m http.server
}
PLACEHOLDERS = ("NAME", "GAME", "RUN", "-hex")
"""Hex is the game that the tutorial adds."""
PAGES_OF_COMMANDS = [page for page in PAGES if shown(page)]
DEPLOY = "deploy.md"
"""The page's commands belong to other programs, and tests/deploy checks them."""


@pytest.mark.parametrize("page", PAGES_OF_COMMANDS, ids=lambda page: page.name)
def test_the_programs_take_every_command_of_a_page(page: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_titled(titled(page), tmp_path)
    for one in shown(page):
        if one.is_grammar:
            continue
        made = re.search(r"--print-config > (\S+)", one.text)
        if made:
            program, *arguments = one.words
            arguments.remove("--print-config")
            (tmp_path / made[1]).write_text(settings_in_force(program, arguments))
        else:
            check(one.words)


def test_there_are_commands_on_the_pages() -> None:
    assert sum(len(shown(page)) for page in PAGES) > 70


def test_commands_named_in_the_text_exist() -> None:
    for page in PAGES:
        for one in named(page):
            program, command = one.text.split()[:2]
            if program == "azplay":
                assert command in AZPLAY or command in OF_OTHERS, f"{page.name}: {one.text}"
            elif program == "make" and not command.endswith(PLACEHOLDERS):
                check_make([command])


def test_every_flag_on_a_page_is_one_of_a_program() -> None:
    known = known_flags(settings_page()) | OF_OTHERS | {"--trainer"}  # azclient keygen has the last
    for page in PAGES:
        if page.name == DEPLOY:
            continue
        text = page.read_text(encoding="utf-8")
        code = re.findall(r"`([^`\n]+)`", text)
        code += [line for language, lines in blocks(text) if language in ("", "sh") for line in lines]
        flags = {flag for one in code for flag in re.findall(r"(?<![\w-])--[a-z][\w.-]*[\w*]", one)}
        unknown = {flag for flag in flags if not _is_known(flag, known)}
        assert unknown == set(), page.name


def _is_known(flag: str, known: set[str]) -> bool:
    """Return whether a flag is known: as it is, or with `*` for all of a group."""
    flag = flag.replace("_", "-")
    return any(one.startswith(flag[:-1]) for one in known) if flag.endswith("*") else flag in known
