"""Plays pairings: loads players when needed, keeps the last few loaded, counts the results."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from evaluation.match.openings import Opening, check_lengths, openings_for
from evaluation.match.player import Player
from evaluation.match.players import make_player, prepare
from evaluation.match.runner import MatchSettings, PlayedGame, play_match
from evaluation.rating.book import Candidate, Gone
from evaluation.rating.bradley_terry import Score
from evaluation.rating.commands import RateConfig
from games.spec import Game

OPEN_PLAYERS = 8
"""Players kept loaded, each with its network: loading one often takes longer than a pairing."""
MOST_OPENINGS = 500
"""Openings that one pairing can use up; after 1000 games its own error is 10 Elo."""


class Matches:
    """The matches of a tournament. `close` when done."""

    def __init__(self, game: Game, settings: RateConfig) -> None:
        """Raises Fatal(CONFIG) if the game does not have these openings."""
        self.openings = all_openings(game, settings.openings, settings.seed)
        check_lengths(self.openings, settings.max_plies)
        self._game = game
        self._settings = settings
        self._candidates: dict[str, Candidate] = {}
        self._open: dict[str, Player] = {}

    def expect(self, candidates: Iterable[Candidate]) -> None:
        """Set the players that `play` may be asked for."""
        self._candidates = {candidate.entrant.name: candidate for candidate in candidates}

    async def play(self, first: str, second: str, skip: int, count: int) -> Score:
        """Play two games from each of `count` openings after the first `skip`.

        Raises Gone when a weights file was removed, Fatal when a player cannot be made.
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
        result = f"{first} - {second}: +{score.wins} ={score.draws} -{score.losses}"
        print(result, *_failures(games), sep="\n  ", file=sys.stderr, flush=True)
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
        player = make_player(candidate.spec, self._game, device=settings.device, threads=settings.threads)
        self._open[name] = player
        await prepare(player)
        return player

    async def close(self) -> None:
        while self._open:
            await self._open.popitem()[1].close()


def all_openings(game: Game, source: str, seed: int) -> list[Opening]:
    """Up to `MOST_OPENINGS` different openings. It requests more and more of them, because small games have
    few, and searching for more than there are takes long. The first ones do not depend on how many there
    are."""
    count, before, found = 10, 0, distinct(openings_for(game, source, 10, seed))
    while len(found) > before and count < MOST_OPENINGS:
        count, before = min(2 * count, MOST_OPENINGS), len(found)
        found = distinct(openings_for(game, source, count, seed))
    return found


def distinct(openings: Sequence[Opening]) -> list[Opening]:
    """Each opening once: two deterministic players would only repeat the same game."""
    return list({(opening.start, opening.actions): opening for opening in openings}.values())


def counted(first: str, second: str, games: Sequence[PlayedGame]) -> Score:
    """The result for `first`, which is the match's player A."""
    results = [game.outcome_for_a for game in games]
    return Score(first, second, results.count(1), results.count(0), results.count(-1))


def _failures(games: Sequence[PlayedGame]) -> list[str]:
    """How players failed: at most three lines."""
    return [f"{game.failed} lost by {game.reason}: {game.detail}" for game in games if game.failed][:3]
