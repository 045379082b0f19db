"""The interface for people's own programs: what `import azselfplay as az` gives.

    run = az.load("connect_four-sparse")         # a run, a weights file, or a game for an untrained network
    position = run.position("4 4")               # moves, or FEN, SFEN, PGN, SGF
    found = position.search(simulations=400)     # best move, value, visits, expected line
    game = az.play(run, "alphabeta:2")
    az.train("connect_four", minutes=10)

Everything runs on one event loop in a background thread, with the code of `azplay analyse` and of matches. So
plain calls work in scripts, in notebooks (which have a running loop of their own) and from several threads,
and positions that are asked for together share the network's batches. Each call that computes has a twin
whose name ends in `_async`, for programs with an event loop.

It is the topmost package's, because `train` runs azrun. **These names are stable**: one that changes is in
CHANGELOG.md with its replacement.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.games.game_texts import after_moves, read_position
from azselfplay.games.knowledge import picture_of
from azselfplay.games.names import is_game
from azselfplay.games.spec import Game as Rules
from azselfplay.host.exits import EXTRAS, Exit, Fatal, how_to_install
from azselfplay.host.processes import ending_with_parent, python_module
from azselfplay.host.reading import is_file
from azselfplay.link.finding import RUNS, find_run, weights_named
from azselfplay.play.analysis import Analyst, Answer, trees_in_flight
from azselfplay.play.builtin_players import NetPlayer
from azselfplay.play.nets import LoadedNet, load_net, settings_for_search
from azselfplay.play.openings import Opening
from azselfplay.play.player import Player
from azselfplay.play.players import make_player
from azselfplay.play.runner import play_game
from azselfplay.search.evaluator import BadEvaluation
from protocol.settings import MAX_SIMULATIONS, SelfPlaySettings

SIMULATIONS = 400
"""Default of a search, and of a network's moves in `play`."""

LINES = 100
"""Newest lines of azrun among which the reason of its end is looked for."""

T = TypeVar("T")


class Error(Exception):
    """What was asked for cannot be done: a wrong move, game, network or player. The text is the sentence that
    the commands print."""


class Evaluation(NamedTuple):
    """What the network says of a position, without a search, for the side to move."""

    win: float
    draw: float
    loss: float
    policy: dict[str, float]
    """Probability of each legal move, the best first."""

    @property
    def value(self) -> float:
        """Return the expected result: 1 for a sure win, -1 for a sure loss."""
        return self.win - self.loss


class Found(NamedTuple):
    """What a search found, for the side to move."""

    best: str
    """The move to play."""
    value: float
    """Expected result: 1 for a sure win, -1 for a sure loss."""
    visits: dict[str, int]
    """Simulations through each move, the most visited first."""
    line: tuple[str, ...]
    """The moves that the search expects, beginning with `best`."""


@dataclass(frozen=True)
class Game:
    """A finished game."""

    moves: tuple[str, ...]
    """In the game's notation, from the start position on."""
    outcome: int
    """1: `first` of `play` has won, -1: `second`, 0: a draw."""
    reason: str
    """Why it ended, as the rules name it, or `resignation`."""
    final: Position
    """The last position."""


class Board:
    """A drawing: notebooks show it as a picture, `print` as text, and `svg` is the picture's source."""

    def __init__(self, text: str, svg: str) -> None:
        self.svg = svg
        self._text = text

    def __str__(self) -> str:
        return self._text

    def _repr_svg_(self) -> str:
        return self.svg


