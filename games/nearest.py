"""The name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Of `known`, the one most like `name`; '' if there is none at all."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)), "")
