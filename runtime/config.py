"""Settings of a command: defaults < TOML file (`--config`; of several the last) < environment (`AZ_*`) <
flags.

A command's settings are one frozen dataclass whose field docstrings become the help texts. An unknown key or
variable is an error that names the nearest one. It is never ignored, because a setting that silently does
nothing costs a day of self-play. Supported types: int, float, str, bool, Path, Literal, those `| None`, and
dataclasses of them.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from games.names import with_board
from runtime.exits import Exit, Fatal
from runtime.help_texts import settings_rule
from runtime.reading import read_toml
from runtime.setting_hints import refuse_bare_game, refuse_foreign_flags, settings_in, what_was_meant
from runtime.version import version

T = TypeVar("T")

PREFIX = "AZ_"
NOT_SETTINGS = frozenset(
    {"AZ_JIT_CACHE", "AZ_BENCH_SECONDS", "AZ_CRASH_AT", "AZ_PROFILE", "AZ_PROFILE_AFTER"}
)
"""Variables with our prefix that are not settings of a command."""
FOREIGN = "AZ_BATCH_"
"""Azure Batch sets variables of this name on its machines."""
FOR_ALL_PROGRAMS = frozenset({"AZ_SERVER", "AZ_SERVER_KEY", "AZ_KEY", "AZ_KEYS"})
"""Variables that say how a machine reaches its server. They are exported once for all programs, so a program
without such a setting ignores them."""

_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False}
_BOOLEANS["off"] = False


def load(
    config_class: type[T],
    argv: Sequence[str] | None = None,
    *,
    command: str,
    examples: tuple[str, str, str, *tuple[str, ...]],
    description: str = "",
    environment: Mapping[str, str] | None = None,
) -> T:
    """Return the settings of `command`. `argv` (without the program's name) and `environment` default to this
    process's own.

    `description` is for `--help`; without one it is the docstring of `config_class`.

    Raises Fatal(CONFIG) for a wrong file or variable, and exits with 2 for a wrong flag. `--help`,
    `--version` and `--print-config` print and exit with 0.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "--version" in arguments:
        print(f"{command} {version()}")
        raise SystemExit(Exit.OK)
    values: dict[str, Any] = {}
    while (file := _take_option(arguments, "--config")) is not None:
        _merge(values, _from_file(config_class, Path(file)))
    printing = "--print-config" in arguments
    arguments = [argument for argument in arguments if argument != "--print-config"]
    environment = os.environ if environment is None else environment
    _merge(values, _from_environment(config_class, environment, command))
    about = description or inspect.getdoc(config_class) or ""
    config = _with_whole_game(_parse_flags(config_class, values, arguments, command, examples, about))
    if printing:
        print(to_toml(config), end="")
        raise SystemExit(Exit.OK)
    return config


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child process without our settings, which are passed to it as flags."""
    return {name: value for name, value in environment.items() if not _is_setting(name)}


def _is_setting(name: str) -> bool:
    return name.startswith(PREFIX) and not name.startswith(FOREIGN) and name not in NOT_SETTINGS


def _with_whole_game(config: T) -> T:
    """Return the settings with the size in `board` joined to the name in `game` (if there are such
    fields)."""
    settings: Any = config
    if not getattr(settings, "board", ""):
        return config
    try:
        whole = with_board(settings.game, settings.board)
    except ValueError as error:
        raise Fatal(f"--board: {error}", Exit.CONFIG) from None
    return cast(T, dataclasses.replace(settings, game=whole, board=""))


# ---- Flags ---------------------------------------------------------------------------------------


def _parse_flags(
    config_class: type[T],
    values: dict[str, Any],
    arguments: list[str],
    command: str,
    examples: tuple[str, str, str, *tuple[str, ...]],
    description: str,
) -> T:
    import tyro  # not at the top, so that processes without flags do not pay for it

    if "--help" in arguments or "-h" in arguments:
        print("examples:", *(f"  {example}" for example in examples), "", sep="\n")
        if any(field.name == "game" for field in dataclasses.fields(cast(Any, config_class))):
            from games.names import listed

            print("games:", listed(), end="\n\n")
    about = (
        f"{description}\n\nSettings are taken from defaults, then --config FILE.toml, then {PREFIX}* "
        f"environment variables (--some.thing is {PREFIX}SOME_THING), then flags; the last one counts. "
        "--print-config prints the result as TOML and exits."
    )
    default = _build(config_class, values, tyro.MISSING)
    refuse_bare_game(config_class, arguments, command)
    if not {"-h", "--help"} & set(arguments):
        refuse_foreign_flags(config_class, arguments, command)
    named = (tyro.conf.PositionalMetavarFromFieldName,)  # RUN, not STR
    registry = tyro.constructors.ConstructorRegistry()
    registry.struct_rule(settings_rule)
    return tyro.cli(
        config_class,
        prog=command,
        description=about,
        args=arguments,
        default=default,
        config=named,
        registry=registry,
    )


def _take_option(arguments: list[str], name: str) -> str | None:
    """Remove `name VALUE` or `name=VALUE` from the arguments and return the value."""
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{name}="):
            del arguments[index]
            return argument.partition("=")[2]
        if argument == name:
            if index + 1 == len(arguments):
                print(f"{name} needs a file name", file=sys.stderr)
                raise SystemExit(Exit.USAGE)
            value = arguments[index + 1]
            del arguments[index : index + 2]
            return value
    return None


def _build(config_class: type[T], values: Mapping[str, Any], missing: Any, base: Any = None) -> T:
    """Return an instance made of nested `values`, over `base` or the class's defaults, or `missing`."""
    arguments: dict[str, Any] = {}
    hints = get_type_hints(config_class)
    for field in dataclasses.fields(cast(Any, config_class)):
        if base is not None:
            default = getattr(base, field.name)
        elif field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = missing
        if dataclasses.is_dataclass(hints[field.name]):
            inner = None if default is missing else default
            default = _build(cast(type, hints[field.name]), values.get(field.name, {}), missing, inner)
        elif field.name in values:
            default = values[field.name]
        arguments[field.name] = default
    return config_class(**arguments)


# ---- File and environment ------------------------------------------------------------------------


def _from_file(config_class: type, file: Path) -> dict[str, Any]:
    try:
        table = read_toml(file)
    except OSError as error:
        raise Fatal(f"cannot read the settings file {file}: {error.strerror}", Exit.CONFIG) from error
    except ValueError as error:
        raise Fatal(f"{file} is not TOML: {error}", Exit.CONFIG) from error
    known = dict(settings_in(config_class))
    values: dict[str, Any] = {}
    for path, value in _entries(table):
        if path not in known:
            name = ".".join(path)
            _unknown(f"{file}: {name!r}", name, [".".join(one) for one in known])
        _put(values, path, _checked(value, known[path], f"{file}: {'.'.join(path)}"))
    return values


def _from_environment(config_class: type, environment: Mapping[str, str], command: str) -> dict[str, Any]:
    known = {_variable(".".join(path)): (path, kind) for path, kind in settings_in(config_class)}
    values: dict[str, Any] = {}
    for name in sorted(environment):
        if not _is_setting(name):
            continue
        if name not in known:
            if name in FOR_ALL_PROGRAMS:
                continue
            _unknown(f"the environment variable {name}", name, list(known), f" of {command}; unset it")
        path, kind = known[name]
        _put(values, path, _parsed(environment[name], kind, f"environment variable {name}"))
    return values


def _entries(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _entries(value, (*path, key))
        else:
            yield (*path, key), value


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        values = values.setdefault(key, {})
    values[path[-1]] = value


def _merge(values: dict[str, Any], over: Mapping[str, Any]) -> None:
    for path, value in _entries(over):
        _put(values, path, value)


def _variable(path: str) -> str:
    return PREFIX + path.replace(".", "_").upper()


def _unknown(what: str, name: str, known: Sequence[str], more: str = "") -> None:
    """Raise Fatal for an unknown name."""
    raise Fatal(f"{what} is not a setting{more}{what_was_meant(name, known)}; --help lists all", Exit.CONFIG)


# ---- Paths ---------------------------------------------------------------------------------------


def flattened(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of nested tables by their paths, such as "search.c_init". An empty table yields
    nothing."""
    return {".".join(path): value for path, value in _entries(table)}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables: the inverse of `flattened`."""
    tables: dict[str, Any] = {}
    for path, value in values.items():
        _put(tables, tuple(path.split(".")), value)
    return tables


# ---- Values --------------------------------------------------------------------------------------


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _checked(value: Any, kind: Any, where: str) -> Any:
    """Return a TOML value as the type of its setting. Raises Fatal(CONFIG)."""
    for one in _alternatives(kind):
        if get_origin(one) is Literal and value in get_args(one):
            return value
        if one is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if one is Path and isinstance(value, str):
            return Path(value)
        if one in (int, float, str, bool) and type(value) is one:
            return value
    raise Fatal(f"{where} must be {_type_name(kind)}, not {value!r}", Exit.CONFIG)


def _parsed(text: str, kind: Any, where: str) -> Any:
    """Return the text of a variable as the type of its setting. Raises Fatal(CONFIG)."""
    for one in _alternatives(kind):
        try:
            if one is bool:
                return _BOOLEANS[text.lower()]
            if get_origin(one) is Literal:
                return next(choice for choice in get_args(one) if str(choice) == text)
            if one is not types.NoneType:
                return one(text)
        except (ValueError, KeyError, StopIteration):
            continue
    raise Fatal(f"{where} must be {_type_name(kind)}, not {text!r}", Exit.CONFIG)


def _type_name(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", Path: "a path"}
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(kind))
    known = [one for one in _alternatives(kind) if one is not types.NoneType]
    return names.get(kind) or " or ".join(names.get(one, str(one)) for one in known)


def check_ranges(config: Any, group: str = "", /, **ranges: tuple[float, float]) -> None:
    """Raise Fatal(CONFIG) for the first setting outside its range. Both ends are included; `math.inf` is no
    limit. A setting that is None was not given and has no range.

    group: prefix of their names, such as `quota.`
    """
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if value is not None and not low <= value <= high:
            limits = f"lie between {low} and {high}" if high < math.inf else f"be at least {low}"
            flag = f"--{group}{name}".replace("_", "-")
            raise Fatal(f"{flag} is {value}, but must {limits}", Exit.CONFIG)


# ---- Back to TOML --------------------------------------------------------------------------------


def to_toml(config: Any, table: str = "") -> str:
    """Return settings (a dataclass or a mapping) as a TOML file for `--config`. Settings that are None are
    left out. Raises TypeError for values that cannot be settings."""
    mapping = isinstance(config, Mapping)
    names = config if mapping else (field.name for field in dataclasses.fields(config))
    lines: list[str] = [f"\n[{table}]"] if table else []
    nested: list[str] = []
    for name in names:
        value = config[name] if mapping else getattr(config, name)
        if isinstance(value, Mapping) or dataclasses.is_dataclass(value):
            nested.append(to_toml(value, f"{table}.{name}" if table else name))
        elif value is not None:
            lines.append(f"{name} = {_toml_value(value)}")
    return "\n".join(lines) + "\n" + "".join(nested)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if not isinstance(value, str | Path):
        raise TypeError(f"{value!r} cannot be a setting")
    # As in JSON, except for DEL, which TOML requires to be escaped.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
