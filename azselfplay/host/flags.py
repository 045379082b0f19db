"""Flags of a command, which tyro makes from a dataclass of settings: their help texts, and suggestions for a
flag that the command does not have.

The help text of a setting is the docstring below its field. tyro finds these docstrings by itself, but keeps
the line breaks of the source, which do not fit a terminal.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import inspect
import itertools
import json
import re
import sys
import textwrap
import types
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, Union, cast, get_origin, get_type_hints

from azselfplay.games.names import is_game, listed, near
from azselfplay.host.exits import Exit, Fatal
from protocol.settings import bare, changed, settings_in

if TYPE_CHECKING:
    from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructTypeInfo

T = TypeVar("T")

_METAVARS = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}
"""tyro's names for these types."""
PROGRAMS = {
    "azserver": ("server.config", "ServerConfig", "--server-config"),
    "azclient": ("client.config", "ClientConfig", "--client-config"),
    "the trainer": ("trainer.config", "TrainerConfig", "--trainer-config"),
}
"""For each program: the module and class of its settings, and azrun's flag for the file with these settings.
The modules are imported by name, and only for a hint, because a machine need not have all programs."""
COMMANDS = {"azrun": "", "azserver": "azserver", "azclient": "azclient", "python -m trainer": "the trainer"}


def parse_flags(
    config_class: type[T],
    values: dict[str, Any],
    arguments: list[str],
    command: str,
    examples: tuple[str, str, str, *tuple[str, ...]],
    about: str,
) -> T:
    """Return the settings after applying the flags in `arguments`. `values`: settings from other sources, by
    name; `about`: text for `--help`. Exits with 2 for a wrong flag, and with 0 after `--help`."""
    import tyro  # not at the top, so that processes without flags do not pay for it

    fields = dataclasses.fields(cast(Any, config_class))
    if is_help := bool({"-h", "--help"} & set(arguments)):
        print("examples:", *(f"  {example}" for example in examples), "", sep="\n")
        if any(field.name == "game" for field in fields):
            print("games:", listed(), end="\n\n")
    # tyro shows these as defaults, and a flag replaces them.
    default = changed(_defaults(config_class), values)
    _check_shell(arguments)
    refuse_bare_game(config_class, arguments, command)
    if not is_help:
        refuse_foreign_flags(config_class, arguments, command)
    return tyro.cli(
        config_class,
        prog=command,
        description=about,
        args=arguments,
        default=default,
        config=(tyro.conf.PositionalMetavarFromFieldName,),  # RUN, not STR
        registry=_registry(),
    )


def print_completion(commands: dict[str, type], arguments: list[str]) -> NoReturn:
    """Print what a shell needs to complete `azplay`, with the settings of its `commands`; `arguments`:
    `--tyro-print-completion SHELL`. Other programs print theirs in `parse_flags`."""
    import tyro

    _check_shell(arguments)
    choices = (
        Annotated[kind, tyro.conf.subcommand(name, default=_defaults(kind))]
        for name, kind in commands.items()
    )
    any_command: Any = Union[tuple(choices)]  # noqa: UP007 (`|` joins types that are written out)
    tyro.cli(any_command, prog="azplay", args=arguments, registry=_registry())
    raise SystemExit(Exit.USAGE)  # not reached: tyro exits


def _check_shell(arguments: list[str]) -> None:
    """Raise Fatal(USAGE) for a shell that cannot be completed: tyro would end with an AssertionError."""
    for flag, shell in itertools.pairwise(arguments):
        if flag == "--tyro-print-completion" and shell not in ("bash", "zsh", "fish"):
            raise Fatal(f"{flag} {shell}: give bash, zsh or fish", Exit.USAGE)


def _defaults(config_class: type[T]) -> T:
    """Return settings of which those without a default are MISSING: tyro reports them if no flag sets
    them."""
    import tyro

    fields = dataclasses.fields(cast(Any, config_class))
    needed = (one.name for one in fields if one.default is one.default_factory is dataclasses.MISSING)
    return config_class(**dict.fromkeys(needed, tyro.MISSING))


def _registry() -> ConstructorRegistry:
    import tyro

    registry = tyro.constructors.ConstructorRegistry()
    registry.struct_rule(settings_rule)
    return registry


# ---- Help ----------------------------------------------------------------------------------------


@cache
def field_docstrings(config_class: type) -> dict[str, str]:
    """Return the text below each field, from the class and its base classes, on one line."""
    found: dict[str, str] = {}
    # Base classes first, so that a class may describe an inherited field anew.
    for one in reversed(config_class.__mro__):
        if not dataclasses.is_dataclass(one):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0].body  # type: ignore[attr-defined]
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                target, value = field.target, text.value
                if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                    found[target.id] = " ".join(str(value.value).split())
    return found


