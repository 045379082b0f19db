"""Stored games for the pages: filtered lists, single games ply by ply, and the board of each position with
the clicks for each move.

Each call opens the store and closes it again, so that a deleted run frees its disk space. Replayed games stay
in memory for a while, because stepping through a game requests each of its positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from threading import Lock
from typing import Any

import numpy as np

from azselfplay.games import get_game
from azselfplay.games.boards import Clicks, Spot
from azselfplay.games.game_history import GameHistory, board_text, replay
from azselfplay.games.game_texts import TEXT, display_moves, writers_of
from azselfplay.games.knowledge import RESULTS, knowledge_of, picture_of, sides_on_picture
from azselfplay.games.spec import PLY_CAP, RECORDED, RESIGNATION, Game, State
from azselfplay.host.runs import RunFolder
from azselfplay.lab.report.stored_games import Ply, plies, tags, versions, written_record
from azselfplay.lab.web.guarding import PageError
from azselfplay.store.reader import StoreReader
from azselfplay.store.rows import COLUMNS, DATA, Stored
from protocol.records import POLICY_TARGET, BadRecord, GameRecord

PAGE = 50
"""Games per page."""

SEARCHED_GAMES = 100_000
"""Most games that a filter reads for one page. The next page continues the search for rare games further
back."""

CACHED_GAMES = 8
"""Games kept in memory, because stepping through a game requests each of its positions."""

LAST = 6
"""Number of moves that the list shows of each game."""

CANDIDATES = 12
"""Moves shown with their visits."""

ENDINGS = {TEXT: "txt", "KIF": "kifu"}
"""File endings of formats, where they differ from the format's name; `.kif` would be read as Shift JIS."""


@dataclass(frozen=True)
class Filter:
    """Which games to list; "" and None do not filter."""

    outcome: int | None = None
    reason: str = ""
    source: str = ""
    version: int | None = None
    """A weights version that played in the game."""
    min_plies: int = 0
    max_plies: int = 0
    """0: no limit."""

    def clauses(self) -> dict[str, Any]:
        """Return SQL with a `?` each, and the values."""
        possible = {
            "outcome = ?": self.outcome,
            "reason = ?": self.reason or None,
            "source = ?": self.source or None,
            "version_min <= ?": self.version,
            "version_max >= ?": self.version,
            "plies >= ?": self.min_plies or None,
            "plies <= ?": self.max_plies or None,
        }
        return {text: value for text, value in possible.items() if value is not None}


@dataclass(frozen=True)
class Open:
    """A stored game, replayed."""

    game: Game
    stored: Stored
    record: GameRecord
    played: GameHistory
    plies: list[Ply]


