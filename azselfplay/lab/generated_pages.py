"""`python -m azselfplay.lab.generated_pages`: writes the generated pages of docs/.

Every setting of every command comes from the dataclasses that the commands read: names, types, defaults, and
the docstrings below the fields. The pages are committed, so that links to them work on GitHub and in a clone.
`make docs` regenerates them, and tests/docs/test_generated_pages.py fails while they are out of date.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from tyro.conf import Positional

from azselfplay.host.flags import field_docstrings
from azselfplay.lab.azplay import SETTINGS
from protocol.settings import allowed, bare

DOCS = Path("docs")

DECISIONS = """# Decisions

Each page is one choice against a real alternative: what was chosen, why, what was measured, and the price.
Other reasons are in the docstrings of the modules. Gaps in the numbering are choices about things that are
gone.

"""

COMMANDS = {
    "azrun": ("azselfplay.lab.azrun_config", "RunConfig"),
    "azserver": ("server.config", "ServerConfig"),
    "azclient": ("client.config", "ClientConfig"),
    "azserver doctor": ("server.doctor", "DoctorConfig"),
    "azclient doctor": ("client.doctor", "DoctorConfig"),
    "python -m trainer": ("trainer.config", "TrainerConfig"),
    "azcluster": ("azselfplay.lab.azcluster", "ClusterConfig"),
    **{f"azplay {name}": settings for name, settings in SETTINGS.items()},
    "azplay games RUN import": ("azselfplay.lab.report.games_command", "ImportConfig"),
}
"""Command: (module, dataclass) of its settings."""

INTRODUCTION = """# Settings

This page is made from the code (`make docs`); do not edit it. `COMMAND --help` shows the same.

A command takes its settings from four places; the last one that names a setting wins:

1. the default;
2. a TOML file, given with `--config FILE.toml`. Groups are tables: `search.simulations` under `[self_play]`;
3. an environment variable: `AZ_` and the path in capitals, with `_` for each dot.
   `--self-play.search.simulations` is `AZ_SELF_PLAY_SEARCH_SIMULATIONS`;
4. a flag, as written below.

`--print-config` prints the result as TOML, which `--config` takes. A name that does not exist is an error
that names the nearest one. A name without dashes in the tables is an argument: write its value alone.

## What people change

"""

CHANGED = {
    "azrun": ("game", "board", "recipe", "minutes", "run", "net", "gpus", "simulations", "client_workers"),
    "azserver": ("workers", "listen"),
    "azclient": ("server", "device", "drain"),
    "python -m trainer": ("device", "optimizer.batch", "optimizer.lr", "samples.per_position"),
}
"""The settings at the beginning of the page, by command."""

# tyro's internal mark for positional arguments, which has no public name.
IS_POSITIONAL = get_args(Positional[int])[1]


def main() -> None:
    """Write the pages that have changed."""
    for path, text in generated_pages(DOCS).items():
        # Do not rewrite unchanged files, so that they keep their modification time.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{path} has changed: commit it")


def generated_pages(docs: Path) -> dict[Path, str]:
    """Return the texts of the pages, by their paths below `docs`."""
    decisions = docs / "decisions"
    return {docs / "settings.md": settings_page(), decisions / "index.md": decisions_page(decisions)}


def decisions_page(folder: Path) -> str:
    """Return the index of `folder`: a line for each decision, with the title of its page."""
    lines = []
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0]
        lines.append(f"- [{path.name[:4]}]({path.name}) {re.sub(r'^# *[0-9]+[.]? *', '', title)}")
    return DECISIONS + "\n".join(lines) + "\n"


def settings_page() -> str:
    """Return the whole page, as Markdown."""
    parts = [INTRODUCTION + changed_table()]
    shown: dict[type, str] = {}
    for command, (module, name) in COMMANDS.items():
        config_class = getattr(importlib.import_module(module), name)
        found = list(settings_of(config_class))
        note, base = "", next((one for one in config_class.__mro__[1:] if one in shown), None)
        if base is not None:
            note = f"All settings of [{shown[base]}](#{shown[base]}), and:\n\n"
            # Leave out settings that the page already has for the base class.
            known = {one.path for one in settings_of(base)}
            found = [one for one in found if one.path not in known]
        shown[config_class] = command
        parts.append(f"## {command}\n\n{note}")
        # One table for the settings without a group, then one for each group.
        groups: dict[str, list[Setting]] = {}
        for one in found:
            groups.setdefault(one.path.rpartition(".")[0], []).append(one)
        lines: list[str] = []
        # "" first: settings without a group.
        for group in sorted(groups, key=bool):
            if group:
                lines += [f"### {'--' + group.replace('_', '-')}.*", ""]
            lines += ["| setting | type | default | meaning |", "|---|---|---|---|"]
            for one in groups[group]:
                # A bar would end the cell, `<` begin a tag, and stars would set words in italics.
                meaning = one.meaning.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
                lines.append(f"| `{one.name}` | {one.kind} | {one.default} | {meaning} |")
            lines.append("")
        parts[-1] += "\n".join(lines)
    return "\n".join(parts)


def changed_table() -> str:
    """Return the table of `CHANGED`: each setting with the first sentence about it."""
    lines = ["| command | setting | default | meaning |", "|---|---|---|---|"]
    for command, names in CHANGED.items():
        module, name = COMMANDS[command]
        found = {one.path: one for one in settings_of(getattr(importlib.import_module(module), name))}
        for one in map(found.__getitem__, names):
            meaning = re.split(r"[.;:] | \(", one.meaning, maxsplit=1)[0].rstrip(".")
            link = f"[{command}](#{command.replace(' ', '-')})"
            lines.append(f"| {link} | `{one.name}` | {one.default} | {meaning} |")
    return "\n".join(lines) + "\n"


class Setting(NamedTuple):
    """One row of the page."""

    path: str
    """With dots between groups, such as `self_play.search.c_init`."""
    kind: str
    default: str
    meaning: str
    positional: bool

    @property
    def name(self) -> str:
        """The name on the command line."""
        return self.path if self.positional else "--" + self.path.replace("_", "-")


def settings_of(config_class: type, path: str = "", base: Any = None) -> Iterator[Setting]:
    """Yield all settings of a dataclass and of those nested in it. `base`: an instance that holds other
    defaults."""
    hints = get_type_hints(config_class, include_extras=True)
    texts = field_docstrings(config_class)
    for field in dataclasses.fields(config_class):
        kind = hints[field.name]
        # A field is called `for_`, because `for` is a Python keyword.
        name = (f"{path}.{field.name}" if path else field.name).rstrip("_")
        default: Any = field.default
        if base is not None:
            default = getattr(base, field.name)
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if dataclasses.is_dataclass(kind):
            yield from settings_of(kind, name, default)  # type: ignore[arg-type]
            continue
        plain, _ = bare(kind)
        what = allowed(kind).removeprefix("a ")
        if get_origin(plain) is Literal:
            what = ", ".join(f"`{choice}`" for choice in get_args(plain))
        shown = f"`{default:g}`" if isinstance(default, float) else f"`{default}`"
        if default is dataclasses.MISSING:
            shown = "required"
        elif default is None or default == "":
            shown = "none"
        elif isinstance(default, bool):
            shown = "`true`" if default else "`false`"
        yield Setting(name, what, shown, texts.get(field.name, ""), IS_POSITIONAL in get_args(kind))


if __name__ == "__main__":
    main()
