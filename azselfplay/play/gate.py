"""`python -m azselfplay.play.gate`: plays the games of a gate and reports on stdout, one JSON line per pair.

azserver starts it with `gate.mode = alphago_zero`; the last line decides. It runs with low priority, so that
self-play continues. Each pair of games has its own opening: neither player makes random choices, so two games
from one opening would be the same game. (In AlphaGo Zero the random symmetry of each evaluation made games
differ; most games have no symmetries.)
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from azselfplay.games import get_game
from azselfplay.games.spec import Game
from azselfplay.host import aio
from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.host.reading import read_struct
from azselfplay.play.builtin_players import NetPlayer
from azselfplay.play.elo import won_drawn_lost
from azselfplay.play.nets import load_net
from azselfplay.play.openings import RANDOM_PLIES, Opening, book_openings, longest_openings, usual_plies
from azselfplay.play.player import Player
from azselfplay.play.runner import MatchSettings, PlayedGame, play_match
from azselfplay.search.settings import resolve
from protocol.settings import SelfPlaySettings
from server.gate import PROGRESS_SECONDS, GateReport, verdict

NICE = 10
"""Added to this process's niceness: on a CPU, self-play has priority over the gate."""


LEAST_CONCURRENT = 16
"""Least number of games played at once. More games fill batches better, but games in progress at the decision
are wasted."""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m azselfplay.play.gate", description=__doc__)
    parser.add_argument("--game", required=True)
    parser.add_argument("--best", required=True, help="weights file of the best player")
    parser.add_argument("--candidate", required=True, help="weights file of the candidate")
    parser.add_argument("--games", type=int, default=400, help="rounded up to pairs")
    parser.add_argument("--share", type=float, default=0.55, help="share of the points to exceed")
    parser.add_argument("--seed", type=int, default=0, help="seed of the openings")
    parser.add_argument("--self-play", required=True, help="JSON file of protocol.settings.SelfPlaySettings")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: all")
    return parser.parse_args(argv)


def run(options: argparse.Namespace) -> None:
    """Load both networks, play, and print reports. Raises Fatal(BAD_DATA) for a weights file that cannot be
    used."""
    game = get_game(options.game)
    try:
        settings = resolve(read_struct(Path(options.self_play), SelfPlaySettings), game)
    except (OSError, ValueError) as error:
        raise Fatal(f"--self-play: {error}", Exit.CONFIG) from error
    try:
        nets = [
            load_net(Path(file), game.name, device=options.device, threads=options.threads)
            for file in (options.candidate, options.best)
        ]
    except Fatal as error:
        if options.device == "cpu" or error.code != Exit.CONFIG:
            raise
        # azserver found the GPU when it started, so it may come back.
        raise Fatal(str(error), Exit.TRY_AGAIN) from error
    openings = gate_openings(game, (options.games + 1) // 2, options.seed, settings)
    players = [
        NetPlayer(f"{net.name}, {name}", net, settings.search.simulations, net.close, settings)
        for net, name in zip(nets, "AB", strict=True)
    ]
    # Enough games for full batches, but not so many that most games have begun before the decision.
    concurrent = max(LEAST_CONCURRENT, min(2 * nets[0].target_rows, options.games // 4))

    def evaluated() -> int:
        return sum(net.evaluator.rows for net in nets)

    progress = Progress(tell, GateReport(0, 0, 0, 2 * len(openings)))

    async def main(_: aio.Stop) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                repeating = group.create_task(progress.repeat(evaluated))
                report = await play(
                    game,
                    players[0],
                    players[1],
                    openings,
                    share=options.share,
                    on_report=progress.tell,
                    concurrent=concurrent,
                    max_plies=settings.max_plies,
                )
                repeating.cancel()
            tell(report)
        finally:
            for player in players:
                await player.close()

    aio.run(main)


def tell(report: GateReport) -> None:
    """Print one line for azserver."""
    print(msgspec.json.encode(report).decode(), flush=True)


class Progress:
    """Repeats the last report while the gate computes, so that the server knows that it is alive."""

    def __init__(self, tell: Callable[[GateReport], None], first: GateReport) -> None:
        self._tell = tell
        self._last = first

    def tell(self, report: GateReport) -> None:
        """Print the report after more games have ended."""
        self._last = report
        self._tell(report)

    async def repeat(self, evaluated: Callable[[], int], every: float = PROGRESS_SECONDS) -> None:
        """Look every `every` seconds, and report if `evaluated()`, a count of positions, has grown. Runs
        until cancelled."""
        # With -1, the first look always reports.
        before = -1
        while True:
            # A gate that hangs must look dead to the server, so it must not report.
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
    """Play two games from each opening, one with each colour, until the match is decided
    (`server.gate.verdict`).

    An opening counts only when all openings before it are complete, so the result does not depend on which
    games end early.
    """

    def report(games: Sequence[PlayedGame]) -> GateReport:
        return GateReport(*won_drawn_lost([one.outcome_for_a for one in games]), 2 * len(openings))

    def decided(games: Sequence[PlayedGame]) -> bool:
        so_far = report(games)
        on_report(so_far)
        # Judge as azserver will judge the last report.
        return verdict(so_far, share) is not None

    settings = MatchSettings(concurrent, max_plies)
    played = await play_match(game, candidate, best, openings, settings, until=decided)
    return report(played)


def gate_openings(game: Game, count: int, seed: int, settings: SelfPlaySettings) -> list[Opening]:
    """Return up to `count` openings that lead to different positions: the game's book, then random plies. If
    self-play has other starts than the usual one, all begin as its games do. `settings`: resolved.

    Random openings have `usual_plies` plies, and one ply more each time this gives too few openings. Fewer
    than `count` are returned only if the game has no more.
    """
    found: dict[bytes, Opening] = {}
    for opening in [] if settings.start.position or settings.start.share else book_openings(game):
        found.setdefault(opening.game_history(game).state.tobytes(), opening)
    plies = max(1, usual_plies(game))
    while len(found) < count and plies <= max(RANDOM_PLIES, game.max_plies // 2):
        for opening in longest_openings(game, count, plies, seed, settings):
            found.setdefault(opening.game_history(game).state.tobytes(), opening)
        plies += 1
    return list(found.values())[:count]


def main() -> int:
    """Entry point of the process."""
    options = parse()
    # Set this before torch starts threads, which inherit the niceness.
    os.nice(NICE)
    run(options)
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(main))