class StoredGames:
    """The games of all runs. Any thread may use it."""

    def __init__(self) -> None:
        self._opened = lru_cache(CACHED_GAMES)(_opened)
        self._lock = Lock()

    def listed(self, run: RunFolder, wanted: Filter, before: int) -> dict[str, Any]:
        """Return a page of games older than number `before` (0: the newest games), newest first."""
        with _store(run) as games:
            low, high = games.span()
            # 0 asks for the newest page.
            last = min(before - 1, high) if before else high
            first = max(low, last - SEARCHED_GAMES + 1)
            clauses = {"seq >= ?": first, "seq <= ?": last, **wanted.clauses()}
            where = " AND ".join(clauses)
            sql = f"SELECT {COLUMNS}, {DATA} FROM games WHERE {where} ORDER BY seq DESC LIMIT {PAGE}"
            rows, game = [Stored.of(row) for row in games.query(sql, *clauses.values())], get_game(games.game)
            # Leave out the first reason, which stands for a game that is not over.
            reasons = [reason.name for reason in game.end_reasons[1:]]
            # A page that is not full has read as many games as it may, so the next page begins before these.
            older = rows[-1].seq if len(rows) == PAGE else first
            return {
                "games": [{**_about(row), "last": last_moves(game, row)} for row in rows],
                "older": older if older > low else None,
                "looked_at": [first, last],
                "span": [low, high],
                "reasons": [*reasons, PLY_CAP, RESIGNATION, RECORDED],
            }

    def shown(self, run: RunFolder, number: int) -> dict[str, Any]:
        """Return a game with its moves and values; values are for the first player."""
        one = self._of(run, number)
        # Values are stored for the side that moves.
        turn = [1 if ply.side == 0 else -1 for ply in one.plies]

        def for_first(values: Iterable[float | None]) -> list[float | None]:
            return [None if value is None else value * sign for value, sign in zip(values, turn, strict=True)]

        words = knowledge_of(one.game).words
        return {
            **_about(one.stored),
            "player": one.record.source,
            "simulations": None if one.record.is_imported else one.record.simulations,
            "score": one.played.score(),
            "forms": list(writers_of(one.game)),
            "moves": display_moves(one.game, one.played.states, one.played.actions),
            "numbers": [words.number(state) for state in one.played.states[:-1]] if words.number else None,
            "names": sides_on_picture(one.game),
            "sides": [ply.side for ply in one.plies],
            "values": for_first(ply.value for ply in one.plies),
            "priors": for_first(ply.prior_value for ply in one.plies),
        }

    def position(self, run: RunFolder, number: int, ply: int, line: Sequence[str] = ()) -> dict[str, Any]:
        """Return the position after `ply` moves and its search result; with a `line` of other moves from
        there, return the position after this line."""
        one = self._of(run, number)
        _check_ply(one, ply)
        # The end of a line that was not played has no search result.
        found: dict[str, Any] = {"ply": ply, "search": None}
        if line:
            try:
                played = [*(done.move for done in one.plies[:ply]), *line]
                state = replay(one.game, one.record.start, played, one.record.max_plies).state
            except ValueError as error:
                text = f"That line cannot be played from position {ply}: {error}"
                raise PageError(text, HTTPStatus.BAD_REQUEST) from error
            return {**found, "board": board(one.game, state, line[-1])}
        before, is_over = one.plies[ply - 1].move if ply else "", ply == len(one.plies)
        last = one.played.actions[ply - 1] if ply else None
        found["board"] = board(one.game, one.played.states[ply], before, is_over=is_over)
        if not is_over:
            done, state, total = one.plies[ply], one.played.states[ply], max(1, one.plies[ply].all_visits)
            most = done.most_visited[:CANDIDATES]
            actions = [one.game.notation.action_from_text(state, text) for text, _ in most]
            found["search"] = {
                "side": done.side,
                "value": done.value,
                "prior_value": done.prior_value,
                "kl": done.prior_kl,
                "depth": done.depth,
                "visits": None if done.is_improved else done.all_visits,
                "is_target": bool(one.record.flags[ply] & POLICY_TARGET),
                "candidates": [
                    {
                        **move,
                        "said": display_moves(one.game, state[None], [action], last)[0],
                        "played": move["text"] == done.move,
                        "visits": None if done.is_improved else visits,
                        "share": visits / total,
                    }
                    for move, action, (_, visits) in zip(
                        moves(one.game, state, actions), actions, most, strict=True
                    )
                ],
            }
        return found

    def up_to(self, run: RunFolder, number: int, ply: int) -> GameHistory:
        """Return a game up to the position after `ply` moves."""
        one = self._of(run, number)
        _check_ply(one, ply)
        return one.played.up_to(ply)

    def download(self, run: RunFolder, number: int, form: str, others: int) -> tuple[str, str]:
        """Return (file name, contents) of a game in a format of `writers_of`; "" is the first. `others`:
        number of other moves of each search to add."""
        one = self._of(run, number)
        forms = writers_of(one.game)
        form = form or next(iter(forms))
        if form not in forms:
            text = f"Games of {one.game.name} can be had as {' or '.join(forms)}, not as {form[:40]!r}."
            raise PageError(text, HTTPStatus.BAD_REQUEST)
        its_tags = tags(f"azselfplay {run.name}", one.stored, one.record)
        text = written_record(forms[form], one.game, its_tags, one.record, others)
        ending = ENDINGS.get(form, form.lower())
        with_others = "-variations" if others else ""
        return f"{run.name}-{number}{with_others}.{ending}", text + "\n"

    def _of(self, run: RunFolder, number: int) -> Open:
        with _store(run) as games:
            stored = next(games.rows_of([number]), None)
            if stored is None and games.was_dropped(number):
                text = f"The moves of game {number} are no longer stored: the trainer keeps only the newest"
                raise PageError(f"{text} games (keep_games).")
            if stored is None:
                low, high = games.span()
                there = f"Its games have the numbers {low} to {high}." if high else "It has no games yet."
                raise PageError(f"Run {run.name} has no game {number}. {there}")
            name = games.game
        # Keep the lock while a game is replayed: a page requests the game several times at once, and one
        # replay is enough.
        with self._lock:
            return self._opened(name, stored)


