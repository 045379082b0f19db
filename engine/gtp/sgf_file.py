"""`loadsgf`: reads an SGF file as a board."""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.gtp.board import GoBoard
from engine.gtp.protocol import GtpError
from games.go.rules import GoRules
from games.go.sgf import read
from games.go.vertices import vertex_of

LARGEST = 1 << 20
"""Most bytes of a file."""


def path_and_move(text: str) -> tuple[Path, str]:
    """The arguments of `loadsgf`: a path, maybe with blanks and quotes, and digits after it (none: "0")."""
    path, move, exists = text, "0", os.path.isfile  # which has no exception for paths that are too long
    head, _, last = text.rpartition(" ")
    if head and re.fullmatch("[0-9]+", last) and not exists(text):
        path, move = head.rstrip(), last
    is_quoted = len(path) > 2 and path[0] == path[-1] and path[0] in "\"'" and not exists(path)
    return Path(path[1:-1] if is_quoted else path), move


def board_from(path: Path, rules: GoRules, before: int = 0) -> GoBoard:
    """The main line of the first game in a file, up to the move `before` (1 is the first; 0: all of it).

    Rules that the file does not give are as in `rules`. Raises GtpError saying why it cannot be used.
    """
    try:
        found = read(_bytes_of(path), rules)
        board = GoBoard(found.rules, found.start)
        for number, action in enumerate(found.actions[: before - 1] if before else found.actions, 1):
            try:
                board.play(board.to_move, vertex_of(board.size, action))
            except GtpError as error:
                raise ValueError(f"move {number}: {error}") from error
    except (OSError, ValueError) as error:
        raise GtpError(f"cannot load file: {error}") from error
    return board


def _bytes_of(path: Path) -> bytes:
    if not path.is_file():  # not a device or a pipe, which may have no end
        raise ValueError(f"there is no file {str(path)!r}")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    return path.read_bytes()
