"""Positions and games as people write them: reads pasted text, and writes moves and game files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.knowledge import GameFormat, GameWriter, WrittenMove, knowledge_of, tag_value
from azselfplay.games.spec import MAX_PLIES, Game, Positions

# ---- Reading -------------------------------------------------------------------------------------


def form_in(game: Game, text: str) -> GameFormat | None:
    """Return the game's file format in which `text` is written, judged by its beginning; None if it is no
    game file."""
    begin = text.lstrip("\ufeff \r\n\t")
    return next((form for form in knowledge_of(game).formats if form.begins.match(begin)), None)


def read_position(game: Game, text: str, moves: Iterable[str] = ()) -> GameHistory:
    """Return the game from the position in `text` (or the usual start), followed by `moves`.

    text: a position in the game's notation (FEN, SFEN, EPD), perhaps with `moves` and moves after it, moves
    from the start separated by spaces, or a file of the game's formats, of which the first game counts.
    Raises ValueError naming what cannot be read, or the move that is not legal.
    """
    known = knowledge_of(game)
    if form := form_in(game, text):
        found = next(form.read(text.encode()), ValueError("there is no game in it"))
        if isinstance(found, ValueError):
            raise found
        return after_moves(game, found.start, (*found.moves, *moves))
    position, separator, more = at_moves(text)
    start = known.read_start(position)
    try:
        game.notation.state_from_text(start)
    except ValueError as no_position:
        if "/" in text or separator:  # a slash separates the ranks of a position; no move has one
            raise
        try:
            # The word for "same square" in a move of shogi is followed by a wide blank.
            return after_moves(game, "", (*re.sub(r"(?<=同)\s+", "", text).split(), *moves))
        except ValueError as no_moves:
            why = f"not as a position ({no_position}) and not as moves from the start ({no_moves})"
            # It is unknown which of the two was meant, so both reasons are given.
            raise ValueError(f"{text!r} cannot be read, {why}") from no_moves
    return after_moves(game, start, (*more.split(), *moves))


_AT_MOVES = re.compile(r'((?:"[^"]*"|[^"])*?)(?<!\S)(moves)(?!\S)(.*)', re.DOTALL)
"""The texts of an EPD, in quotation marks, may have the word too."""


def at_moves(text: str) -> tuple[str, str, str]:
    """Split text at the word `moves`, like `str.partition`: engines are sent it between a position and the
    moves after it."""
    found = _AT_MOVES.fullmatch(text)
    return (found[1], found[2], found[3]) if found else (text, "", "")


def after_moves(game: Game, start: str, moves: Sequence[str], *, draws_end: bool = False) -> GameHistory:
    """Return the game after `moves` (`replay`). Raises ValueError. The cap on the length of games belongs to
    self-play and is no rule of the game, so here it counts from the position after `moves`."""
    cap = min(game.max_plies + len(moves), MAX_PLIES)
    return replay(game, start, moves, cap, play_as_written, draws_end=draws_end)


def play_as_written(history: GameHistory, move: str) -> None:
    """Play a move that is written in the game's notation or as people write it. Raises ValueError."""
    try:
        history.play_text(move)
    except ValueError:
        # Only now, because it is slow: most moves are in the notation, and files have many moves.
        if (meant := in_notation(history, move)) == move:
            raise
        history.play_text(meant)


def in_notation(history: GameHistory, text: str) -> str:
    """Return a move in the game's notation. `text` may also be as people write it (`display_moves`; in chess
    Nf3, exd5, 0-0, e8Q, with or without signs for check and marks). Text that names no legal move is
    returned unchanged."""
    game, state = history.game, history.state
    try:
        game.notation.action_from_text(state, text)
    except ValueError:
        if read := knowledge_of(game).words.read:
            with suppress(ValueError):
                return read(state, text)
            return text
        before = history.actions[-1] if history.actions else None
        for action in history.legal_actions().tolist():
            (written,) = display_moves(game, state[np.newaxis], [action], before)
            if _plain(written) == _plain(text):
                return game.notation.action_to_text(state, action)
    return text


def _plain(move: str) -> str:
    """Return the text of a move without check signs, marks and wide blanks, and with 0 written as O."""
    return move.rstrip("+#!?").replace("0", "O").replace("\u3000", "")


# ---- Moves as people write them ------------------------------------------------------------------


def display_moves(
    game: Game, positions: Positions, actions: Sequence[int], before: int | None = None
) -> list[str]:
    """Return moves as people write them: `actions[i]` in `positions[i]` [n, state_words]. before: the action
    that led to the first position."""
    move = knowledge_of(game).words.move
    if move is None:
        pairs = zip(positions, actions, strict=False)  # a game has one position more than actions
        return [game.notation.action_to_text(state, action) for state, action in pairs]
    last = [before, *actions]
    return [move(positions[at], action, last[at]) for at, action in enumerate(actions)]


# ---- Writing -------------------------------------------------------------------------------------


TEXT = "text"
"""Our own format, which every game has: tags and moves."""


def writers_of(game: Game) -> dict[str, GameWriter]:
    """Return by name the formats in which games can be written, the usual one first: `PGN`, `CSA`, `KIF`,
    `text`."""
    found = {one.name: one.write for one in knowledge_of(game).formats}
    return {**found, TEXT: partial(_as_text, game)}


def _as_text(
    game: Game, tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str
) -> str:
    """Return a game as tags and moves, with alternative lines in brackets after the move played. Each turn of
    the first player gets the next move number. Raises ValueError if the game breaks the rules."""
    history = GameHistory(game, start, game.max_plies + len(moves))
    history.draws_end = False
    lines, number, before = list[str](), 0, 1
    for one in moves:
        # Sides need not alternate: a new number begins when the first player's turn begins.
        side = history.side_to_move
        number += side < before or number == 0
        before = side
        shown = [" ".join([*line, *([f"{{{comment}}}"] if comment else [])]) for line, comment in one.others]
        played = f"{one.move} {{{one.comment}}}" if one.comment else one.move
        turn = " ".join([played, *(f"({line})" for line in shown)])
        lines.append(f"{number}{'...' if side else '.'} {turn}")
        history.play_text(one.move)
    all_tags = {"Game": game.name, **tags} | ({"Start": start} if start else {})
    if (score := history.score()) is not None:
        all_tags["Score"] = f"{score:+g}"
    written = [f'[{name} "{tag_value(text)}"]' for name, text in all_tags.items()]
    end = [f"{{{ending}}}"] if ending else []
    return "\n".join([*written, "", *lines, *end, tags.get("Result", "*")])
