"""One match from its settings to its result: makes players, shows progress, writes files, handles Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence

from evaluation.match.adjudication import Adjudication, known_results
from evaluation.match.command import MatchConfig
from evaluation.match.elo import Sprt, pair_counts
from evaluation.match.game_files import GameFiles
from evaluation.match.openings import check_lengths, openings_for
from evaluation.match.player import Player
from evaluation.match.players import make_player, prepare
from evaluation.match.report import Report, progress, report
from evaluation.match.runner import ClockSettings, MatchSettings, PlayedGame, Until, play_match
from games.spec import Game
from runtime.aio import Stop

TTY_SECONDS, PLAIN_SECONDS = 0.2, 5.0
"""Seconds between two lines of progress, on a terminal and elsewhere."""


class Match:
    """One match. Raises Fatal before the first game if players, openings or files are wrong."""

    def __init__(
        self,
        config: MatchConfig,
        specs: tuple[str, str],
        game: Game,
        sprt: Sprt | None,
        clock: ClockSettings | None,
    ) -> None:
        known = known_results(game) if config.tables else None
        self.config = config
        self.game = game
        self.adjudication = Adjudication(
            win_plies=config.win_plies, draw_plies=config.draw_plies, known=known
        )
        self.sprt = sprt
        self.clock = clock
        self.pairs = (config.games + 1) // 2
        self.openings = openings_for(game, config.openings, self.pairs, config.seed)
        check_lengths(self.openings, config.max_plies)
        self._specs = specs
        self._names = specs
        self._ended: list[PlayedGame] = []
        self._result: list[PlayedGame] | None = None
        self._told = time.monotonic()

    async def run(self, stop: Stop) -> None:
        """Play. Ctrl-C ends the match; its result is that of the pairs complete by then."""
        stop.waits_for = "nothing; the games that have not ended are dropped"
        players: list[Player] = []
        try:
            for spec in self._specs:
                players.append(
                    make_player(
                        spec,
                        self.game,
                        device=self.config.device,
                        threads=self.config.threads,
                        runs=self.config.runs,
                    )
                )
            self._names = _told_apart(players[0].name, players[1].name)
            players[0].name, players[1].name = self._names
            for player in players:
                await prepare(player)
            files = GameFiles(
                self.game, self.config.pgn, self.config.moves, f"{self._names[0]} - {self._names[1]}"
            )
            with contextlib.closing(files):
                await self._play(stop, players[0], players[1], files)
        finally:
            async with asyncio.TaskGroup() as closing:  # all are closed even if one is interrupted
                for player in players:
                    closing.create_task(player.close())

    async def _play(self, stop: Stop, a: Player, b: Player, files: GameFiles) -> None:
        def on_game(played: PlayedGame) -> None:
            self._ended.append(played)
            files.write(played)
            self._tell()

        config = self.config
        settings = MatchSettings(
            config.concurrent, config.max_plies, self.adjudication, self.clock, config.seed
        )
        playing = asyncio.ensure_future(
            play_match(self.game, a, b, self.openings, settings, on_game=on_game, until=self._until())
        )
        stopping = asyncio.ensure_future(stop.finishing.wait())
        try:
            await asyncio.wait({playing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if playing.done():
                self._result = playing.result()
        finally:
            for task in (playing, stopping):
                task.cancel()
            await asyncio.wait({playing, stopping})
            if sys.stderr.isatty():
                print(file=sys.stderr)

    def _until(self) -> Until | None:
        sprt = self.sprt
        if sprt is None:
            return None

        def decided(games: Sequence[PlayedGame]) -> bool:
            return sprt.verdict(pair_counts([game.outcome_for_a for game in games])) != ""

        return decided

    def report(self) -> Report:
        """The result so far. In a match that was cut short, only complete pairs count."""
        return report(*self._names, self._games(), self.sprt)

    def openings_played(self) -> list[str]:
        """The ids of the openings of all complete pairs, as often as each was played."""
        return [game.opening for game in self._games() if not game.swapped]

    def _games(self) -> list[PlayedGame]:
        return self._result if self._result is not None else _whole_pairs(self._ended)

    def _tell(self) -> None:
        """Print progress on stderr, at most every few seconds."""
        now, is_terminal = time.monotonic(), sys.stderr.isatty()
        if now - self._told < (TTY_SECONDS if is_terminal else PLAIN_SECONDS):
            return
        self._told = now
        text = progress(report(*self._names, _whole_pairs(self._ended), self.sprt), 2 * self.pairs)
        end = "" if is_terminal else "\n"
        start = "\r\x1b[K" if is_terminal else ""
        print(f"{start}{text}", end=end, file=sys.stderr, flush=True)


def _told_apart(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a != b else (f"{a} (A)", f"{b} (B)")


def _whole_pairs(ended: Sequence[PlayedGame]) -> list[PlayedGame]:
    """Both games of each opening whose two games have ended."""
    waiting: dict[str, list[PlayedGame]] = {}
    pairs: list[PlayedGame] = []
    for played in ended:
        partner = next(
            (one for one in waiting.get(played.opening, []) if one.swapped != played.swapped), None
        )
        if partner is None:
            waiting.setdefault(played.opening, []).append(played)
        else:
            waiting[played.opening].remove(partner)
            pairs += [played, partner] if partner.swapped else [partner, played]
    return pairs
