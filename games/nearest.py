"""The name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

NEAR = 0.6
"""`difflib` ratio from which two names are similar: 0.75 for `paly` and `play`, 0.44 for `nosuch` and
`uci`."""
SHOWN = 12
"""Number of names listed where none is similar."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The name in `known` most similar to `name`; '' if `known` is empty."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)), "")


def near(name: str, known: Iterable[str]) -> str:
    """Like `nearest`, but '' if none of them is similar to `name`."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=NEAR)), "")


def near_or_all(name: str, known: Iterable[str], kind: str = "") -> str:
    """Text to follow "there is no NAME: ": the similar name, else the known ones. `kind`: such as "key"."""
    names = list(known)
    if meant := near(name, names):
        return f"the nearest{f' {kind}' if kind else ''} is {meant!r}"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:SHOWN])}{more}"
