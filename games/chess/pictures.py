"""Chess as others write and draw it: PGN and SVG, by python-chess, which is imported when it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from games.chess.fen import state_to_fen
from games.spec import State

PICTURE_SIZE = 230
"""Pixels."""
PGN_COLUMNS = 80


def svg(state: State, move: str) -> bytes:
    """A board as the position stands; `move` (UCI) led to it and is marked."""
    import chess
    import chess.svg

    board, last = chess.Board(state_to_fen(state)), chess.Move.from_uci(move)
    return str(chess.svg.board(board, size=PICTURE_SIZE, lastmove=last)).encode()


def pgn(tags: Mapping[str, str], start: str, moves: Sequence[tuple[str, str]], ending: str) -> str:
    """A game as PGN. `moves`: UCI and a comment; `ending`: comment behind the last move. ValueError if a move
    is none."""
    import chess
    import chess.pgn

    tree = chess.pgn.Game()
    tree.setup(chess.Board(start) if start else chess.Board())
    tree.headers.update(tags)
    node: chess.pgn.GameNode = tree
    for move, comment in moves:
        node = node.add_variation(chess.Move.from_uci(move), comment=comment)
    if ending:
        node.comment = ending
    return tree.accept(chess.pgn.StringExporter(columns=PGN_COLUMNS))
