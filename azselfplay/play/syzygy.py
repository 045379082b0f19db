"""Syzygy endgame tables of chess, read from the user's folders: perfect play at the root, and known results.

python-chess reads the files. A table knows whether a position is won under the fifty-move rule (WDL), and how
far away the next capture or pawn move is (DTZ). A position is unknown if it has castling rights or more men
than the tables, or if its file is missing or damaged.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from azselfplay.games.game_history import GameHistory
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal

if TYPE_CHECKING:
    import chess
    import chess.syzygy

FIFTY_MOVES = 100
"""Number of half-moves without a capture or pawn move after which the game is a draw."""
WON, DRAWN, LOST = 2, 0, -2
"""WDL values. 1 and -1 are wins and losses that the fifty-move rule turns into draws."""

DAMAGED = OSError, ValueError, IndexError, RecursionError, AssertionError, struct.error
"""Errors that python-chess raises for an incomplete or damaged table, because it trusts the data that it
reads."""
UNKNOWN = KeyError, *DAMAGED
"""KeyError: there is no such table, or the position has castling rights."""


def open_tables(game: Game, folders: str, *, only_results: bool = False) -> Tables:
    """Open the tables in `folders`, which are separated as in PATH. `only_results`: nobody asks for `best`.
    Raises Fatal(CONFIG) if one of them cannot be read, if none has the tables that are needed, or if the game
    is not chess."""
    if game.notation.engine_protocol != "uci":
        raise Fatal(f"Syzygy tables are of chess, not of {game.name}", Exit.CONFIG)
    import chess.syzygy

    tables = chess.syzygy.Tablebase()
    for folder in folders.split(os.pathsep):
        try:
            if not Path(folder).is_dir():
                raise Fatal(f"the Syzygy path names {folder}, which is no folder", Exit.CONFIG)
            tables.add_directory(folder)
        except OSError as error:
            raise Fatal(f"cannot read Syzygy tables in {folder}: {error.strerror}", Exit.CONFIG) from error
    if not tables.wdl:
        raise Fatal(f"no Syzygy tables (KQvK.rtbw and so on) are in {folders}", Exit.CONFIG)
    if not tables.dtz and not only_results:
        raise Fatal(f"to play by Syzygy tables, {folders} needs KQvK.rtbz and so on, too", Exit.CONFIG)
    return Tables(tables, max(map(len, tables.wdl)) - 1)  # KQvK has three men


class Tables:
    """Endgame tables that are read by python-chess."""

    def __init__(self, tables: chess.syzygy.Tablebase, most_men: int) -> None:
        self._tables = tables
        self._most_men = most_men

    def cover(self, game_history: GameHistory) -> bool:
        """Return whether the position has few enough men for the tables."""
        men = game_history.game.notation.state_to_text(game_history.state).partition(" ")[0]
        return sum(map(str.isalpha, men)) <= self._most_men

    def result(self, game_history: GameHistory) -> int | None:
        """Return win, draw or loss (1, 0, -1) for the side to move; None if it is unknown. It is known only
        directly after a capture or pawn move, because WDL does not take into account the moves since the last
        one."""
        if self.cover(game_history) and not (board := board_of(game_history)).halfmove_clock:
            with suppress(*UNKNOWN):
                return int(self._tables.probe_wdl(board) / 2)
        return None

    def best(self, game_history: GameHistory, allowed: Sequence[int] = ()) -> tuple[int, ...]:
        """Return the actions, among those `allowed` (empty: all), with the best result that can still be
        reached. Among wins these are the quickest to the next capture or pawn move, among losses the slowest.
        Returns () if the result is unknown."""
        if not self.cover(game_history):
            return ()
        board, notation = board_of(game_history), game_history.game.notation
        actions = allowed or game_history.legal_actions().tolist()
        ranks = {}
        try:
            for action in actions:
                board.push_uci(notation.action_to_text(game_history.state, action))
                ranks[action] = self._rank(board)
                board.pop()
        except UNKNOWN:
            return ()
        best = max(ranks.values(), default=None)
        return tuple(action for action, rank in ranks.items() if rank == best)

    def _rank(self, board: chess.Board) -> tuple[int, int]:
        """Return the result for the side that has just moved, and a rank among moves with the same result;
        larger is better."""
        if board.is_checkmate():
            return WON, 0
        if board.is_repetition(2):  # no progress, and the rules may end the game there
            return DRAWN, 0
        result = -self._tables.probe_wdl(board)
        if not board.halfmove_clock:
            return result, 0
        far = abs(self._tables.probe_dtz(board))
        if abs(result) == WON and far + board.halfmove_clock > FIFTY_MOVES:
            return result // 2, 0  # the win or loss comes too late
        return result, -far if result == WON else far if result == LOST else 0


def board_of(game_history: GameHistory) -> chess.Board:
    """Return a game of chess or chess960 as a board of python-chess with all moves played."""
    import chess

    notation = game_history.game.notation
    start = notation.state_to_text(game_history.states[0])
    board = chess.Board(start, chess960=notation.action_to_chess is not None)
    for move in game_history.moves_text():
        board.push_uci(move)
    return board
