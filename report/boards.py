"""Sample games as pictures: the first, one in the middle, the newest."""

from __future__ import annotations

import html
from dataclasses import dataclass

from games import get_game
from games.game_history import GameHistory
from games.knowledge import knowledge_of
from games.spec import Game, State
from protocol.records import BadRecord
from report.drawing import svg_uri
from report.games.showing import RESULTS, plies, versions
from store.reader import StoreReader
from store.rows import Stored

PICTURES = 3
"""Boards per game, evenly spread, the last one after the last move."""
MOVES = 400
"""Most moves printed."""


@dataclass(frozen=True)
class Shown:
    """A game for the page."""

    title: str
    moves: str
    boards: list[tuple[str, str]]
    """(caption, HTML)"""


def sample_games(games: StoreReader) -> list[Shown]:
    """The first, the middle and the newest game, skipping damaged ones."""
    low, high = games.span()
    wanted = sorted({low, (low + high) // 2, high}) if high else []
    names = {low: "first", high: "newest"}
    game, found = get_game(games.game), []
    for stored in games.numbered(wanted):
        try:
            found.append(_shown(game, stored, names.get(stored.seq, "middle")))
        except (BadRecord, ValueError):
            continue
    return found


def _shown(game: Game, stored: Stored, name: str) -> Shown:
    record = stored.record(game)
    game_history = GameHistory(game, record.start, record.max_plies)
    after = {-(-record.plies * (at + 1) // PICTURES) for at in range(PICTURES)}
    moves, boards = [], []
    for number, ply in enumerate(plies(game, record, game_history), 1):
        moves.append(ply.move)
        if number in after:
            caption = f"after ply {number}, {ply.move}; the mover's root value was {ply.value:+.2f}"
            boards.append((caption, picture(game, game_history.state, ply.move)))
    title = (
        f"Game {stored.seq} ({name}): {RESULTS.get(stored.outcome, '?')} by "
        f"{stored.reason.replace('_', ' ')}, {stored.plies} plies, weights {versions(stored)}"
    )
    text = " ".join(moves[:MOVES]) + (" ..." if len(moves) > MOVES else "")
    return Shown(title, text, boards)


def picture(game: Game, state: State, move: str) -> str:
    """HTML of a board: an image if the game has one, else text. state  [state_words]"""
    svg = knowledge_of(game).svg
    if svg is None:
        return f"<pre>{html.escape(game.notation.render(state))}</pre>"
    alt = html.escape(game.notation.state_to_text(state))
    return f'<img class="board" alt="{alt}" src="{svg_uri(svg(state, move))}">'