class Run:
    """A loaded network. Use it as a context manager, or `close` it, to end its thread."""

    def __init__(self, net: LoadedNet, settings: SelfPlaySettings) -> None:
        self.game = net.game.name
        """Name of its game."""
        self.name = net.name
        """File and training step, for people."""
        self.step = net.step
        """Training steps behind it; 0 for an untrained one."""
        self._rules: Rules = net.game
        self._net = net
        self._settings = settings
        self._analyst = Analyst(net.game, net.evaluator, net.history, settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.game}: {self.name}>"

    def close(self) -> None:
        """End its thread. Positions of it cannot be evaluated any more."""
        self._net.close()

    def position(self, text: str = "", moves: Iterable[str] = ()) -> Position:
        """Return a position: the usual start, or `text`, and then `moves`.

        `text` is a position (FEN, SFEN, or as docs/games.md says), moves from the start separated by spaces,
        or a game as PGN or SGF. Raises Error naming what cannot be read, or the move that is not legal."""
        with _our_errors():
            return Position(self, read_position(self._rules, text, moves))

    # ---- Many positions at once ---------------------------------------------------------------

    def evaluate(self, positions: Iterable[Position]) -> list[Evaluation]:
        """Return what the network says of each position, in order; they share its batches."""
        return _wait(self._evaluate(list(positions)))

    async def evaluate_async(self, positions: Iterable[Position]) -> list[Evaluation]:
        """Like `evaluate`, for programs with an event loop."""
        return await _elsewhere(self._evaluate(list(positions)))

    def search(self, positions: Iterable[Position], simulations: int = SIMULATIONS) -> list[Found]:
        """Search each position, all side by side. Results are in order."""
        return _wait(self._search(list(positions), simulations))

    async def search_async(
        self, positions: Iterable[Position], simulations: int = SIMULATIONS
    ) -> list[Found]:
        """Like `search`, for programs with an event loop."""
        return await _elsewhere(self._search(list(positions), simulations))

    async def _evaluate(self, positions: Sequence[Position]) -> list[Evaluation]:
        answers = await self._answers(positions, 0)
        found = []
        for answer in answers:
            win, draw, loss = answer["wdl"]
            found.append(Evaluation(win, draw, loss, answer["policy"]))
        return found

    async def _search(self, positions: Sequence[Position], simulations: int) -> list[Found]:
        if not 1 <= simulations <= MAX_SIMULATIONS:
            raise Error(f"simulations is {simulations}, but must be from 1 to {MAX_SIMULATIONS}")
        answers = await self._answers(positions, simulations)
        return [
            Found(answer["best"], answer["value"], answer["visits"], tuple(answer["pv"]))
            for answer in answers
        ]

    async def _answers(self, positions: Sequence[Position], simulations: int) -> list[Answer]:
        for position in positions:
            if position.run.game != self.game:
                raise Error(f"a position of {position.run.game}, and {self.name} plays {self.game}")
            if reason := position.finished:
                raise Error(f"the game is over ({reason}): there is nothing to evaluate")
        histories = [position._game_history for position in positions]
        # As many as keep the device's batches full; more would only take memory for their trees.
        places = trees_in_flight(0, self._net.target_rows, self._net.game, simulations)
        return await self._analyst.analyse_all(histories, simulations, asyncio.Semaphore(places))


class _NoNetwork(Run):
    """Stands for the game where no network plays, because positions belong to a run."""

    def __init__(self, game: str) -> None:
        self._rules = get_game(game)
        self.game = self.name = self._rules.name
        self.step = 0

    def close(self) -> None:
        """There is nothing to end."""

    async def _answers(self, positions: Sequence[Position], simulations: int) -> list[Answer]:  # noqa: ARG002
        raise Error(f"no network has played this game: give the position to one of az.load({self.game!r})")


class Position:
    """A position of a game, with the moves that led to it. It never changes: `play` returns another one."""

    def __init__(self, run: Run, game_history: GameHistory) -> None:
        self.run = run
        self.start = game_history.start
        """Where the game began, in its notation; "" is the usual start."""
        self.moves = tuple(game_history.moves_text())
        """The moves since then."""
        self._game_history = game_history

    def __repr__(self) -> str:
        return f"<{self.run.game}: {self.text}>"

    @cached_property
    def text(self) -> str:
        """The position in the game's notation: FEN for chess, SFEN for shogi."""
        return self.run._rules.notation.state_to_text(self._game_history.state)

    @property
    def legal_moves(self) -> list[str]:
        """Moves in the game's notation; none after the end of the game."""
        if self.finished:
            return []
        notation, state = self.run._rules.notation, self._game_history.state
        return [notation.action_to_text(state, int(action)) for action in self._game_history.legal_actions()]

    @property
    def finished(self) -> str | None:
        """Why the game is over, as the rules name it; None while it goes on."""
        return self._game_history.end_reason()

    @property
    def board(self) -> Board:
        """A drawing of the position."""
        rules, state = self.run._rules, self._game_history.state
        last = self.moves[-1] if self.moves else ""
        return Board(rules.notation.render(state), picture_of(rules)(state, last).decode())

    def _repr_svg_(self) -> str:
        return self.board.svg

    def play(self, move: str) -> Position:
        """Return the position after `move`. Raises Error if it is not legal."""
        if self.finished:
            raise Error(f"the game is over ({self.finished})")
        with _our_errors():
            return Position(self.run, after_moves(self.run._rules, self.start, (*self.moves, move)))

    def evaluate(self) -> Evaluation:
        """Return win, draw, loss and policy by the network alone. Raises Error after the end of the game."""
        return self.run.evaluate([self])[0]

    async def evaluate_async(self) -> Evaluation:
        """Like `evaluate`, for programs with an event loop."""
        return (await self.run.evaluate_async([self]))[0]

    def search(self, simulations: int = SIMULATIONS) -> Found:
        """Search the position. Raises Error after the end of the game."""
        return self.run.search([self], simulations)[0]

    async def search_async(self, simulations: int = SIMULATIONS) -> Found:
        """Like `search`, for programs with an event loop."""
        return (await self.run.search_async([self], simulations))[0]


