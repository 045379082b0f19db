"""Plays pairings: opens players when they are needed, keeps the last few open, counts the results."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from evaluation.match.openings import Opening, openings_for
from evaluation.match.player import Player
from evaluation.match.runner import MatchSettings, PlayedGame, play_match
from evaluation.rating.blend import rating_player
from evaluation.rating.bradley_terry import Score
from evaluation.rating.entrants import Candidate, Gone
from evaluation.rating.rate_config import RateConfig
from games.spec import Game

OPEN_PLAYERS = 8
"""Players kept open, each with its network: loading one takes longer than many a pairing."""
MOST_OPENINGS = 500
"""Openings that one pairing can use up; after 1000 games its own error is 10 Elo."""


class Matches:
    """The players of a tournament at their boards. `close` when done."""

    def __init__(self, game: Game, settings: RateConfig) -> None:
        """Raises Fatal(CONFIG) if there are no such openings for the game."""
        self.openings = all_openings(game, settings.openings, settings.seed)
        self._game = game
        self._settings = settings
        self._candidates: dict[str, Candidate] = {}
        self._open: dict[str, Player] = {}

    def expect(self, candidates: Iterable[Candidate]) -> None:
        """Who may be asked to play."""
        self._candidates = {candidate.entrant.name: candidate for candidate in candidates}

    async def play(self, first: str, second: str, skip: int, count: int) -> Score:
        """Two games from each of `count` openings after the first `skip`.

        Raises Gone when a weights file is not there any more, Fatal when a player cannot be made.
        """
        players = await self._player(first), await self._player(second)
        openings = self.openings[skip : skip + count]
        settings = MatchSettings(
            concurrent=self._settings.concurrent or 2 * len(openings),
            max_plies=self._settings.max_plies,
            seed=self._settings.seed + skip,
        )
        games = await play_match(self._game, *players, openings, settings)
        score = counted(first, second, games)
        positions = f"{first} - {second}: +{score.wins} ={score.draws} -{score.losses}"
        print(positions, *_failures(games), sep="\n  ", file=sys.stderr, flush=True)
        return score

    async def _player(self, name: str) -> Player:
        if name in self._open:
            self._open[name] = self._open.pop(name)
            return self._open[name]
        candidate = self._candidates[name]
        if candidate.file is not None and not candidate.file.exists():
            raise Gone(f"{candidate.file} has been removed")
        while len(self._open) >= OPEN_PLAYERS:
            await self._open.pop(next(iter(self._open))).close()
        settings = self._settings
        player = rating_player(candidate.spec, self._game, device=settings.device, threads=settings.threads)
        self._open[name] = player
        return player

    async def close(self) -> None:
        while self._open:
            await self._open.popitem()[1].close()


def all_openings(game: Game, source: str, seed: int) -> list[Opening]:
    """Up to `MOST_OPENINGS` different openings, asked for in growing numbers: small games have few, and a
    search for more than there are is long. The first ones are the same however many there are."""
    count, found = 10, distinct(openings_for(game, source, 10, seed))
    while len(found) == count < MOST_OPENINGS:
        count = min(2 * count, MOST_OPENINGS)
        found = distinct(openings_for(game, source, count, seed))
    return found


def distinct(openings: Sequence[Opening]) -> list[Opening]:
    """Each once: two deterministic players would only play the same game again."""
    return list({(opening.start, opening.actions): opening for opening in openings}.values())


def counted(first: str, second: str, games: Sequence[PlayedGame]) -> Score:
    """The result for `first`, who is the match's player A."""
    results = [game.outcome_for_a for game in games]
    return Score(first, second, results.count(1), results.count(0), results.count(-1))


def _failures(games: Sequence[PlayedGame]) -> list[str]:
    """What is worth knowing of games that were lost by failing; at most three lines."""
    return [f"{game.failed} lost by {game.reason}: {game.detail}" for game in games if game.failed][:3]