def settings_rule(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Tell tyro how to build a dataclass of settings. Texts are read only for `--help`."""
    import tyro
    from tyro.constructors import StructConstructorSpec, StructFieldSpec

    # A generic one is tyro's own wrapper of a subcommand.
    if not dataclasses.is_dataclass(info.type) or hasattr(info.type, "__parameters__"):
        return None
    settings = info.type
    hints = get_type_hints(settings, include_extras=True)
    fields = []
    for field in dataclasses.fields(settings):
        kind = hints[field.name]
        # `Path | None` is shown as PATH, and the text explains the default.
        if get_origin(kind) in (Union, types.UnionType):
            kind = Annotated[kind, tyro.conf.arg(metavar=_METAVARS.get(bare(kind)[0], ""))]
        text = partial(lambda name: field_docstrings(settings).get(name, ""), field.name)
        fields.append(StructFieldSpec(field.name, kind, getattr(info.default, field.name), text))
    return StructConstructorSpec(instantiate=settings, fields=tuple(fields))


# ---- What was meant ------------------------------------------------------------------------------


def what_was_meant(name: str, known: Sequence[str]) -> str:
    """Return the text that follows "... is not a setting": the nearest name in `known`, or the program that
    has this group of settings."""
    name = _in_program(name)
    group = name.partition(".")[0]
    if not any(one.partition(".")[0] == group for one in known):
        for program, (names, flag) in _programs().items():
            if name in names or any(one.startswith(f"{group}.") for one in names):
                return f"; {group} belongs to {program}: put it into its file (azrun: {flag})"
    if meant := near(name, known):
        return f"; the nearest is {meant!r}"
    return ""


def _programs() -> dict[str, tuple[list[str], str]]:
    """Return the names of all settings and azrun's flag, for each program that is installed."""
    found = {}
    for program, (module, config_class, flag) in PROGRAMS.items():
        with contextlib.suppress(ImportError):
            settings = settings_in(getattr(importlib.import_module(module), config_class))
            found[program] = list(settings), flag
    return found


def refuse_foreign_flags(config_class: type, arguments: Sequence[str], command: str) -> None:
    """Exit with USAGE at the first flag that belongs to another program of a run, and say how to give it to
    that program."""
    # All other commands take no part in a run with these programs.
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


def _in_program(name: str) -> str:
    """Return the setting's name without its program: recipes write `trainer.optimizer.lr` for the trainer's
    `optimizer.lr`."""
    return re.sub(r"^(server|client|trainer)\.", "", name)


def _way(name: str, value: str, known: Sequence[str], command: str) -> str:
    """Return text that says how to give the setting `name`; "" if no program has it."""
    name = _in_program(name)
    own = [one for one in known if name in (one, one.rpartition(".")[2])]
    if own:
        return "did you mean " + " or ".join("--" + one.replace("_", "-") for one in own) + "?"
    programs = {program: found for program, found in _programs().items() if program != COMMANDS[command]}
    # A setting of another program; `--a.no-b` turns its setting `a.b` off.
    for wanted in (name, _positive(name)):
        if owners := [program for program, (names, _) in programs.items() if wanted in names]:
            files = " or ".join(programs[one][1] for one in owners)
            text = value if wanted == name else "false"
            if not re.fullmatch(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?|true|false", text):
                text = json.dumps(text) if text else "true"  # only a boolean flag needs no value
            table, _, last = wanted.rpartition(".")
            lines = "\n".join([*([f"  [{table}]"] if table else []), f"  {last} = {text}"])
            to_do = f"give it to {' or '.join(owners)}, or to azrun with {files} FILE, a file of"
            if command == "azrun":
                to_do = f"give azrun {files} FILE, with a file of"
            return f"it is one of {' and '.join(owners)}: {to_do}\n{lines}"
    # No program has this setting, but another program has one with a similar name, or a group of that name.
    group = f"{name.partition('.')[0]}."
    for program, (names, flag) in programs.items():
        meant = near(name, names) if "." in name and not near(name, known) else None
        if "." in name and any(one.startswith(group) for one in names):
            more = f"; the nearest there is --{meant.replace('_', '-')}" if meant else ""
            return f"{group[:-1]} belongs to {program}, whose file azrun takes as {flag}{more}"
        if meant:
            return f"the nearest is {meant} of {program}, whose file azrun takes as {flag}"
    return ""


def _positive(name: str) -> str:
    """Return the name of the setting that a flag such as `--a.no-b` turns off."""
    group, dot, last = name.rpartition(".")
    return group + dot + last.removeprefix("no_")


def refuse_bare_game(config_class: Any, arguments: Sequence[str], command: str) -> None:
    """Exit with USAGE if the first argument is a game's name and the command has a flag for it."""
    fields = {field.name: str(field.type) for field in dataclasses.fields(config_class)}
    if "game" not in fields or any(kind.startswith("Positional") for kind in fields.values()):
        return
    if arguments and is_game(arguments[0]):
        print(f"{command}: did you mean `{command} --game {arguments[0]}`?", file=sys.stderr)
        raise SystemExit(Exit.USAGE)