# ---- Loading, playing, training -----------------------------------------------------------------------


def load(name: str | Path, *, device: str = "cpu", runs: str | Path = RUNS) -> Run:
    """Return the newest network of the run `name` (its folder, or its name in the folder `runs`), the network
    in a weights file, or an untrained one for the game `name`. `device`: `cpu`, `cuda:0` ... Raises Error."""
    with _our_errors():
        _background()  # also where this process only loads: a network has threads of its own
        name, folder = os.path.expanduser(name), Path(runs).expanduser()  # noqa: PTH111 (of a name, not a path)
        if not is_file(name) and find_run(name, folder) is None and is_game(str(name)):
            net, weights = load_net(None, str(name), device=device), None
        else:
            weights = weights_named(name, folder)
            net = load_net(weights, device=device)
        try:
            return Run(net, settings_for_search("", net.game, weights))
        except BaseException:
            net.close()
            raise


def play(
    first: Run | str,
    second: Run | str,
    *,
    game: str = "",
    start: str = "",
    simulations: int = SIMULATIONS,
    seed: int = 0,
) -> Game:
    """Play one game and return it. A player is a run, which searches with `simulations` for each move, or a
    text as `azplay match --help` lists them: `random`, `alphabeta:2`, `uci:stockfish?nodes=1000` ...

    `first` plays the game's first side (chess: White), whoever is to move in `start`, a position in the
    game's notation. `game` is needed where neither player is a run. Raises Error, also for a player that
    fails."""
    return _wait(_play(first, second, game, start, simulations, seed))


async def play_async(
    first: Run | str,
    second: Run | str,
    *,
    game: str = "",
    start: str = "",
    simulations: int = SIMULATIONS,
    seed: int = 0,
) -> Game:
    """Like `play`, for programs with an event loop."""
    return await _elsewhere(_play(first, second, game, start, simulations, seed))


async def _play(
    first: Run | str, second: Run | str, game: str, start: str, simulations: int, seed: int
) -> Game:
    runs = [player for player in (first, second) if isinstance(player, Run)]
    if not runs and not game:
        raise Error('no run says which game is played: give the game too, such as game="chess"')
    home = runs[0] if runs else await asyncio.to_thread(_NoNetwork, game)
    if others := [run.game for run in runs if run.game != home.game]:
        raise Error(f"one network plays {home.game}, the other {others[0]}")
    if game and game != home.game:
        raise Error(f"{home.name} plays {home.game}, not {game}")
    # Filled one by one, so that `close` ends those that were begun when a later one fails.
    players: list[Player] = []
    try:
        for one in (first, second):
            if isinstance(one, Run):
                players.append(NetPlayer(one.name, one._net, simulations, settings=one._settings))
            else:
                players.append(make_player(one, home._rules))
            await players[-1].prepare()
        played = await play_game(
            home._rules, ((players[0], seed), (players[1], seed + 1)), Opening("start", start)
        )
        if played.failed:
            raise Error(f"{played.failed} has failed: {played.detail}")
        final = Position(home, Opening("", start, played.actions).game_history(home._rules))
        return Game(final.moves, played.outcome, played.reason, final)
    finally:
        for player in players:
            await player.close()


