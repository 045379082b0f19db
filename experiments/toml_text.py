"""Settings as TOML text: what the standard library reads but does not write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_toml(settings: Mapping[str, Any], table: str = "") -> str:
    """Plain values first, then one table for each mapping. TypeError for anything else."""
    lines = [f"[{table}]"] if table else []
    for key, value in settings.items():
        if not isinstance(value, Mapping):
            if not isinstance(value, str | bool | int | float):
                raise TypeError(f"{key}: {value!r} has no place in these files")
            # As in JSON but for DEL, which TOML wants escaped, and surrogate pairs, which it does not know.
            text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{key} = {text}")
    parts = ["\n".join(lines)] if lines else []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            parts.append(to_toml(value, f"{table}.{key}" if table else key))
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"
