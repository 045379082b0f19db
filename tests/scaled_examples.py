"""How many examples a test that names a number tries under the profile in force (`conftest.py`)."""

from __future__ import annotations

from hypothesis import settings

OF_QUICK = 100
"""`max_examples` of the profile `quick`."""


def scaled(quick: int) -> int:
    """`quick` under that profile, ten times as many under `nightly`."""
    return quick * settings.default.max_examples // OF_QUICK
