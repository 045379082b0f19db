"""Settings of a command: defaults < TOML files (`--config`; a later file counts more) < environment (`AZ_*`)
< flags.

A command's settings are one frozen dataclass whose field docstrings become the help texts. An unknown key or
variable is an error that names the nearest one. It is never ignored, because a setting that silently does
nothing costs a day of self-play. A value that its type does not allow (`protocol.settings`) is an error that
says what is allowed.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from azselfplay.games.names import with_board
from azselfplay.host.exits import BESIDE, Exit, Fatal, as_fatal
from azselfplay.host.flags import parse_flags, what_was_meant
from azselfplay.host.reading import read_toml
from protocol.settings import changed, check_settings, converted, settings_in

T = TypeVar("T")

NAME = "azselfplay"
UNKNOWN = "unknown"
PREFIX = "AZ_"
NOT_SETTINGS = frozenset({"AZ_JIT_CACHE", "AZ_CUDA_KERNELS", "AZ_BENCH_SECONDS", "AZ_CRASH_AT"})
"""Variables with our prefix that are not settings of a command."""
FOREIGN = "AZ_BATCH_"
"""Prefix of the variables that Azure Batch sets on its machines."""
FOR_ALL_PROGRAMS = frozenset({"AZ_SERVER", "AZ_SERVER_KEY", "AZ_KEY", "AZ_KEYS"})
"""Variables that say how a machine reaches its server. They are exported once for all programs, so a program
without such a setting ignores them."""


def load(
    config_class: type[T],
    argv: Sequence[str] | None = None,
    *,
    command: str,
    examples: tuple[str, str, str, *tuple[str, ...]],
    description: str = "",
    environment: Mapping[str, str] | None = None,
) -> T:
    """Return the settings of `command`. `argv` (without the program's name) and `environment` default to
    those of this process.

    The docstring of `config_class` is the description of `--help`, unless `description` is given.

    Raises Fatal(CONFIG) for a wrong file or variable, and exits with 2 for a wrong flag. `--help`,
    `--version` and `--print-config` print and exit with 0.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # This comes first, so that `--version` also works with a wrong file or variable.
    if "--version" in arguments:
        print(f"{command} {version()}")
        raise SystemExit(Exit.OK)
    usage = f"{command} [--config FILE.toml] [--print-config] [settings]; --help lists them"
    parser = argparse.ArgumentParser(command, usage, add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path, action="append", default=[])
    parser.add_argument("--print-config", action="store_true")
    options, arguments = parser.parse_known_args(arguments)
    values: dict[str, Any] = {}
    # Several files may be given, for example a general one and one with the differences. A later file counts
    # more.
    for file in options.config:
        values |= _from_file(config_class, file)
    environment = os.environ if environment is None else environment
    values |= _from_environment(config_class, environment, command)
    what = description or inspect.getdoc(config_class) or ""
    about = (
        f"{what}\n\nSettings are taken from defaults, then --config FILE.toml, then {PREFIX}* environment "
        f"variables (--some.thing is {PREFIX}SOME_THING), then flags; the last one counts. "
        "--print-config prints the result as TOML and exits."
    )
    config = parse_flags(config_class, values, arguments, command, examples, about)
    given = {name: attrgetter(name)(config) for name in settings_in(cast(type, config_class))}
    config = changed(config, {name: _with_home(value) for name, value in given.items()})
    # Ranges are checked once all sources are joined: a file may be corrected by a flag.
    try:
        check_settings(config)
    except ValueError as error:
        name, _, why = str(error).partition(" ")
        raise Fatal(f"--{name.replace('_', '-')} {why}", Exit.CONFIG) from None
    # From here on the name of the game includes the size of its board.
    settings: Any = config
    if getattr(settings, "board", ""):
        with as_fatal(ValueError, Exit.CONFIG, "--board: "):
            whole = with_board(settings.game, settings.board)
        config = cast(T, dataclasses.replace(settings, game=whole, board=""))
    if options.print_config:
        print(to_toml(config), end="")
        raise SystemExit(Exit.OK)
    return config


def _with_home(value: Any) -> Any:
    """Return a setting with the home in place of a path's `~`, which is the shell's: bash leaves it in
    `--runs=~/runs` and in `@~/file`. Other text stays."""
    if isinstance(value, str) and value.startswith(("~/", "@~/")):
        return value.replace("~", os.path.expanduser("~"), 1)  # noqa: PTH111 (Path.expanduser may raise)
    return Path(os.path.expanduser(value)) if isinstance(value, Path) else value  # noqa: PTH111


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child process without our settings, which are passed to it as flags."""
    return {name: value for name, value in environment.items() if not _is_setting(name)}


def _is_setting(name: str) -> bool:
    return name.startswith(PREFIX) and not name.startswith(FOREIGN) and name not in NOT_SETTINGS


# ---- File and environment ------------------------------------------------------------------------


def _from_file(config_class: type, file: Path) -> dict[str, Any]:
    try:
        table = read_toml(file)
    except OSError as error:
        raise Fatal(f"cannot read the settings file {file}: {error.strerror}", Exit.CONFIG) from error
    except ValueError as error:
        raise Fatal(f"{file} is not TOML: {error}", Exit.CONFIG) from error
    known = settings_in(config_class)
    # A program wrote the files in a run's folder, perhaps in a version with more settings.
    is_of_run = (file.parent / "run.json").is_file()
    values: dict[str, Any] = {}
    for name, value in flattened(table).items():
        if name not in known:
            if is_of_run:
                print(f"{file}: {name!r} is no setting of this version and is left out", file=sys.stderr)
                continue
            _unknown(f"{file}: {name!r}", name, list(known))
        values[name] = _converted(value, known[name], f"{file}: {name}")
    return values


def _from_environment(config_class: type, environment: Mapping[str, str], command: str) -> dict[str, Any]:
    kinds = settings_in(config_class)
    known = {PREFIX + name.replace(".", "_").upper(): name for name in kinds}
    values: dict[str, Any] = {}
    # Sorted, so that the error names the same variable each time if several are wrong.
    for variable in sorted(filter(_is_setting, environment)):
        if variable in known:
            name, where = known[variable], f"environment variable {variable}"
            # Environment variables are text, so numbers are parsed from text (not strict).
            values[name] = _converted(environment[variable], kinds[name], where, strict=False)
        elif variable not in FOR_ALL_PROGRAMS:
            what = f"the environment variable {variable}"
            _unknown(what, variable, list(known), f" of {command}; unset it")
    return values


def _converted(value: Any, kind: Any, where: str, *, strict: bool = True) -> Any:
    with as_fatal(ValueError, Exit.CONFIG, f"{where} "):
        return converted(value, kind, strict=strict)


def _unknown(what: str, name: str, known: Sequence[str], more: str = "") -> NoReturn:
    """Raise Fatal for an unknown name."""
    raise Fatal(f"{what} is not a setting{more}{what_was_meant(name, known)}; --help lists all", Exit.CONFIG)


# ---- Names ---------------------------------------------------------------------------------------


def flattened(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of nested tables by their names, such as "search.c_init". An empty table yields
    nothing."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= {f"{key}.{name}": one for name, one in flattened(value).items()}
        else:
            found[key] = value
    return found


def received(config_class: type[T], tables: Mapping[str, Any]) -> T:
    """Return settings that another program sent as nested tables. Raises ValueError for a value that is not
    allowed, and for a setting that this version does not know."""
    # msgspec ignores names that it does not know.
    if unknown := flattened(tables).keys() - settings_in(cast(type, config_class)).keys():
        raise ValueError(f"{min(unknown)!r} is no setting of this version")
    return msgspec.convert(tables, config_class)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables: the inverse of `flattened`."""
    tables: dict[str, Any] = {}
    for name, value in values.items():
        *groups, last = name.split(".")
        table = tables
        for group in groups:
            table = table.setdefault(group, {})
        table[last] = value
    return tables


# ---- Back to TOML --------------------------------------------------------------------------------


def to_toml(config: Any, table: str = "") -> str:
    """Return settings (a dataclass or a mapping) as a TOML file for `--config`. Settings that are None are
    left out. Raises TypeError for values that cannot be settings."""
    mapping = isinstance(config, Mapping)
    names = config if mapping else (field.name for field in dataclasses.fields(config))
    lines: list[str] = [f"\n[{table}]"] if table else []
    # Tables come last: in TOML, all lines after a table's header belong to that table.
    nested: list[str] = []
    for name in names:
        value = config[name] if mapping else getattr(config, name)
        if value is None:
            continue
        if isinstance(value, Mapping) or dataclasses.is_dataclass(value):
            nested.append(to_toml(value, f"{table}.{name}" if table else name))
        elif isinstance(value, bool):
            lines.append(f"{name} = {'true' if value else 'false'}")
        elif isinstance(value, int | float):
            lines.append(f"{name} = {value!r}")
        elif isinstance(value, str | Path):
            # As in JSON, except for DEL, which TOML requires to be escaped.
            text = json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{name} = {text}")
        else:
            raise TypeError(f"{value!r} cannot be a setting")
    return "\n".join(lines) + "\n" + "".join(nested)


# ---- Version -------------------------------------------------------------------------------------


@cache
def version() -> str:
    """Return a version such as `0.1.0+9c1ff05a`. After the plus sign comes a hash of our sources, which
    distinguishes installations with the same version number. The number is `unknown` if azselfplay runs from
    its source folder without being installed."""
    from importlib.metadata import PackageNotFoundError, version  # some commands never need it

    digest, home = hashlib.sha256(), Path(__file__).resolve().parents[2]
    for package in (NAME, *BESIDE):
        for path in sorted((home / package).rglob("*.py")):
            digest.update(f"{path.relative_to(home)} ".encode() + path.read_bytes())
    try:
        number = version(NAME)
    except PackageNotFoundError:
        number = UNKNOWN
    return f"{number}+{digest.hexdigest()[:8]}"


def software() -> str:
    """Return the name and version that peers tell each other: `azselfplay 0.1.0+9c1ff05a`."""
    return f"{NAME} {version()}"