def _opened(name: str, stored: Stored) -> Open:
    try:
        game = get_game(name)
        record = stored.record(game)
        played = GameHistory(game, record.start, record.max_plies)
        return Open(game, stored, record, played, list(plies(game, record, played)))
    except (BadRecord, ValueError) as error:
        text = f"Game {stored.seq} is damaged: {error}"
        raise PageError(text, HTTPStatus.UNPROCESSABLE_ENTITY) from error


@contextmanager
def _store(run: RunFolder) -> Iterator[StoreReader]:
    if not run.games.is_file():
        away = run.kept_elsewhere("trainer")
        raise PageError(f"Run {run.name} has no games {f'here: {away}' if away else 'yet'}.")
    with closing(StoreReader(run.games)) as games:
        yield games


def last_moves(game: Game, stored: Stored) -> list[str]:
    """Return the last LAST moves of a game as people write them; none if the game is damaged."""
    try:
        record = stored.record(game)
        states, actions = [game.notation.state_from_text(record.start)], record.actions.tolist()
        for action in actions:
            states = [*states[-LAST:], game.after(states[-1], action)]
        before = actions[-LAST - 1] if len(actions) > LAST else None
        return display_moves(game, np.array(states[:-1]), actions[-LAST:], before)
    except (BadRecord, ValueError, IndexError):
        return []


def _check_ply(one: Open, ply: int) -> None:
    if not 0 <= ply <= len(one.plies):
        raise PageError(f"Game {one.stored.seq} has the positions 0 to {len(one.plies)}, not {ply}.")


def _about(row: Stored) -> dict[str, Any]:
    return {
        "number": row.seq,
        "received": row.received_at,
        "source": row.source,
        "plies": row.plies,
        "outcome": row.outcome,
        "result": RESULTS.get(row.outcome, "?"),
        "reason": row.reason,
        "weights": versions(row),
    }


# ---- A position for a page -----------------------------------------------------------------------


def board(game: Game, state: State, move: str, *, side: int = 0, is_over: bool = False) -> dict[str, Any]:
    """Return the position `state` [state_words], reached by `move` ("" at the start), as `side` sees it.
    `is_over`: the game has ended here, so the text names nobody to move."""
    known = knowledge_of(game)
    clicks = known.clicks
    turned = clicks.svg_turned if clicks is not None and side == 1 else None
    # If a game has no turned picture, both players see the same one.
    draw = turned or picture_of(game)
    return {
        "svg": draw(state, move).decode(),
        "text": board_text(game, state, is_over=is_over),
        "position": game.notation.state_to_text(state),
        "width": 0.0 if clicks is None else clicks.width,
        "height": 0.0 if clicks is None else clicks.height,
        "spots": [] if clicks is None else [list(spot) for spot in spots_of(clicks, turned=bool(turned))],
    }


def spots_of(clicks: Clicks, *, turned: bool) -> tuple[Spot, ...]:
    """Return the spots to click; on a turned picture, every spot is in the opposite place."""
    if not turned:
        return clicks.spots
    return tuple(spot.opposite(clicks.width, clicks.height) for spot in clicks.spots)


def moves(game: Game, state: State, actions: Iterable[int]) -> list[dict[str, Any]]:
    """Return legal actions in `state` as text, and for each the names of the spots to click, in order."""
    clicks = knowledge_of(game).clicks
    return [
        {
            "text": game.notation.action_to_text(state, action),
            "clicks": [] if clicks is None else list(clicks.clicked(state, action)),
        }
        for action in actions
    ]
