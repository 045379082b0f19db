"""Games of a match as files, written as they end: PGN if the game has it, JSON lines for any game."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

from evaluation.match.runner import FAILURE, TIME, PlayedGame
from games.game_history import GameHistory
from games.knowledge import PgnWriter, WrittenMove, knowledge_of
from games.spec import Game
from runtime.exits import Exit, Fatal

RESULTS = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}


def replay_of(game: Game, played: PlayedGame) -> GameHistory:
    """The positions of a played game."""
    game_history = GameHistory(game, played.start, max(len(played.actions) + 1, game.max_plies))
    for action in played.actions:
        game_history.play(action)
    return game_history


def to_pgn(game: Game, write: PgnWriter, played: PlayedGame, event: str) -> str:
    """A game as PGN with the seven tags and how it ended."""
    tags = {
        "Event": event,
        "White": played.first,
        "Black": played.second,
        "Result": RESULTS[played.outcome],
        "Opening": played.opening,
        "PlyCount": str(played.plies),
        "Termination": _termination(played),
    }
    moves = [WrittenMove(move) for move in replay_of(game, played).moves_text()]
    ending = played.reason + (f": {played.detail}" if played.detail else "")
    return write(tags, played.start, moves, ending) + "\n\n"


def _termination(played: PlayedGame) -> str:
    """The values of PGN's tag (section 9.8.1 of the standard)."""
    return {FAILURE: "abandoned", TIME: "time forfeit"}.get(
        played.reason, "adjudication" if "adjudicated" in played.reason else "normal"
    )


def to_json_line(game: Game, played: PlayedGame) -> str:
    """A game as JSON, with moves in the game's notation, and a score where the game has one."""
    game_history = replay_of(game, played)
    score = {} if (points := game_history.score()) is None else {"score": points}
    return json.dumps(
        {
            "first": played.first,
            "second": played.second,
            "outcome": played.outcome,
            **score,
            "reason": played.reason,
            "plies": played.plies,
            "opening": played.opening,
            "start": played.start,
            "moves": game_history.moves_text(),
            "failed": played.failed,
            "detail": played.detail,
        },
        ensure_ascii=False,
    )


class GameFiles:
    """The files of one match, opened before it starts. Raises Fatal(DISK) for a path that cannot be
    written."""

    def __init__(self, game: Game, pgn: str, moves: str, event: str) -> None:
        known = knowledge_of(game)
        if pgn and known.pgn is None:
            raise Fatal(f"{game.name} has no PGN; write its games with --moves FILE", Exit.CONFIG)
        self._game, self._as_pgn = game, known.pgn
        self._event = event
        self._before, self._between = "", known.between_games
        self._pgn = _opened(pgn)
        self._moves = _opened(moves)

    def write(self, played: PlayedGame) -> None:
        if self._pgn is not None and self._as_pgn is not None:
            text = self._before + to_pgn(self._game, self._as_pgn, played, self._event)
            print(text, end="", file=self._pgn, flush=True)
            self._before = self._between
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
