"""Slow, obvious twins of the games' sparse features, from lists of squares and stones, with python-chess for
chess. A twin has `play(move)`, `features()` of the position, and `rows(move)`, numbered as in the game's set.

Nothing here is imported from the sets; each twin plays the moves itself.
"""

import itertools
from functools import cache
from typing import NamedTuple

import chess
import cshogi
from naive_dots import Dot, NaiveDots
from naive_games import naive_game
from naive_shogi import PIECES, PlainPosition, cell, plain_action

DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


class Move(NamedTuple):
    """An action, and its usual notation."""

    action: int
    text: str


class Stones:
    """The common part of tic-tac-toe and Connect Four."""

    def __init__(self, name: str) -> None:
        self.twin = naive_game(name)

    def play(self, move: Move) -> None:
        self.twin.play(move.action)

    def lines(self) -> list[list[int]]:
        """Return the cells of all lines, in the order of their first cells."""
        rows, cols, run = self.twin.rows, self.twin.cols, self.twin.run
        found = []
        for row, col, (up, right) in itertools.product(range(rows), range(cols), DIRECTIONS):
            line = [(row + k * up, col + k * right) for k in range(run)]
            if all(0 <= y < rows and 0 <= x < cols for y, x in line):
                found.append([cols * y + x for y, x in line])
        return found

    def seen(self, board: list[int | None], line: list[int]) -> list[int]:
        """Return 0, 1 or 2 for each cell: empty, own, the other's."""
        return [0 if board[at] is None else 1 if board[at] == self.twin.mover else 2 for at in line]

    def after(self, cell: int, player: int) -> list[int | None]:
        board = list(self.twin.boards[-1])
        board[cell] = player
        return board


class TicTacToe(Stones):
    def features(self) -> set[int]:
        board = self.twin.boards[-1]
        found = {2 * at + (owner != self.twin.mover) for at, owner in enumerate(board) if owner is not None}
        for number, line in enumerate(self.lines()):
            pattern = sum(state * 3**place for place, state in enumerate(self.seen(board, sorted(line))))
            found.add(18 + 27 * number + pattern)
        return found

    def rows(self, move: Move) -> list[int]:
        lines = [self.seen(self.twin.boards[-1], line) for line in self.lines() if move.action in line]
        wins, stops = any(line.count(1) == 2 for line in lines), any(line.count(2) == 2 for line in lines)
        threats = min(2, sum(sorted(line) == [0, 0, 1] for line in lines))
        return [move.action, 9 + 6 * wins + 3 * stops + threats]


