"""Games out of files that other programs have written, in a format of the game: PGN, SGF, KIF, CSA.

A file may hold thousands of games, and some of them may be damaged or of another kind. Each that cannot be
used is returned as its number and the reason, and the others are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from azselfplay.games.game_history import GameHistory
from azselfplay.games.game_texts import after_moves, form_in
from azselfplay.games.knowledge import GameFormat, ReadGame, knowledge_of
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.reading import open_regular, read_bytes

SUFFIXES = frozenset({".pgn", ".sgf", ".csa", ".kif", ".kifu"})
"""Of files of games, in lower case. Names say which format a file has only where a game has several."""


HEAD = 4096
"""Bytes in which a file shows its format."""


class FileGame(NamedTuple):
    """A game of a file; its moves are legal."""

    number: int
    """Its place in the file, from 1."""
    read: ReadGame
    history: GameHistory
    """All of it. No cap on the length of games ends it, because that is of self-play, and no rule."""


class BadGame(NamedTuple):
    """A game of a file that cannot be used."""

    number: int
    reason: str


def format_of(game: Game, path: Path) -> GameFormat:
    """The format of a file of games by its name, by how it begins, or else the usual one of the game. Raises
    Fatal(BAD_DATA) if the game has none, or the name is that of another game's."""
    formats, suffix = knowledge_of(game).formats, path.suffix.lower()
    for one in formats:
        if suffix in one.suffixes:
            return one
    if not formats or suffix in SUFFIXES:
        names = ", ".join(one.name for one in formats)
        todo = f"it reads {names}" if names else "it reads no format of game files"
        raise Fatal(f"{path} has games in a form that {game.name} does not read: {todo}", Exit.BAD_DATA)
    # A file that cannot be read is told of where it is read.
    with suppress(OSError), open_regular(path) as file:
        return form_in(game, file.read(HEAD).decode(errors="replace")) or formats[0]
    return formats[0]


def games_in(game: Game, path: Path) -> Iterator[FileGame | BadGame]:
    """The games of a file, in its order. Raises Fatal(BAD_DATA) for a file that cannot be read at all."""
    form = format_of(game, path)
    try:
        data = read_bytes(path)
    except OSError as error:
        raise Fatal(f"the games in {path} cannot be read: {error.strerror}", Exit.BAD_DATA) from error
    number = 0
    for number, found in enumerate(form.read(data), 1):
        try:
            if isinstance(found, ValueError):
                raise found
            yield FileGame(number, found, after_moves(game, found.start, found.moves))
        except ValueError as error:
            yield BadGame(number, str(error))
    if not number:
        raise Fatal(f"{path} has no game in {form.name}", Exit.BAD_DATA)
