"""Reads games from files of other programs, in one of the game's formats: PGN, SGF, KIF, CSA.

A file may hold thousands of games, and some of them may be damaged or of another kind. A game that cannot be
used is returned as its number and the reason; all others are used.
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
"""Suffixes of game files, in lower case. The suffix decides the format only if a game has several formats."""


HEAD = 4096
"""Number of first bytes from which a file's format is recognised."""


class FileGame(NamedTuple):
    """A game of a file; its moves are legal."""

    number: int
    """The game's position in the file, from 1."""
    read: ReadGame
    game_history: GameHistory
    """The whole game. No ply cap ends it, because the cap belongs to self-play and is not a rule of the
    game."""


class BadGame(NamedTuple):
    """A game of a file that cannot be used."""

    number: int
    reason: str


def format_of(game: Game, path: Path) -> GameFormat:
    """Return the format of a game file: by its name, by its first bytes, or else the game's usual format.
    Raises Fatal(BAD_DATA) if the game has no format, or the name is that of another game's format."""
    formats, suffix = knowledge_of(game).formats, path.suffix.lower()
    for one in formats:
        if suffix in one.suffixes:
            return one
    if not formats or suffix in SUFFIXES:
        names = ", ".join(one.name for one in formats)
        todo = f"it reads {names}" if names else "it reads no format of game files"
        raise Fatal(f"{path} has games in a form that {game.name} does not read: {todo}", Exit.BAD_DATA)
    # If the file cannot be read, the error is reported later, where it is read.
    with suppress(OSError), open_regular(path) as file:
        return form_in(game, file.read(HEAD).decode(errors="replace")) or formats[0]
    return formats[0]


def games_in(game: Game, path: Path, *, draws_end: bool = True) -> Iterator[FileGame | BadGame]:
    """Yield the games of a file, in order; `draws_end` as for `replay`. Raises Fatal(BAD_DATA) for a file
    that cannot be read at all."""
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
            yield FileGame(number, found, after_moves(game, found.start, found.moves, draws_end=draws_end))
        except ValueError as error:
            yield BadGame(number, str(error))
    if not number:
        raise Fatal(f"{path} has no game in {form.name}", Exit.BAD_DATA)