def train(
    game: str, *, minutes: float, run: str = "", runs: str | Path = RUNS, flags: Sequence[str] = ()
) -> Run:
    """Train a network for `minutes` with `azrun` and the recipe for this machine, and return it; a progress
    bar shows the time and azrun's newest line. A run of that name goes on. `flags`: more of azrun's flags.
    Ctrl-C ends the run early and in order, says so, and returns what it has learned until then; the end of
    this program ends it too. Raises Error with the reason for a run that fails."""
    from rich.console import RenderableType
    from rich.markup import escape
    from rich.progress import Progress

    from azselfplay.lab import azrun_config

    with _our_errors():
        if not minutes > 0:
            raise Error(f"minutes is {minutes}, but must be more than 0")
        words = ["--game", game, "--minutes", f"{minutes:g}", "--runs", str(runs), "--run", run, *flags]
        try:
            asked = azrun_config.load(words)
        except SystemExit:  # it has printed what is wrong
            raise Error(f"azrun does not take these flags: {shlex.join(words)}") from None
        # The name that azrun gives the run.
        name = azrun_config.run_name(azrun_config.basis_of(asked).settings)
    process = subprocess.Popen(
        python_module("azselfplay.lab.azrun", *words, "--run", name),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A session of its own: it gets our Ctrl-C once, from us, and not a second time from the terminal.
        start_new_session=True,
        # The run of a killed script or a restarted notebook would go on unseen.
        preexec_fn=ending_with_parent(signal.SIGTERM),
    )
    assert process.stderr is not None
    lines: deque[str] = deque(maxlen=LINES)
    began = time.monotonic()

    class ByClock(Progress):
        """Bars that move with the time, also while azrun says nothing."""

        def get_renderables(self) -> Iterable[RenderableType]:
            for task in self.tasks:
                self.update(task.id, completed=min(task.elapsed or 0.0, 60.0 * minutes))
            return super().get_renderables()

    with ByClock() as progress:
        bar = progress.add_task(name, total=60.0 * minutes)
        while True:
            try:
                for line in process.stderr:
                    lines.append(line.strip())
                    # azrun's own progress line begins with the run's name, which the bar has already.
                    shown = f"{name}: {lines[-1].rpartition(f'{name}, ')[2][:80]}"
                    progress.update(bar, description=escape(shown))
                break
            except KeyboardInterrupt:
                # Then its last lines are read: azrun stores games and weights before it ends.
                process.send_signal(signal.SIGINT)
                minutes_done = (time.monotonic() - began) / 60.0
                progress.console.print(f"interrupted: {name} ends after {minutes_done:.1f} minutes")
    if process.wait() != Exit.OK:
        # The newest line about an error, else the last line of all.
        said = [line for line in lines if "error" in line.lower()] or [*lines] or ["no reason was given"]
        raise Error(f"azrun ended with exit status {process.returncode}: {said[-1]}")
    return load(asked.runs / name)


# ---- The background loop ------------------------------------------------------------------------------


# `cache` does not lock: two threads would make a loop each, and the parts of one network would be in both.
_making_the_loop = threading.Lock()


def _background() -> asyncio.AbstractEventLoop:
    """Return the loop of the background thread, which ends with the program. Raises Error in a forked child,
    which has none of the threads."""
    with _making_the_loop:
        loop, process = _loop()
    if process != os.getpid():
        what = "this process was forked from one that uses azselfplay already"
        raise Error(f"{what}: load networks only after the fork, or use the start method 'spawn'")
    return loop


@cache
def _loop() -> tuple[asyncio.AbstractEventLoop, int]:
    """Return the loop and the process that has its thread."""
    # A loop of its own: a notebook's is running already, and cannot wait for us.
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="azselfplay", daemon=True).start()
    return loop, os.getpid()


def _begin(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run `work` in the background. Raises Error as `_background` does."""
    try:
        return asyncio.run_coroutine_threadsafe(work, _background())
    except Error:
        work.close()  # or Python would warn that nobody has awaited it
        raise


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in the background and return its result. Ctrl-C cancels it."""
    done = _begin(work)
    with _our_errors():
        try:
            return done.result()
        except BaseException:
            # Also for Ctrl-C: the search would go on in the background.
            done.cancel()
            raise


async def _elsewhere(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`, which runs in the background. Cancelling this cancels it."""
    with _our_errors():
        return await asyncio.wrap_future(_begin(work))


@contextmanager
def _our_errors() -> Iterator[None]:
    """Turn the errors of what is below into Error with the same sentence."""
    try:
        yield
    except BaseException as caught:
        error = caught
        while isinstance(error, BaseExceptionGroup):  # the first says it: the others were cancelled
            error = error.exceptions[0]
        if isinstance(error, Error):
            raise error from error.__cause__
        if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS["train"]:
            # Playing with torch networks needs packages that the plain installation leaves out.
            raise Error(how_to_install("this network", [error.name], "train")) from error
        if isinstance(error, Fatal | BadEvaluation | ValueError):
            # Whole sentences: what they come from is no news for the reader.
            raise Error(str(error)) from None
        if isinstance(error, RuntimeError):
            raise Error(str(error)) from error
        raise
