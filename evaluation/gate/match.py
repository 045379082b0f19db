"""The games of a gate, and their reports."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from engine.nets import load_net
from evaluation.gate.openings import gate_openings
from evaluation.match.net_players import NetPlayer
from evaluation.match.openings import Opening
from evaluation.match.player import Player
from evaluation.match.runner import MatchSettings, PlayedGame, play_match
from games import get_game
from games.spec import Game
from protocol.settings import SelfPlaySettings
from runtime import aio
from runtime.exits import Exit, Fatal
from runtime.gating import PROGRESS_SECONDS, GateReport, verdict
from search.settings import resolve

LEAST_CONCURRENT = 16
"""Games at once; more fill batches, but those under way when it is decided are wasted."""


def run(options: argparse.Namespace) -> None:
    """Load both, play, print reports. Fatal(BAD_DATA) for a weights file that cannot be used."""
    game = get_game(options.game)
    try:
        settings = resolve(msgspec.json.decode(options.self_play, type=SelfPlaySettings), game)
    except (msgspec.DecodeError, ValueError) as error:
        raise Fatal(f"--self-play: {error}", Exit.CONFIG) from error
    nets = [
        load_net(Path(file), game.name, device=options.device, threads=options.threads)
        for file in (options.candidate, options.best)
    ]
    openings = gate_openings(game, (options.games + 1) // 2, options.seed, settings.start.position)
    if not openings:
        raise Fatal(f"{game.name} has no openings from {settings.start.position!r}", Exit.CONFIG)
    players = [
        NetPlayer(f"{net.name}, {name}", net, settings.search.simulations, net.close, settings)
        for net, name in zip(nets, "AB", strict=True)
    ]
    concurrent = max(LEAST_CONCURRENT, min(2 * nets[0].target_rows, options.games // 4))

    def evaluated() -> int:
        return sum(net.evaluator.rows for net in nets)

    progress = Progress(tell, GateReport(0, 0, 0, 2 * len(openings)))

    async def main(_: aio.Stop) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                repeating = group.create_task(progress.repeat(evaluated))
                tell_new, longest = progress.tell, settings.max_plies
                report = await play(
                    game, players[0], players[1], openings, options.share, tell_new, concurrent, longest
                )
                repeating.cancel()
            tell(report)
        finally:
            for player in players:
                await player.close()

    aio.run(main)


def tell(report: GateReport) -> None:
    """One line for azserver."""
    print(msgspec.json.encode(report).decode(), flush=True)


class Progress:
    """Says that a gate computes: the report as it stands, again and again, unless nothing is evaluated."""

    def __init__(self, tell: Callable[[GateReport], None], first: GateReport) -> None:
        self._tell = tell
        self._last = first

    def tell(self, report: GateReport) -> None:
        """More games have ended."""
        self._last = report
        self._tell(report)

    async def repeat(self, evaluated: Callable[[], int], every: float = PROGRESS_SECONDS) -> None:
        """Every so many seconds in which `evaluated`, a count of positions, has risen. Until cancelled."""
        before = -1
        while True:
            if (now := evaluated()) != before:
                self._tell(self._last)
            before = now
            await asyncio.sleep(every)


async def play(
    game: Game,
    candidate: Player,
    best: Player,
    openings: Sequence[Opening],
    share: float,
    on_report: Callable[[GateReport], None],
    concurrent: int,
    max_plies: int = 0,
) -> GateReport:
    """Two games from each opening, one of either colour, until it is decided (`runtime.gating.verdict`).

    Only openings of which all before them are complete count, so the result does not hang on which games
    end early.
    """

    def report(games: Sequence[PlayedGame]) -> GateReport:
        outcomes = [one.outcome_for_a for one in games]
        return GateReport(outcomes.count(1), outcomes.count(0), outcomes.count(-1), 2 * len(openings))

    def decided(games: Sequence[PlayedGame]) -> bool:
        so_far = report(games)
        on_report(so_far)
        return verdict(so_far, share) is not None

    settings = MatchSettings(concurrent, max_plies)
    played = await play_match(game, candidate, best, openings, settings, until=decided)
    return report(played)
