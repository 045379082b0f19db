"""Games of a match as files: PGN for chess, JSON lines with moves for any game. Written as games end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

from games.spec import Game
from play.lines import GameLine
from play.match.runner import FAILURE, TIME, PlayedGame
from runtime.exits import Exit, Fatal

RESULTS = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}


def line_of_played(game: Game, played: PlayedGame) -> GameLine:
    """The positions of a played game."""
    line = GameLine(game, played.start, max(len(played.actions) + 1, game.max_plies))
    for action in played.actions:
        line.play(action)
    return line


def to_pgn(game: Game, played: PlayedGame, event: str) -> str:
    """A chess game as PGN with the seven tags and how it ended."""
    import chess
    import chess.pgn

    board = chess.Board(played.start or chess.STARTING_FEN)
    record = chess.pgn.Game()
    record.setup(board)
    record.headers.update(
        {
            "Event": event,
            "White": played.first,
            "Black": played.second,
            "Result": RESULTS[played.outcome],
            "Opening": played.opening,
            "PlyCount": str(played.plies),
            "Termination": _termination(played),
        }
    )
    node: chess.pgn.GameNode = record
    for move in line_of_played(game, played).moves_text():
        node = node.add_main_variation(chess.Move.from_uci(move))
    node.comment = played.reason + (f": {played.detail}" if played.detail else "")
    return f"{record}\n\n"


def _termination(played: PlayedGame) -> str:
    """PGN's own words (standard section 9.8.1)."""
    return {FAILURE: "abandoned", TIME: "time forfeit"}.get(
        played.reason, "adjudication" if "adjudicated" in played.reason else "normal"
    )


def to_json_line(game: Game, played: PlayedGame) -> str:
    """A game of any kind with its moves in the game's notation."""
    return json.dumps(
        {
            "first": played.first,
            "second": played.second,
            "outcome": played.outcome,
            "reason": played.reason,
            "plies": played.plies,
            "opening": played.opening,
            "start": played.start,
            "moves": line_of_played(game, played).moves_text(),
            "failed": played.failed,
            "detail": played.detail,
        },
        ensure_ascii=False,
    )


class GameFiles:
    """The files of one match, opened before it starts: Fatal(DISK) for a path that cannot be written."""

    def __init__(self, game: Game, pgn: str, moves: str, event: str) -> None:
        if pgn and game.name != "chess":
            raise Fatal(f"PGN is for chess; write the games of {game.name} with --moves FILE", Exit.CONFIG)
        self._game = game
        self._event = event
        self._pgn = _opened(pgn)
        self._moves = _opened(moves)

    def write(self, played: PlayedGame) -> None:
        if self._pgn is not None:
            print(to_pgn(self._game, played, self._event), end="", file=self._pgn, flush=True)
        if self._moves is not None:
            print(to_json_line(self._game, played), file=self._moves, flush=True)

    def close(self) -> None:
        for file in (self._pgn, self._moves):
            if file is not None:
                file.close()


def _opened(path: str) -> TextIO | None:
    try:
        return Path(path).open("w", encoding="utf-8") if path else None
    except OSError as error:
        raise Fatal(f"{path} cannot be written: {error.strerror}", Exit.DISK) from error
