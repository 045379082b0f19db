"""The command `azplay annotate`: whole games with the value of each position, mistakes, and better lines.

Every position of a game is searched by itself. Many positions, also of several games, are searched at once,
so that the network's batches are full. A move's loss is the value of the position before it minus the value
after it. The file format decides how values, marks and other lines are written.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal, output_utf8
from azselfplay.link.finding import RUNS, weights_named
from azselfplay.play.orders import chances
from protocol.settings import Count, SomeSimulations

if TYPE_CHECKING:
    from azselfplay.games.knowledge import GameFormat, Mark, WrittenMove
    from azselfplay.games.spec import Game
    from azselfplay.host.aio import Stop
    from azselfplay.play.analysis import Analyst, Answer
    from azselfplay.play.game_files import BadGame, FileGame

EXAMPLES = (
    "azplay annotate game.pgn chess-sparse --out annotated.pgn",
    "azplay annotate games.sgf runs/go_9x9-tiny --simulations 2000 > annotated.sgf",
    "azplay annotate game.kif shogi-1 --out annotated.kifu",
)
GAMES_IN_FLIGHT = 16
"""Number of games whose positions are searched at the same time, so that the end of one game leaves no batch
half empty."""
MARKS: tuple[tuple[float, Mark, str], ...] = (
    (0.3, "??", "Blunder"),
    (0.2, "?", "Mistake"),
    (0.1, "?!", "Inaccuracy"),
)
"""Least loss of value for each mark, and the mark's name (lichess's thresholds for its winning chances)."""
LINE = 12
"""Most moves in a better line."""


@dataclass(frozen=True)
class AnnotateConfig:
    """Games in, the same games with values, mistakes and better lines out: PGN, SGF, CSA or KIF. Comments and
    variations of the file are left out."""

    file: Positional[Path]
    """The file of games; it may hold many."""
    network: Positional[str] = ""
    """A run, by its folder or its name in --runs (its newest network is used), or a weights file."""
    runs: Path = RUNS
    """Folder of all runs."""
    out: Path | None = None
    """File to write. Not given: standard output."""
    simulations: SomeSimulations = 400
    """Simulations for each position; 0 uses the network alone."""
    search: str = ""
    """As for `azplay analyse`."""
    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    in_flight: Count = 0
    """Positions searched at once; 0: as many as keep the device's batches full."""
    threads: Count = 0
    """CPU threads of the network; 0: one per core."""


def main() -> int:
    """Entry point. Returns the exit status."""
    config = load(AnnotateConfig, command="azplay annotate", examples=EXAMPLES)
    if not config.network:
        raise Fatal("say which network annotates: azplay annotate FILE RUN", Exit.USAGE)
    weights = weights_named(config.network, config.runs)

    from azselfplay.host import aio  # these import torch: not on the way to --help
    from azselfplay.host.runs import check_result, write_result
    from azselfplay.play.analysis import Analyst, trees_in_flight
    from azselfplay.play.game_files import format_of, games_in
    from azselfplay.play.nets import load_net, search_name, settings_for_search
    from azselfplay.search.evaluator import BadEvaluation

    if config.out is not None:
        check_result(config.out, "--out")
        if config.out.resolve() == config.file.resolve():
            what = "whose comments and variations would be lost: name another file"
            raise Fatal(f"--out {config.out} is the file of games itself, {what}", Exit.USAGE)
    net = load_net(weights, device=config.device, threads=config.threads)
    with contextlib.closing(net):
        form, games = format_of(net.game, config.file), games_in(net.game, config.file, draws_end=False)
        settings = settings_for_search(config.search, net.game, weights)
        analyst = Analyst(net.game, net.evaluator, net.history, settings)
        in_flight = trees_in_flight(config.in_flight, net.target_rows, net.game, config.simulations)
        annotator = Annotator(analyst, f"azselfplay, {net.name}", config, in_flight)
        _say(f"search {search_name(settings)}; it may take up to a minute to be compiled")
        texts = list[str]()
        output_utf8()
        # Flushed after each game, so that the reader of a pipe sees each game as soon as it is done.
        write: Callable[[str], None] = texts.append if config.out else partial(print, end="", flush=True)
        try:
            aio.run(lambda stop: annotator.run(games, form, write, stop))
        except BadEvaluation as error:
            raise Fatal(str(error), Exit.BAD_DATA) from error
        if annotator.is_interrupted:
            return int(Exit.INTERRUPTED)
        seconds = time.perf_counter() - analyst.prepared_at
        if config.out is not None:
            write_result(config.out, "".join(texts).encode())
    _say(
        f"{annotator.games} games annotated, {annotator.bad} that cannot be read left out; "
        f"{annotator.positions} positions in {seconds:.1f} s: "
        f"{annotator.positions / seconds:,.0f} positions/s"
    )
    # All readable games were annotated, but a script should know about the bad ones.
    return int(Exit.BAD_DATA if annotator.bad else Exit.OK)


