"""Which azselfplay this is."""

from __future__ import annotations

from functools import cache

NAME = "azselfplay"
UNKNOWN = "unknown"


@cache
def version() -> str:
    """As `0.1.0`; `unknown` when the package is not installed but run from its folder."""
    from importlib.metadata import PackageNotFoundError, version  # some commands never need it

    try:
        return version(NAME)
    except PackageNotFoundError:
        return UNKNOWN


def software() -> str:
    """As peers tell each other: `azselfplay 0.1.0`."""
    return f"{NAME} {version()}"
