"""A picture of any game's board, drawn from what a network sees of it, for games that have none of their own;
and where its moves are clicked.

Planes that change places with the side that looks at them are the men of the two sides. Kinds of men are
letters; cells that are sent as codes show their number. Where moves are called by their cells (`a2b3`), these
names stand at the edges and are clicked in turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.boards import Clicks, Spot, grid, picture, text_at
from azselfplay.games.spec import Game, State

Planes = npt.NDArray[np.uint8]
"""[planes, cells] of one position."""

STEP, EDGE, NAMED_EDGE = 44, 2, 20
"""Pixels: a cell, and the margin around the board, without and with names of columns and rows."""
LONGEST = 4
"""Most letters of a move that is written into its cell."""
MOST_MEN = 4
"""Most men drawn on one cell."""
PAPER, LINE, NUMBER, LAST = "#fbfaf6", "#8a8577", "#6b675c", "#e3b04f"
SIDES, COLOURS = ("Blue", "Orange"), ("#2d5fa8", "#b5532a", "#5a5f66")
"""Names of the players, and colours of their men and of those that are nobody's."""


def svg(game: Game, state: State, move: str) -> bytes:
    """The position, with the moves of free cells written there. Cells that `move`, which led to it, names are
    marked."""
    _, width, height = _measures(game)
    parts = [f'<rect width="{width}" height="{height}" fill="{PAPER}" class="paper"/>']
    men, moves, last = men_of(game, state), moves_by_cell(game, state), named_cells(game, move)
    for spot, cell in zip(cells_of(game), _from_the_top(game), strict=True):
        place = f'x="{spot.x:g}" y="{spot.y:g}" width="{STEP}" height="{STEP}"'
        # Pale, so that a text in it is read in the dark, too.
        fill = f'fill="{LAST}" fill-opacity="0.4"' if cell in last else 'fill="none"'
        parts.append(f'<rect {place} {fill} stroke="{LINE}" class="pencil"/>')
        there = men[cell][:MOST_MEN]
        # One fills the cell, several share it.
        radius = STEP * (0.38 if len(there) == 1 else 0.21)
        for at, (owner, text) in enumerate(there):
            shift = 0 if len(there) == 1 else STEP * 0.22
            x = spot.x + STEP / 2 + (shift if at % 2 else -shift)
            y = spot.y + STEP / 2 + (shift if at // 2 else -shift)
            parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{COLOURS[owner]}"/>')
            if text:
                parts.append(text_at(x, y + radius / 3, text, int(radius), "#ffffff"))
        if not there and (text := moves.get(cell, "")):
            parts.append(text_at(spot.x + STEP / 2, spot.y + STEP / 2 + 4, text, 12, NUMBER, ' class="ink"'))
    return picture(width, height, [*parts, *_names_at_edges(game)])


def _names_at_edges(game: Game) -> list[str]:
    """Columns and rows as moves call them; on all four edges, so that the board stands in the middle."""
    names, (edge, width, height) = list(look_of(game).cells), _measures(game)
    columns = [(edge + STEP * (col + 0.5), name[0]) for col, name in enumerate(names[: game.cols])]
    rows = [(height - edge - STEP * (row + 0.5), name[1:]) for row, name in enumerate(names[:: game.cols])]
    places = [(x, y, name) for x, name in columns for y in (edge / 2, height - edge / 2)]
    places += [(x, y, name) for y, name in rows for x in (edge / 2, width - edge / 2)]
    return [text_at(x, y + 4, name, 12, NUMBER, ' class="ink"') for x, y, name in places]


def _measures(game: Game) -> tuple[int, int, int]:
    """Pixels: the margin around the board; width and height of the picture."""
    edge = NAMED_EDGE if look_of(game).cells else EDGE
    return edge, STEP * game.cols + 2 * edge, STEP * game.rows + 2 * edge


def men_of(game: Game, state: State) -> list[list[tuple[int, str]]]:
    """For each cell: (owner, or 2 for nobody; letter of the kind) of what stands there."""
    features = np.zeros(game.feature_words(1), np.uint64)
    game.rules.encode(state.reshape(1, -1), 1, 1, features)
    side, bits = int(game.rules.side_to_move(state)), _bits(game, features)
    codes = [0] * game.cells
    if game.coded_cells is not None:
        # Codes lie behind the planes, several in a word.
        first, a_word = game.planes_per_position * game.words_per_plane, game.coded_cells.cells_a_word
        mask = (1 << game.code_bits) - 1
        codes = [
            int(features[first + cell // a_word]) >> cell % a_word * game.code_bits & mask
            for cell in range(game.cells)
        ]
    # Other planes are only drawn where none are men: they say something about men, or about the board.
    kinds = look_of(game).kinds
    shown = bits[: 2 * kinds] if kinds else bits
    letters = kinds or len(bits)
    men: list[list[tuple[int, str]]] = []
    for cell in range(game.cells):
        here = [
            ((plane // kinds) ^ side if kinds else 2, chr(ord("A") + plane % letters) if letters > 1 else "")
            for plane in np.flatnonzero(shown[:, cell]).tolist()
        ]
        men.append(here + ([(2, str(codes[cell]))] if codes[cell] else []))
    return men


PLIES = 12
"""Moves played to see which planes are men, and which cells are named in moves."""


class Look(NamedTuple):
    """What a short game shows of how to draw it."""

    kinds: int
    """`k` where the first k planes are men of the side to move, and the next k the same of the other; 0 if
    no plane changes places, or each side sees the board from its own end."""
    cells: Mapping[str, int]
    """Cells by their names in the text of moves, from `a1` or `A1` at the lower left; empty where moves name
    none, or others than those that they change in the planes."""


class Ply(NamedTuple):
    """A move of the short game, after which the other side moves."""

    own: Planes
    """Before the move, as its player sees it."""
    other: Planes
    """The same, as the other player sees it."""
    changed: npt.NDArray[np.bool_]
    """[cells] where the move changes what that player sees."""
    names: list[str]
    """Cells in the text of the move."""
    names_of_all: set[str]
    """Cells in the texts of all legal moves."""


NAMES = re.compile(r"(?<![a-wyz])[A-Za-z][1-9][0-9]*")
"""Cells in the text of a move: `a2`, `b3` in `a2b3`, `a2xb3` and `Na2-b3`; none in `edge5`."""
_looks: dict[str, Look] = {}


def look_of(game: Game) -> Look:
    """How a game is drawn. It is found once."""
    if game.name not in _looks:
        plies = list(_short_game(game))
        changes = any((ply.own != ply.other).any() for ply in plies)
        most = game.planes_per_position // 2 if changes else 0
        fitting = (
            k for k in range(most, 0, -1) if all((_swapped(ply.own, k) == ply.other).all() for ply in plies)
        )
        _looks[game.name] = Look(next(fitting, 0), _cells_by_name(game, plies))
    return _looks[game.name]


def _cells_by_name(game: Game, plies: list[Ply]) -> dict[str, int]:
    """`Look.cells`"""
    named = set().union(*(ply.names_of_all for ply in plies))
    letters = ascii_uppercase if any(map(str.isupper, named)) else ascii_lowercase
    names = [f"{letter}{row + 1}" for row in range(game.rows) for letter in letters[: game.cols]]
    cells = {name: cell for cell, name in enumerate(names)}
    if not named or not named <= cells.keys() or len(cells) != game.cells:
        return {}
    # Otherwise they are others than those of the picture, which may be turned for one side.
    fits = all(ply.changed[[cells[name] for name in ply.names]].any() for ply in plies if ply.names)
    return cells if fits else {}


def _swapped(planes: Planes, kinds: int) -> Planes:
    # The other side sees its own men first, so these planes and as many behind them change places.
    return np.concatenate([planes[kinds : 2 * kinds], planes[:kinds], planes[2 * kinds :]])


def _short_game(game: Game) -> Iterator[Ply]:
    positions = np.zeros((PLIES + 1, game.state_words), np.uint64)
    game.rules.start(positions[0])
    # The same game each time, so that a picture never changes.
    rng = np.random.default_rng(0)
    for ply in range(PLIES):
        legal = game.legal_list(positions[ply])
        if not legal or game.end_value(positions[ply]) is not None:
            return
        action = int(rng.choice(legal))
        game.rules.play(positions[ply], action, positions[ply + 1])
        if ply and game.rules.side_to_move(positions[ply]) != game.rules.side_to_move(positions[ply + 1]):
            now, later = (
                np.zeros(game.feature_words(1), np.uint64),
                np.zeros(game.feature_words(2), np.uint64),
            )
            game.rules.encode(positions, ply + 1, 1, now)
            game.rules.encode(positions, ply + 2, 2, later)
            # The newest position comes first; behind it stands this one, as the other side sees it.
            newest = game.planes_per_position * game.words_per_plane
            own, other, after = (_bits(game, words) for words in (now, later[newest:], later))
            names = {one: NAMES.findall(game.notation.action_to_text(positions[ply], one)) for one in legal}
            yield Ply(own, other, (other != after).any(axis=0), names[action], set().union(*names.values()))


def _bits(game: Game, features: npt.NDArray[np.uint64]) -> Planes:
    """[planes_per_position, cells] of the newest position."""
    words = features[: game.planes_per_position * game.words_per_plane].astype("<u8").view(np.uint8)
    rows = words.reshape(game.planes_per_position, 8 * game.words_per_plane)
    return np.unpackbits(rows, axis=1, bitorder="little")[:, : game.cells]


# ---- Moves ---------------------------------------------------------------------------------------


def named_cells(game: Game, text: str) -> tuple[int, ...]:
    """The cells that the text of a move names, in order; () where a game's moves do not (`Look.cells`)."""
    cells, names = look_of(game).cells, NAMES.findall(text)
    return tuple(cells[name] for name in names) if cells.keys() >= set(names) else ()


def cells_of_move(game: Game, state: State, action: int) -> tuple[int, ...]:
    """The cells on which a move is made, in order: those that it names, or that of its action."""
    named, cell = named_cells(game, game.notation.action_to_text(state, action)), cell_of(game, action)
    return named or (() if cell is None else (cell,))


def moves_by_cell(game: Game, state: State) -> dict[int, str]:
    """The text of each move that is short, made on one cell, and the only one there."""
    by_cell = {action: cells_of_move(game, state, action) for action in game.legal_list(state)}
    counts = Counter(by_cell.values())
    texts = {
        cells[0]: game.notation.action_to_text(state, action)
        for action, cells in by_cell.items()
        if len(cells) == 1 and counts[cells] == 1
    }
    return {cell: text for cell, text in texts.items() if len(text) <= LONGEST}


def cell_of(game: Game, action: int) -> int | None:
    """The cell of an action; None for one without a cell."""
    if game.policy_planes is None and game.actions != game.cells:
        return None
    return action % game.cells if action < game.actions - game.extra_actions else None


def cells_of(game: Game) -> tuple[Spot, ...]:
    """The cells of the picture, the top row first."""
    names = list(look_of(game).cells) or [
        f"row {row + 1}, column {col + 1}" for row in range(game.rows) for col in range(game.cols)
    ]
    edge, _, _ = _measures(game)
    starts = range(game.cells - game.cols, -1, -game.cols)
    return grid([names[start : start + game.cols] for start in starts], edge, edge, STEP)


def _from_the_top(game: Game) -> list[int]:
    """Cells in the order of `cells_of`; they are numbered from the bottom."""
    return [row * game.cols + col for row in range(game.rows - 1, -1, -1) for col in range(game.cols)]


def clicks_of(game: Game) -> Clicks:
    """Where the drawn picture is clicked: on the cells that moves name or on which their actions are, on
    columns where actions are columns; other actions have no place. Cells are called as in the game's moves
    (`a2`), else `row 2, column 1`, both from the lower left."""
    edge, width, height = _measures(game)
    if game.policy_planes is None and game.actions == game.cols:
        high = height - 2 * edge
        spots = tuple(
            Spot(f"column {col + 1}", edge + STEP * col, edge, STEP, high) for col in range(game.cols)
        )
        return Clicks(width, height, spots, lambda _state, action: (spots[action].name,))
    cells = cells_of(game)
    name_of = {cell: spot.name for cell, spot in zip(_from_the_top(game), cells, strict=True)}

    def clicked(state: State, action: int) -> tuple[str, ...]:
        return tuple(name_of[cell] for cell in cells_of_move(game, state, action))

    return Clicks(width, height, cells, clicked)
