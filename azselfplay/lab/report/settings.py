"""The settings of a run, each beside the default of this version: for the run's page, for comparisons, and
for the report.

The settings are read from the files that azserver and the trainer leave in the run's folder. Settings that
only say where the run is or where its programs listen are left out, because they do not affect learning.
"""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from azselfplay.host.config import flattened, to_toml
from azselfplay.host.reading import open_regular
from azselfplay.host.runs import RunFolder, shown_settings
from server.config import ServerConfig
from trainer.config import TrainerConfig

NOTES = "notes.md"
"""A file that a person may write into a run's folder."""

MOST_NOTES = 4000
"""Most bytes of the notes that are shown."""

PLACES = frozenset(
    [
        "run",
        "runs",
        "game",
        "board",
        "listen",
        "port",
        "server",
        "server_key",
        "web",
        "weights_url",
        "metrics_port",
        "metrics_listen",
        "log_format",
        "trainer_grace",
    ]
)


@cache
def defaults_of(kind: type[ServerConfig] | type[TrainerConfig]) -> dict[str, Any]:
    """Return all defaults by name, such as "optimizer.lr". Defaults that are None ("chosen by the program")
    are left out."""
    return flattened(tomllib.loads(to_toml(kind())))


def settings_of(run: RunFolder) -> list[dict[str, Any]]:
    """Return each setting as `program`, `name`, `value` and `default` (text as in TOML; "" where this version
    has no default), and whether it `differs`. Those of files that cannot be read are missing."""
    found = []
    for program, path, kind in (
        ("azserver", run.config, ServerConfig),
        ("trainer", run.trainer_config, TrainerConfig),
    ):
        defaults = defaults_of(kind)
        for name, value in flattened(shown_settings(path)).items():
            if name not in PLACES:
                default = defaults.get(name)
                told = {"value": as_text(value), "default": "" if default is None else as_text(default)}
                found.append({"program": program, "name": name, **told, "differs": value != default})
    return found


def as_text(value: Any) -> str:
    """Return a setting as a person would write it: booleans as in TOML, text without quotes unless it is
    empty."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value) or '""'


def notes_of(run: RunFolder) -> str:
    """Return the notes that a person wrote about the run into NOTES; "" if there are none."""
    try:
        with open_regular(run.path / NOTES) as file:
            return file.read(MOST_NOTES).decode(errors="replace").strip()
    except OSError:
        return ""
