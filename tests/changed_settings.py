"""Helpers for tests that address nested settings by field name; no two groups share a field name."""

import dataclasses
from typing import Any, TypeVar

from protocol.settings import SelfPlaySettings, changed

T = TypeVar("T")


def paths(settings: Any, prefix: str = "") -> dict[str, str]:
    """Return the path of each field by its name: `c_init` is "search.c_init"."""
    found: dict[str, str] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        inner = paths(value, f"{prefix}{field.name}.") if dataclasses.is_dataclass(value) else {}
        found = inner | found | {field.name: prefix + field.name}
    return found


def varied(settings: T, **changes: Any) -> T:
    """Return `settings` with some values changed."""
    known = paths(settings)
    return changed(settings, {known[name]: value for name, value in changes.items()})


def self_play(**changes: Any) -> SelfPlaySettings:
    """Return the default settings with some values changed."""
    return varied(SelfPlaySettings(), **changes)
