"""The explanation of a failed request for a person: on a page, or as JSON for our scripts."""

from __future__ import annotations

from http import HTTPStatus

from games.names import UnknownGame
from runtime.exits import Fatal

FAULT = "That is a fault in azselfplay itself; the terminal of azplay web shows it."
NEW_GAME = "If the game is new, start `azplay web` again."
"""This process knows the packages that were installed when it started."""


class Trouble(Exception):
    """A request that cannot be answered. `text` says what is wrong and what to do."""

    def __init__(self, text: str, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


def trouble_of(error: Exception) -> Trouble | None:
    """The Trouble for errors caused by files of a run; None for a bug."""
    if isinstance(error, Trouble):
        return error
    if isinstance(error, UnknownGame) or isinstance(error.__cause__, UnknownGame):
        return Trouble(f"{error}. {NEW_GAME}", HTTPStatus.CONFLICT)
    if isinstance(error, Fatal):
        return Trouble(str(error), HTTPStatus.CONFLICT)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Trouble(
            f"{error.filename or 'a file'} is gone: the run is being deleted or moved. Go back to the list "
            "of runs.",
            HTTPStatus.GONE,
        )
    if isinstance(error, OSError):
        where = error.filename or "a file"
        return Trouble(f"{where} cannot be read: {error.strerror}", HTTPStatus.INTERNAL_SERVER_ERROR)
    return None
