"""The real programs accept every command on a page, and every flag on a page exists."""

import re
from pathlib import Path

import pytest
from doc_commands import PAGES, blocks, named, shown, titled
from real_parsers import check, check_make, known_flags, settings_in_force, write_titled

from azselfplay.lab.azplay import COMMANDS as AZPLAY
from azselfplay.lab.generated_pages import settings_page

OF_OTHERS = {
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
                assert command in AZPLAY, f"{page.name}: {one.text}"
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
