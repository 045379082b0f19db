"""Exceptions that end one event instead of the process: counted, and logged without flooding the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from azselfplay.host.exits import Fatal
from azselfplay.host.logs import Repeated


class Faults:
    """The unexpected exceptions of one process. A Fatal is not one of them: it ends the process on
    purpose."""

    def __init__(self, log: logging.Logger) -> None:
        self.count = 0
        self._log = log
        self._repeated = Repeated(log)
        self._known: set[str] = set()

    def note(self, where: str, error: Exception, now: float) -> None:
        """Count `error`. The first of its kind at `where` is logged with its traceback, further ones in one
        line.

        Raises `error` again if it is a Fatal.
        """
        if isinstance(error, Fatal):
            raise error
        self.count += 1
        kind = f"{where}: {type(error).__name__}"
        if kind in self._known:
            self._repeated.warning(kind, f"{where}: again {error!r}", now)
            return
        self._known.add(kind)
        self._log.error("%s: a bug in azselfplay; only this event is lost", where, exc_info=error)

    @contextmanager
    def survived(self, where: str, now: float) -> Iterator[None]:
        """Note an exception of the block, and continue after the block."""
        try:
            yield
        except Exception as error:
            self.note(where, error, now)
