"""The version of azselfplay."""

from __future__ import annotations

from functools import cache

NAME = "azselfplay"
UNKNOWN = "unknown"


@cache
def version() -> str:
    """Return a version such as `0.1.0`; `unknown` when the package is not installed but run from its
    folder."""
    from importlib.metadata import PackageNotFoundError, version  # some commands never need it

    try:
        return version(NAME)
    except PackageNotFoundError:
        return UNKNOWN


def software() -> str:
    """Return the name and version that peers tell each other: `azselfplay 0.1.0`."""
    return f"{NAME} {version()}"
