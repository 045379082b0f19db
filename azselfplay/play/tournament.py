"""Plays the games of a ladder: chooses the next pairing, loads its players, and stops when there are enough
games.

`play_on` asks `bradley_terry.next_pair` for the most informative pairing, plays some openings of it and saves
the book, so that no finished pairing is lost when it is stopped. `Matches` loads players when they are needed
and keeps the last few, because loading a network often takes longer than a pairing.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from azselfplay.games.spec import Game
from azselfplay.host.exits import Fatal
from azselfplay.play.book import Book, Candidate, Gone
from azselfplay.play.bradley_terry import Pair, Score, next_pair, unconnected
from azselfplay.play.elo import won_drawn_lost
from azselfplay.play.openings import Opening, check_lengths, openings_for
from azselfplay.play.player import Player
from azselfplay.play.players import make_player
from azselfplay.play.runner import MatchSettings, play_match

PlayPairing = Callable[[str, str, int, int], Awaitable[Score]]
"""`(first, second, openings to skip, openings) -> score`; each opening is played from both sides."""


@dataclass(frozen=True)
class Goal:
    """When a tournament is over."""

    games: int
    """Games of each rated player, on average."""
    openings: int
    """Number of openings that a pairing plays before the next pairing is chosen; there are twice as many
    games."""
    most_openings: int = 1_000_000
    """Number of available openings. A pairing that has used them all plays no more."""


async def play_on(
    book: Book,
    names: Sequence[str],
    chain: Sequence[Pair],
    anchors: Mapping[str, float],
    goal: Goal,
    play: PlayPairing,
    finishing: Callable[[], bool],
) -> None:
    """Play until the goal is reached, or until `finishing()` is true after a pairing. Each pairing is saved
    at once."""
    # `finishing` is checked only between pairings: a pairing that has begun is played to its end.
    while not finishing() and not is_over(book, names, anchors, goal):
        # Two players without randomness repeat their games once the openings are used up.
        spent = {
            pair for pair in combinations(names, 2) if book.pairing(*pair).openings >= goal.most_openings
        }
        pair = next_pair(names, chain, book.scores(), anchors, 2 * goal.openings, spent)
        if pair is None:
            print("all pairings have played all openings; more games need more openings", file=sys.stderr)
            return
        used = book.pairing(*pair).openings
        count = min(goal.openings, goal.most_openings - used)
        # Add and save the result before the next pairing, so that a kill loses at most one pairing.
        book.add(await play(*pair, used, count), count)
        book.save(anchors)


def is_over(book: Book, names: Sequence[str], anchors: Mapping[str, float], goal: Goal) -> bool:
    """Return whether games connect all players to an anchor, and the players other than anchors have played
    enough games on average."""
    free = [name for name in names if name not in anchors]
    return not unconnected(book.scores(), anchors, names) and games_of(book, free) >= goal.games * len(free)


def games_of(book: Book, names: Sequence[str]) -> int:
    """Return the number of games of all these players; a game between two of them counts twice."""
    return sum(score.games * ((score.first in names) + (score.second in names)) for score in book.scores())


OPEN_PLAYERS = 8
"""Number of players that are kept loaded, each with its network: loading a network often takes longer than a
pairing."""

MOST_OPENINGS = 500
"""Most openings that one pairing can use; after the resulting 1000 games, the error of the pairing is 10
Elo."""


class Matches:
    """Plays the matches of a tournament. Call `close` when done."""

    def __init__(
        self, game: Game, openings: str, settings: MatchSettings, *, device: str, threads: int, runs: Path
    ) -> None:
        """`openings`: see `openings_for`; `runs`: see `make_player`. Raises Fatal(CONFIG) if the game has
        no such openings."""
        self.openings = all_openings(game, openings, settings.seed)
        check_lengths(self.openings, settings.max_plies)
        self._game = game
        self._settings = settings
        self._device, self._threads, self._runs = device, threads, runs
        self.candidates: dict[str, Candidate] = {}
        """The players that `play` may be asked for, by name."""
        self._open: dict[str, Player] = {}

    async def play(self, first: str, second: str, skip: int, count: int) -> Score:
        """Play two games from each of `count` openings after the first `skip`.

        Raises Gone when a weights file was removed, Fatal when a player cannot be made.
        """
        players = await self._player(first), await self._player(second)
        openings = self.openings[skip : skip + count]
        # `play_match` derives seeds from the opening's number, which starts at 0 in each call, so change the
        # seed.
        settings = replace(self._settings, seed=self._settings.seed + skip)
        games = await play_match(self._game, *players, openings, settings)
        score = Score(first, second, *won_drawn_lost([game.outcome_for_a for game in games]))
        result = f"{first} - {second}: +{score.wins} ={score.draws} -{score.losses}"
        failures = [f"{game.failed} lost by {game.reason}: {game.detail}" for game in games if game.failed]
        print(result, *failures[:3], sep="\n  ", file=sys.stderr, flush=True)
        return score

    async def _player(self, name: str) -> Player:
        if name in self._open:
            # Move the player to the end: it is now the most recently used.
            self._open[name] = self._open.pop(name)
            return self._open[name]
        candidate = self.candidates[name]
        # Close the least recently used player: the dict is in the order of use.
        while len(self._open) >= OPEN_PLAYERS:
            await self._open.pop(next(iter(self._open))).close()
        try:
            player = make_player(
                candidate.spec, self._game, device=self._device, threads=self._threads, runs=self._runs
            )
        except (Fatal, OSError) as error:
            if candidate.file is not None and not candidate.file.exists():
                raise Gone(f"{candidate.file} has been removed") from error
            raise
        # The player is kept before it is prepared: if `prepare` fails, `close` still ends its processes.
        self._open[name] = player
        await player.prepare()
        return player

    async def close(self) -> None:
        while self._open:
            # The player is removed first, so that a second call, after an interruption, does not close it
            # twice.
            await self._open.popitem()[1].close()


def all_openings(game: Game, source: str, seed: int) -> list[Opening]:
    """Return up to `MOST_OPENINGS` openings, each once: two deterministic players would only repeat the same
    game."""
    found = openings_for(game, source, MOST_OPENINGS, seed)
    return list({(opening.start, opening.actions): opening for opening in found}.values())
