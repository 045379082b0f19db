"""The texts that `azplay play` prints."""

from __future__ import annotations

import textwrap

from engine.core.open_game import OpenGame
from engine.core.report import Found, Report
from games.rendering import board_text
from games.spec import Game

SIDES = ("first", "second")
"""Names of the players by side."""
WIDTH = 100
LINE_LENGTH = 8
"""Moves shown of an expected line."""

HELP = """\
A move is written in the game's notation: `moves` shows those that are legal.
  moves             the legal moves
  hint              the moves that the network would consider for you
  undo              take your last move back, and the answer to it
  go                let the network move for you
  board             show the board again
  nodes N           simulations of the network for each move from now on
  new [first|second]  begin again, and choose your side
  help              this text
  quit              end"""


def greeting(game: Game, network: str, person: int) -> str:
    """The first lines of a session."""
    return f"{game.name}: you are the {SIDES[person]} player, against {network}. `help` lists the commands."


def board(history: OpenGame) -> str:
    """The board, with an empty line before and after it."""
    is_over = history.end_reason() is not None
    return f"\n{board_text(history.game, history.state, is_over=is_over)}\n"


def moves(history: OpenGame) -> str:
    """The legal moves."""
    if history.end_reason() is not None:
        return "The game is over."
    notation = history.game.notation
    legal = [notation.action_to_text(history.state, int(action)) for action in history.legal_actions()]
    return textwrap.fill(" ".join(legal), WIDTH)


def chances(value: float) -> str:
    """A value in [-1, 1] as a share of points: a draw is half a point."""
    return f"{50 * (value + 1):.0f} %"


def move_of_network(found: Found, report: Report, *, for_person: bool) -> str:
    """What the network has played, and its judgement. `for_person`: it moved for the person."""
    who = "The network moves for you" if for_person else "The network plays"
    side = "your" if for_person else "its own"
    after = f" It expects {' '.join(found.moves[1:LINE_LENGTH])}." if len(found.moves) > 1 else ""
    # Fewer than asked for where nothing could change the move any more; those of the last search count too.
    simulations = report.progress.simulations or "no new"
    return (
        f"{who}: {found.moves[0]}  ({side} chances {chances(found.value)}, {simulations} simulations).{after}"
    )


def hint(report: Report) -> str:
    """The best moves of a search, the best first."""
    shown = [
        f"  {line.moves[0]:8} your chances {chances(line.value):>5}, {line.visits} visits, then "
        f"{' '.join(line.moves[1:LINE_LENGTH]) or '-'}"
        for line in report.lines
    ]
    return "\n".join(shown)


def result(history: OpenGame, person: int) -> str:
    """How the game ended, for the person."""
    outcome = history.outcome() * (1 if person == 0 else -1)
    text = {1: "You win", 0: "A draw", -1: "The network wins"}[outcome]
    reason = str(history.end_reason()).replace("_", " ")
    score = history.score()
    by = "" if not score else f", by {abs(score):g}"
    return f"{text} ({reason}{by}). `undo` takes moves back, `new` begins another game, `quit` ends."
