"""One game of a person against a network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from engine.orders import Report, Request
from engine.thinker import Thinker, Thinking
from engine.uci_lines import wdl_per_mille
from games.game_history import GameHistory, replay
from web.boards import board, moves
from web.trouble import Trouble

LINES = 10
"""Moves shown with their visits."""
LONGEST = 12
"""Moves shown of a line."""


@dataclass(frozen=True)
class Terms:
    """What a person has chosen."""

    side: int = 0
    """The person's side; 0: the first player."""
    simulations: int = 100
    """Simulations of the network per move."""
    start: str = ""
    """Start position in the game's notation; "" is the usual start."""
    moves: tuple[str, ...] = ()
    """Moves from there to the position in which the game begins."""
    max_plies: int = 0
    """Cap on the length of the game, plies; 0: the game's own."""


class Room:
    """The game, and the tree that searches it. Requests change it one at a time."""

    def __init__(self, token: str, run: str, weights: Path, thinker: Thinker, terms: Terms) -> None:
        self.token = token
        self.run = run
        self.weights = weights
        self.used_at = 0.0
        """When it was last used, in seconds of the event loop."""
        self.lock = asyncio.Lock()
        self.thinker = thinker
        self._game = thinker.game
        self._terms = terms
        self._played = self._replayed(terms.moves)
        self._found: dict[str, Any] | None = None
        """The newest search result, for the position before the network's move or the present one."""

    # ---- What a person does ---------------------------------------------------------------------

    def play(self, text: str) -> None:
        """Play the person's move, in the game's notation. Raises Trouble(409) if it is not allowed now."""
        if self._played.end_reason() is not None:
            raise Trouble("The game is over.", HTTPStatus.CONFLICT)
        if self._played.side_to_move != self._terms.side:
            raise Trouble("It is the network's turn.", HTTPStatus.CONFLICT)
        try:
            self._played.play_text(text)
        except ValueError as error:
            raise Trouble(f"That move cannot be played: {error}", HTTPStatus.CONFLICT) from error
        self._found = None

    async def reply(self) -> None:
        """Play the network's move, if it is its turn."""
        if self._played.end_reason() is None and self._played.side_to_move != self._terms.side:
            action = await self._search(is_hint=False)
            self._played.play(action)

    async def hint(self) -> None:
        """Search for the move that the network would play for the person."""
        if self._played.end_reason() is not None:
            raise Trouble("The game is over.", HTTPStatus.CONFLICT)
        await self._search(is_hint=True)

    def take_back(self) -> None:
        """Return to the position before the person's last move."""
        texts, first = self._played.moves_text(), len(self._terms.moves)
        going = self._replayed(texts[:first])
        turns = []
        for text in texts[first:]:
            if going.side_to_move == self._terms.side:
                turns.append(going.ply)
            going.play_text(text)
        if not turns:
            raise Trouble("There is no move of yours to take back.", HTTPStatus.CONFLICT)
        self._played = self._replayed(texts[: turns[-1]])
        self._found = None

    def _replayed(self, moves: Sequence[str]) -> GameHistory:
        return replay(self._game, self._terms.start, moves, self._terms.max_plies)

    # ---- Searching ------------------------------------------------------------------------------

    async def _search(self, *, is_hint: bool) -> int:
        reports: list[Report] = []
        request = Request(
            start=self._played.start,
            actions=tuple(self._played.actions),
            began=asyncio.get_running_loop().time(),
            simulations=self._terms.simulations,
            lines=LINES,
            show_draw=True,
        )
        side, state = self._played.side_to_move, self._played.state.copy()
        found = await self.thinker.think(Thinking(request), reports.append)
        action = found.action if found.moves else int(self._played.legal_actions()[0])
        self._found = {"is_hint": is_hint, "side": side, **self._shown(reports[-1], side)}
        self._with_clicks(self._found["lines"], state)
        return action

    def _shown(self, report: Report, side: int) -> dict[str, Any]:
        best = report.lines[0] if report.lines else None
        total = max(1, sum(line.visits for line in report.lines))
        wdl = (0, 1000, 0)
        if best is not None:
            wdl = wdl_per_mille(best.value, report.draw or 0.0, best.proof)
        return {
            "simulations": report.progress.simulations,
            "seconds": report.progress.seconds,
            "wdl": list(wdl if side == 0 else reversed(wdl)),
            "lines": [
                {
                    "moves": list(line.moves[:LONGEST]),
                    "visits": line.visits,
                    "share": line.visits / total,
                    "value": line.value,
                    "prior": line.prior,
                }
                for line in report.lines
            ],
        }

    def _with_clicks(self, lines: list[dict[str, Any]], state: Any) -> None:
        for line in lines:
            action = self._game.notation.action_from_text(state, line["moves"][0])
            line["clicks"] = moves(self._game, state, [action])[0]["clicks"]

    # ---- What is shown --------------------------------------------------------------------------

    def view(self) -> dict[str, Any]:
        """Everything that a page shows. `wdl`: win, draw and loss of the first player, per mille."""
        played = self._played
        over, texts = played.end_reason(), played.moves_text()
        mine = over is None and played.side_to_move == self._terms.side
        legal = played.legal_actions().tolist() if mine else []
        return {
            "room": self.token,
            "run": self.run,
            "game": self._game.name,
            "weights": self.thinker.net.name,
            "simulations": self._terms.simulations,
            "side": self._terms.side,
            "to_move": played.side_to_move,
            "is_mine": mine,
            "board": board(
                self._game,
                played.state,
                texts[-1] if texts else "",
                side=self._terms.side,
                is_over=over is not None,
            ),
            "legal": moves(self._game, played.state, legal),
            "moves": texts,
            "first": len(self._terms.moves),
            "over": over,
            "outcome": None if over is None else played.outcome(),
            "score": played.score(),
            "found": self._found,
        }