class Annotator:
    """Annotates games in order. Positions of several games are in flight, at most `in_flight`. `name`: the
    annotator's name in the file."""

    def __init__(self, analyst: Analyst, name: str, config: AnnotateConfig, in_flight: int) -> None:
        self.games = self.positions = self.bad = 0
        """Numbers of games, positions and games that cannot be read, so far."""
        self.is_interrupted = False
        """Whether the stop came before the first game."""
        self._analyst, self._name = analyst, name
        self._simulations, self._file = config.simulations, config.file
        self._places = asyncio.Semaphore(in_flight)

    async def run(
        self, games: Iterator[FileGame | BadGame], form: GameFormat, write: Callable[[str], None], stop: Stop
    ) -> None:
        """Annotate `games` and give the text of each to `write`, in their order. After a stop, only the games
        in flight are finished."""
        from azselfplay.play.game_files import BadGame  # imports numpy, which --help does not need

        stop.waits_for = "games in flight"
        waiting, is_prepared = deque[asyncio.Task[str]](), False
        async with asyncio.TaskGroup() as group:
            for found in games:
                if stop.finishing.is_set():
                    break
                if isinstance(found, BadGame):
                    self.bad += 1
                    _say(f"{self._file} game {found.number}: {found.reason}")
                    continue
                # Prepare only when a game was read: a file that cannot be read is reported at once.
                is_prepared = is_prepared or await self._analyst.prepare(self._simulations, stop)
                if not is_prepared:
                    self.is_interrupted = True
                    break
                waiting.append(group.create_task(self._annotate(found, form)))
                if len(waiting) == GAMES_IN_FLIGHT:
                    self._write(await waiting.popleft(), form, write)
            while waiting:
                self._write(await waiting.popleft(), form, write)

    def _write(self, text: str, form: GameFormat, write: Callable[[str], None]) -> None:
        write((form.between if self.games else "") + text + "\n\n")
        self.games += 1

    async def _annotate(self, found: FileGame, form: GameFormat) -> str:
        played = found.game_history
        positions = [played.up_to(ply) for ply in range(played.ply + 1)]
        answers = await self._analyst.analyse_all(positions, self._simulations, self._places)
        self.positions += len(answers)
        moves = written_moves(self._analyst.game, found, answers)
        return form.write({**found.read.tags, "Annotator": self._name}, played.start, moves, "")


def written_moves(game: Game, found: FileGame, answers: Sequence[Answer]) -> list[WrittenMove]:
    """Return the moves of a game with the search's comments. `answers` [moves + 1]: the answers for all its
    positions. One that the rules call drawn counts as a draw also if the game goes on."""
    from azselfplay.games.knowledge import WrittenMove

    signs = [1 if game.rules.side_to_move(state) == 0 else -1 for state in found.game_history.states]
    written = []
    for ply, move in enumerate(found.game_history.moves_text()):
        # Both values are for the side that moves, also the value after its move.
        before = answers[ply]["value"]
        after = answers[ply + 1]["value"] * signs[ply] * signs[ply + 1]
        marked = next((one for one in MARKS if before - after >= one[0]), None)
        comment, others = "", []
        mark: Mark = ""
        # Even the best move may have a lower value after it is played; this is not the player's fault.
        if marked is not None and move != answers[ply].get("best"):
            _, mark, name = marked
            comment = f"{name}: {chances(before)} became {chances(after)}."
            # Instead of playing on after a draw, it could have been claimed.
            others = [(answers[ply]["pv"][:LINE], chances(before))] if "pv" in answers[ply] else []
        written.append(WrittenMove(move, comment, others, after * signs[ply], mark))
    return written


def _say(text: str) -> None:
    print(f"azplay annotate: {text}", file=sys.stderr, flush=True)