class ConnectFour(Stones):
    def completing(self, board: list[int | None], player: int) -> set[int]:
        """Return the empty cells with which `player` has four."""
        found = set()
        for line in self.lines():
            owners = [board[at] for at in line]
            if owners.count(player) == 3 and owners.count(None) == 1:
                found.add(line[owners.index(None)])
        return found

    def half(self, col: int, player: int) -> tuple[int, int]:
        """Return (the lowest row of a column where `player` completes four or 6, the number of that half)."""
        board = self.twin.boards[-1]
        height = sum(board[7 * row + col] is not None for row in range(6))
        completing = self.completing(board, player)
        lowest = min((row for row in range(6) if 7 * row + col in completing), default=6)
        return lowest, ((col * 7 + height) * 7 + lowest) * 2 + (self.twin.mover == 0)

    def features(self) -> set[int]:
        board, mover = self.twin.boards[-1], self.twin.mover
        by_direction = sorted(self.lines(), key=lambda line: [1, 7, 8, 6].index(line[1] - line[0]))
        found = set()
        for number, line in enumerate(by_direction):
            seen = self.seen(board, line)
            if (1 in seen) != (2 in seen):
                stones = sum(2**place for place in range(4) if seen[place])
                found.add((number * 15 + stones - 1) * 2 + (2 in seen))
        for col in range(7):
            theirs, (_, half) = self.half(col, 1 - mover)[0], self.half(col, mover)
            found.add(69 * 30 + (half // 2 * 7 + theirs) * 2 + half % 2)
        return found

    def rows(self, move: Move) -> list[int]:
        board, mover, stone = self.twin.boards[-1], self.twin.mover, self.twin.landing_cell(move.action)
        wins, losses = self.completing(board, mover), self.completing(board, 1 - mover)
        kind = (stone in wins) + 2 * (stone in losses) + 4 * (stone + 7 in wins) + 8 * (stone + 7 in losses)
        after = self.after(stone, mover)
        made = self.completing(after, mover)
        reached = {at for at in made if at < 7 or after[at - 7] is not None}
        spoilt = self.completing(self.after(stone, 1 - mover), 1 - mover) - losses
        for cells in (made - wins, reached, spoilt):
            kind = 3 * kind + min(2, len(cells))
        return [self.half(move.action, mover)[1], 686 + self.half(move.action, 1 - mover)[1], 2 * 686 + kind]


class DotsAndBoxes:
    """The usual board of 3 x 3 boxes."""

    def __init__(self) -> None:
        self.twin = NaiveDots()

    def play(self, move: Move) -> None:
        self.twin.play(move.action)

    def drawn(self, box: Dot) -> list[bool]:
        return [side in self.twin.drawn[-1] for side in self.twin.sides(box)]

    def chain(self, box: Dot) -> set[Dot]:
        """Return the boxes of the chain that contains a box."""
        found: set[Dot] = set()
        left = [box]
        while left:
            here = left.pop()
            if here in self.twin.boxes() and here not in found and sum(self.drawn(here)) in (2, 3):
                found.add(here)
                beyond = [(here[0] + dy, here[1] + dx) for dy, dx in ((-1, 0), (0, 1), (1, 0), (0, -1))]
                left += [near for near, there in zip(beyond, self.drawn(here), strict=True) if not there]
        return found

    def features(self) -> set[int]:
        twin, found, chains = self.twin, set(), set()
        for number, box in enumerate(twin.boxes()):
            sides = sum(2**place for place, there in enumerate(self.drawn(box)) if there)
            kind = 16 if sides == 15 and twin.owners[-1][box] != twin.mover else sides
            found.add(17 * number + kind)
            chain = self.chain(box)
            if chain:
                found.add(9 * 17 + 4 * number + min(len(chain), 4) - 1)
                chains.add(frozenset(chain))
        found.add(9 * 21 + 9 + twin.lead(twin.mover))
        found.add(9 * 21 + 19 + len(twin.legal()))
        found.add(9 * 21 + 19 + 25 + sum(len(chain) >= 3 for chain in chains))
        return found

    def rows(self, move: Move) -> list[int]:
        beside = [box for box in self.twin.boxes() if self.twin.edges()[move.action] in self.twin.sides(box)]
        sides = [sum(self.drawn(box)) for box in beside]
        longest = max(min(6, len(self.chain(box))) for box in beside)
        return [move.action, 24 + (sides.count(3) * 3 + sides.count(2)) * 7 + longest]


class Chess:
    """The twin of chess and chess960, with boards and attacks of python-chess."""

    def __init__(self, *, chess960: bool = False) -> None:
        self.board = chess.Board(chess960=chess960)

    def play(self, move: Move) -> None:
        self.board.push_uci(move.text)

    def seen(self, square: int) -> int:
        return square if self.board.turn else square ^ 56

    def features(self) -> set[int]:
        board, found = self.board, set()
        for square, piece in board.piece_map().items():
            hit = board.is_attacked_by(not piece.color, square)
            held = board.is_attacked_by(piece.color, square)
            kind = piece.piece_type - 1 + 6 * (piece.color != board.turn)
            found.add((kind * 64 + self.seen(square)) * 4 + 2 * hit + held)
        for side, color in enumerate((board.turn, not board.turn)):
            if board.has_kingside_castling_rights(color):
                found.add(3072 + 2 * side)
            if board.has_queenside_castling_rights(color):
                found.add(3072 + 2 * side + 1)
        if board.is_repetition(2):
            found.add(3076)
        return found

    def rows(self, move: Move) -> list[int]:
        board, moving = self.board, chess.Move.from_uci(move.text)
        piece, captured = board.piece_at(moving.from_square), board.piece_at(moving.to_square)
        if captured is not None and captured.color == piece.color:  # the rook, in chess960
            captured = None
        kind = 7 * (piece.piece_type - 1) + (6 if captured is None else captured.piece_type - 1)
        danger = 0
        if attackers := board.attackers(not board.turn, moving.from_square):
            danger = 2 - bool(board.attackers(board.turn, moving.from_square))
            if chess.PAWN in map(board.piece_type_at, attackers):
                danger = 3
        gone = board.copy(stack=False)
        gone.remove_piece_at(moving.from_square)
        exchange = 0
        if taking := gone.attackers(not board.turn, moving.to_square):
            order = [chess.PAWN, chess.BISHOP, chess.ROOK, chess.QUEEN, chess.KING]
            kinds = {gone.piece_type_at(square) for square in taking}
            kinds = {chess.BISHOP if one == chess.KNIGHT else one for one in kinds}
            weakest = 1 + min(order.index(one) for one in kinds if one is not None)
            exchange = 2 * weakest + bool(gone.attackers(board.turn, moving.to_square))
        there = chess.Piece(moving.promotion or piece.piece_type, board.turn)
        check = self.check(moving, there, gone, can_be_taken=0 < exchange < 11)
        row = (48 * kind + 4 * exchange if check is None else 42 * 48 + 4 * (42 * check + kind)) + danger
        target = self.seen(moving.to_square)
        return [move.action, 4672 + 64 * (piece.piece_type - 1) + target, 4672 + 6 * 64 + row]

    def check(
        self, moving: chess.Move, there: chess.Piece, gone: chess.Board, *, can_be_taken: bool
    ) -> int | None:
        """Return the kind of the check that the piece gives from its target; None if it gives none.

        gone  the board without the piece that moves
        """
        board = self.board.copy(stack=False)  # the piece on its target, and everything else as it stands
        board.set_piece_at(moving.to_square, there)
        king = board.king(not self.board.turn)
        if there.piece_type == chess.KING or king not in board.attacks(moving.to_square):
            return None
        gone.remove_piece_at(king)
        gone.set_piece_at(moving.to_square, there)
        flights = [
            square
            for square in chess.SquareSet(chess.BB_KING_ATTACKS[king])
            if self.board.color_at(square) in (None, self.board.turn)
            and not self.board.is_attacked_by(self.board.turn, square)
            and (there.piece_type == chess.PAWN or square not in gone.attacks(moving.to_square))
        ]
        if can_be_taken:
            return 0 if flights else 1
        if flights:
            return 2
        near = there.piece_type == chess.KNIGHT or chess.square_distance(king, moving.to_square) == 1
        return 4 if near else 3


Square = tuple[int, int]
_GOLD = [(0, -1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1)]
_CROSS, _CORNERS = [(0, -1), (0, 1), (1, 0), (-1, 0)], [(1, 1), (1, -1), (-1, 1), (-1, -1)]
STEPS = {
    "P": [(0, -1)],
    "N": [(1, -2), (-1, -2)],
    "S": [(0, -1), *_CORNERS],
    "K": [*_CROSS, *_CORNERS],
    "+B": _CROSS,
    "+R": _CORNERS,
    **dict.fromkeys(["G", "+P", "+L", "+N", "+S"], _GOLD),
}
"""(files, ranks) of one step, for Black."""
SLIDES = {"L": [(0, -1)], "B": _CORNERS, "+B": _CORNERS, "R": _CROSS, "+R": _CROSS}


class Shogi:
    """The twin of shogi, with positions of cshogi; attacks are worked out from them."""

    def __init__(self) -> None:
        self.game = cshogi.Board()
        self.stood: list[list[str]] = []
        self.look()

    def play(self, move: Move) -> None:
        self.game.push_usi(move.text)
        self.look()

    def look(self) -> None:
        """Read the position: (piece, whether it is the mover's own) by square, as the mover sees the
        board."""
        sfen = str(self.game.sfen())
        self.stood.append(sfen.split()[:3])
        self.now = PlainPosition.of(sfen)
        white = self.now.white
        self.board = {
            (10 - file, 10 - rank) if white else (file, rank): (piece.upper(), piece.islower() == white)
            for (file, rank), piece in self.now.board.items()
        }
        self.ours, self.theirs = (
            set().union(
                *(self.attacked(at, piece, own) for at, (piece, mine) in self.board.items() if mine == own)
            )
            for own in (True, False)
        )

    def attacked(self, square: Square, piece: str, own: bool) -> set[Square]:
        """Return what a piece attacks from a square."""
        forward, found = 1 if own else -1, set()
        for files, ranks in STEPS.get(piece, []):
            found.add((square[0] + files, square[1] + forward * ranks))
        for files, ranks in SLIDES.get(piece, []):
            file, rank = square
            for _ in range(8):
                file, rank = file + files, rank + forward * ranks
                found.add((file, rank))
                if (file, rank) in self.board:
                    break
        return found

    def features(self) -> set[int]:
        found = set()
        for at, (piece, mine) in self.board.items():
            number = PIECES.index(piece) + 14 * (not mine)
            found.add((number * 81 + cell(at)) * 4 + (at in self.ours) + 2 * (at in self.theirs))
        first, now = 28 * 81 * 4, self.now
        for own in (True, False):
            for kind, most in zip("PLNSGBR", (18, 4, 4, 4, 4, 2, 2), strict=True):
                held = now.hands[kind if own != now.white else kind.lower()]
                if held:
                    found.add(first + held - 1)
                first += most
        return found | {first + times for times in range(min(3, self.stood.count(self.stood[-1]) - 1))}

    def rows(self, move: Move) -> list[int]:
        board, text, theirs = self.board, move.text, self.theirs
        to, origin = self.seen(text[2:4]), self.seen(text[:2])
        king = next((at for at, (piece, mine) in board.items() if piece == "K" and not mine), None)
        number = possible().index(move.action)
        before = text[0] if origin is None else board[origin][0]
        after = "+" + before if text.endswith("+") else before
        stands = len(possible()) + 81 * PIECES.index(after) + cell(to)
        checks = after != "K" and king in self.attacked(to, after, True)
        what = len(possible()) + 14 * 81
        if origin is None:
            what += 14 * 15 * 16 + 8 * "PLNSGBR".index(before)
            return [number, stands, what + 4 * (to in theirs) + 2 * (to in self.ours) + checks]
        captured = PIECES.index(board[to][0]) if to in board else 14
        state = 8 * (to in theirs) + 4 * (origin in theirs) + 2 * text.endswith("+") + checks
        return [number, stands, what + (15 * PIECES.index(before) + captured) * 16 + state]

    def seen(self, text: str) -> Square | None:
        """Return the square of "7g" as the mover sees it; None for the drop "P*"."""
        if text[1] == "*":
            return None
        file, rank = int(text[0]), "abcdefghi".index(text[1]) + 1
        return (10 - file, 10 - rank) if self.now.white else (file, rank)


@cache
def possible() -> list[int]:
    """Return the actions of all moves that some piece can make, ascending."""
    squares = [(file, rank) for file in range(1, 10) for rank in range(1, 10)]
    named = {square: f"{square[0]}{'abcdefghi'[square[1] - 1]}" for square in squares}
    found = set()
    for origin, to in itertools.permutations(squares, 2):
        files, ranks = to[0] - origin[0], to[1] - origin[1]
        slides = files == 0 or ranks == 0 or abs(files) == abs(ranks)
        jumps = abs(files) == 1 and ranks == -2
        if slides or (jumps and to[1] > 2):
            found.add(named[origin] + named[to])
        if (slides and min(origin[1], to[1]) <= 3) or (jumps and to[1] <= 3):
            found.add(named[origin] + named[to] + "+")
    lowest = {"P": 2, "L": 2, "N": 3}
    found |= {f"{kind}*{named[to]}" for kind in "PLNSGBR" for to in squares if to[1] >= lowest.get(kind, 1)}
    return sorted(plain_action(text, white=False) for text in found)


TWINS = {
    "tic_tac_toe": lambda: TicTacToe("tic_tac_toe"),
    "connect_four": lambda: ConnectFour("connect_four"),
    "dots_and_boxes": DotsAndBoxes,
    "chess": Chess,
    "chess960": lambda: Chess(chess960=True),
    "shogi": Shogi,
}
"""By name of each game that has sparse features: a function that returns a new twin, at the usual start."""
