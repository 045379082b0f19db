"""Guesses what was meant by a setting that a command does not have."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from azselfplay.games.names import is_game, near
from azselfplay.host.exits import Exit
from protocol.settings import settings_in

PROGRAMS = {
    "azserver": ("server.config", "ServerConfig", "--server-config"),
    "azclient": ("client.config", "ClientConfig", "--client-config"),
    "the trainer": ("trainer.config", "TrainerConfig", "--trainer-config"),
}
"""By program: where its settings are, and azrun's flag for the file with them. Imported by name and only
for a hint: a machine need not have all of them."""
COMMANDS = {"azrun": "", "azserver": "azserver", "azclient": "azclient", "python -m trainer": "the trainer"}


def what_was_meant(name: str, known: Sequence[str]) -> str:
    """Return text to follow "... is not a setting": the nearest of `known`, or the program with this
    group."""
    group = name.partition(".")[0]
    if not any(one.partition(".")[0] == group for one in known):
        for program, (names, flag) in _programs().items():
            if name in names or any(one.startswith(f"{group}.") for one in names):
                return f"; {group} belongs to {program}: put it into its file (azrun: {flag})"
    if meant := near(name, known):
        return f"; the nearest is {meant!r}"
    return ""


def _programs() -> dict[str, tuple[list[str], str]]:
    """Names of all settings, and azrun's flag, by program; of those that are installed."""
    found = {}
    for program, (module, config_class, flag) in PROGRAMS.items():
        with contextlib.suppress(ImportError):
            settings = settings_in(getattr(importlib.import_module(module), config_class))
            found[program] = list(settings), flag
    return found


def refuse_foreign_flags(config_class: type, arguments: Sequence[str], command: str) -> None:
    """Exit with USAGE at the first flag that another program of a run has, and say how to give it."""
    if command not in COMMANDS:
        return
    known = list(settings_in(config_class))
    for index, argument in enumerate(arguments):
        flag, _, given = argument.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("--") or {name, _positive(name)} & {*known, "help"}:
            continue
        value = given or next(iter(arguments[index + 1 : index + 2]), "")
        if way := _way(name, "" if value.startswith("--") else value, known, command):
            print(f"{command}: error: {flag} is not a flag of {command}; {way}", file=sys.stderr)
            raise SystemExit(Exit.USAGE)


def _way(name: str, value: str, known: Sequence[str], command: str) -> str:
    """How to give the setting `name`; "" if it is of no program."""
    own = [one for one in known if one.rpartition(".")[2] == name]
    if own:
        return "did you mean " + " or ".join("--" + one.replace("_", "-") for one in own) + "?"
    programs = {program: found for program, found in _programs().items() if program != COMMANDS[command]}
    for wanted in (name, _positive(name)):
        if owners := [program for program, (names, _) in programs.items() if wanted in names]:
            files = " or ".join(programs[one][1] for one in owners)
            text = value if wanted == name else "false"
            return f"it is one of {' and '.join(owners)}: {_in_file(wanted, text, command, owners, files)}"
    group = f"{name.partition('.')[0]}."
    for program, (names, _) in programs.items():
        if "." in name and any(one.startswith(group) for one in names):
            meant = near(name, names)
            more = f"; the nearest there is --{meant.replace('_', '-')}" if meant else ""
            where = programs[program][1]
            return f"{group[:-1]} belongs to {program}, whose file azrun takes as {where}{more}"
    return ""


def _positive(name: str) -> str:
    """The setting that a flag such as `--a.no-b` turns off."""
    group, dot, last = name.rpartition(".")
    return group + dot + last.removeprefix("no_")


def _in_file(name: str, value: str, command: str, owners: Sequence[str], files: str) -> str:
    table, _, last = name.rpartition(".")
    is_plain = re.fullmatch(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?|true|false", value)
    text = value if is_plain else json.dumps(value) if value else "true"  # only a truth value needs no value
    lines = "\n".join([*([f"  [{table}]"] if table else []), f"  {last} = {text}"])
    if command == "azrun":
        return f"give azrun {files} FILE, with a file of\n{lines}"
    return f"give it to {' or '.join(owners)}, or to azrun with {files} FILE, a file of\n{lines}"


def refuse_bare_game(config_class: Any, arguments: Sequence[str], command: str) -> None:
    """Exit with USAGE if the first argument is a game's name and the command has a flag for it."""
    fields = {field.name: str(field.type) for field in dataclasses.fields(config_class)}
    if "game" not in fields or any(kind.startswith("Positional") for kind in fields.values()):
        return
    if arguments and is_game(arguments[0]):
        print(f"{command}: did you mean `{command} --game {arguments[0]}`?", file=sys.stderr)
        raise SystemExit(Exit.USAGE)
