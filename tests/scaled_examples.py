"""Scales a test's own number of examples to the profile in force (`conftest.py`)."""

from hypothesis import settings

OF_QUICK = 100
"""`max_examples` of the profile `quick`."""


def scaled(quick: int) -> int:
    """Return `quick` under the profile of that name, and ten times as many under `nightly`."""
    return quick * settings.default.max_examples // OF_QUICK
