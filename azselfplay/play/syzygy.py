"""Syzygy endgame tables of chess, which a user has in folders: perfect play at the root, and known results.

python-chess reads the files. A table knows whether a position is won within fifty moves (WDL), and how far
the next capture or pawn move is (DTZ). Positions with castling rights, with more men than the tables, or of
which a file is missing or damaged are unknown.
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
"""Half-moves without a capture or pawn move that are a draw."""
WON, DRAWN, LOST = 2, 0, -2
"""WDL. 1 and -1 are wins and losses that fifty moves make draws."""

DAMAGED = OSError, ValueError, IndexError, RecursionError, AssertionError, struct.error
"""What python-chess raises for a table of which a part is missing or wrong: it trusts what it reads."""
UNKNOWN = KeyError, *DAMAGED
"""KeyError: there is no such table, or the position has castling rights."""


def open_tables(game: Game, folders: str) -> Tables:
    """The tables in `folders`, which are separated as in PATH. Raises Fatal(CONFIG) if one is no folder or
    none has a table, or for another game than chess."""
    if game.notation.engine_protocol != "uci":
        raise Fatal(f"Syzygy tables are of chess, not of {game.name}", Exit.CONFIG)
    import chess.syzygy

    found, tables = 0, chess.syzygy.Tablebase()
    for folder in folders.split(os.pathsep):
        if not Path(folder).is_dir():
            raise Fatal(f"the Syzygy path names {folder}, which is no folder", Exit.CONFIG)
        found += tables.add_directory(folder)
    if not found:
        raise Fatal(f"no Syzygy tables (KQvK.rtbw and so on) are in {folders}", Exit.CONFIG)
    return Tables(tables, max(map(len, tables.wdl)) - 1)  # KQvK has three men


class Tables:
    """Tables behind python-chess' interface."""

    def __init__(self, tables: chess.syzygy.Tablebase, most_men: int) -> None:
        self._tables = tables
        self._most_men = most_men

    def cover(self, game_history: GameHistory) -> bool:
        """Whether the position has few enough men."""
        men = game_history.game.notation.state_to_text(game_history.state).partition(" ")[0]
        return sum(map(str.isalpha, men)) <= self._most_men

    def result(self, game_history: GameHistory) -> int | None:
        """Win, draw or loss (1, 0, -1) of the side to move. None: unknown, which it also is between two
        captures or pawn moves, because WDL does not count the moves since the last one."""
        if self.cover(game_history) and not (board := board_of(game_history)).halfmove_clock:
            with suppress(*UNKNOWN):
                return int(self._tables.probe_wdl(board) / 2)
        return None

    def best(self, game_history: GameHistory, allowed: Sequence[int] = ()) -> tuple[int, ...]:
        """The actions, of those `allowed` (none: all), with the best result that is still to be had; of wins
        the quickest to the next capture or pawn move, of losses the slowest. () where it is unknown."""
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
        """The result for the side that has just moved, and of moves with the same the better."""
        if board.is_checkmate():
            return WON, 0
        if board.is_repetition(2):  # it makes no progress, and the rules may end the game there
            return DRAWN, 0
        result = -self._tables.probe_wdl(board)
        if not board.halfmove_clock:
            return result, 0
        far = abs(self._tables.probe_dtz(board))
        if abs(result) == WON and far + board.halfmove_clock > FIFTY_MOVES:
            return result // 2, 0  # it comes too late
        return result, -far if result == WON else far if result == LOST else 0


def board_of(game_history: GameHistory) -> chess.Board:
    """A game of chess or chess960 as a board of python-chess with all its moves."""
    import chess

    notation = game_history.game.notation
    start = notation.state_to_text(game_history.states[0])
    board = chess.Board(start, chess960=notation.action_to_chess is not None)
    for move in game_history.moves_text():
        board.push_uci(move)
    return board
