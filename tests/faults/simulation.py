"""One run of the whole system from one seed: virtual time, a network in memory, kills, cuts and crash
points."""

import asyncio
import logging
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from crash_names import NAMES
from ledger import Ledger, OnDisk, faults, unfinished
from ring_parts import GAME
from simulated_parts import BULK, EVALUATORS, LEAVES, SIMULATIONS, Kinds, SimulatedClient, SimulatedRing
from simulated_weights import is_bad
from virtual_net import Network, VirtualChannel, VirtualDoor, Weather, dealer_of, until
from virtual_time import Deadlock, Process, VirtualLoop

import azselfplay.link.connection
import server.front
import server.leaves
import trainer.weights
from azselfplay.host import runs
from azselfplay.host.exits import Fatal
from bench.random_games import random_game
from protocol.records import GameRecord
from protocol.settings import SelfPlaySettings
from server.front import Front, FrontSettings
from server.weights import WeightsStore

CALM = 400.0
"""Seconds without faults that are enough for everything to finish: a lease is 60 s, and a place of the relay
is reclaimed after 120 s."""
BACK_AFTER = 3.0
"""Most seconds until a killed process is restarted."""
POINTS = {
    "client": tuple(point for point in NAMES if point.startswith(("spool.", "uploader."))),
    "server": tuple(point for point in NAMES if point.startswith(("weights.", "atomic."))),
    "trainer": tuple(point for point in NAMES if point.startswith("store.")),
}
"""Crash points of a simulated part."""


@dataclass(frozen=True)
class Plan:
    """How long a run is, and how many faults it has."""

    clients: int = 3
    games: int = 30
    asks: int = 40
    """Requests for leaves, of all clients together."""
    seconds: float = 60.0
    """Seconds during which faults happen."""
    game_seconds: float = 4.0
    publish_seconds: float = 8.0
    """Seconds between two publications of weights."""
    blows: int = 12
    """Number of kills and cuts."""
    weather: Weather = Weather(latency=0.5, lost=0.05, repeated=0.05)


@dataclass
class Outcome:
    """The result of a run."""

    seed: int
    faults: list[str]
    games: int = 0
    leaves: int = 0
    weights: int = 0
    """Number of published files of weights; `used`: how often one was taken into use."""
    used: int = 0
    messages: int = 0
    blows: list[str] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    """Virtual seconds."""


REAL = Kinds()


class World:
    """All parts of one run."""

    def __init__(self, seed: int, plan: Plan, kinds: Kinds, folder: Path, loop: VirtualLoop) -> None:
        self.plan, self.kinds, self.folder, self.loop = plan, kinds, folder, loop
        self.rng = random.Random(seed)
        self.net = Network(loop, seed, plan.weather)
        self.database = folder / "games.db"
        self.games = games()
        self.ledger = Ledger()
        self.blows: list[str] = []
        self._left_games, self._left_asks = plan.games, plan.asks
        self._ended = False
        self._processes: dict[str, Process] = {}
        self._parts: dict[str, Any] = {}
        self._starts: dict[str, Callable[[], Any]] = {
            "server": self._front,
            "evaluator": lambda: kinds.evaluator(self),
            "trainer": lambda: kinds.trainer(self),
        }
        for index in range(plan.clients):
            self._starts[f"client-{index}"] = partial(SimulatedClient, self, index)

    def at_end(self, name: str, do: Callable[[], object]) -> None:
        """Call `do` when this part is killed."""
        self._processes[name].at_end.append(do)

    def more_games(self) -> bool:
        self._left_games -= 1
        return self._left_games >= 0

    def more_leaves(self) -> bool:
        self._left_asks -= 1
        return self._left_asks >= 0

    def start_all(self) -> None:
        for name in self._starts:
            self.start(name)

    def end(self) -> None:
        """Kill all parts, and restart none."""
        self._ended = True
        for process in self._processes.values():
            process.kill()

    def start(self, name: str) -> None:
        """Start a part, as the operator does, or azserver for its children."""
        if self._ended:
            return
        process = self._processes[name] = Process(name, self.loop)
        process.at_end.append(
            lambda: self.loop.call_later(self.rng.uniform(0.1, BACK_AFTER), self.start, name)
        )

        async def live() -> None:
            try:
                part = self._parts[name] = self._starts[name]()
            except BaseException as error:
                self.loop.faults.append(f"{name} cannot start: {error!r}")
                raise
            try:
                await part.run()
            except Exception as error:  # a Killed is not an Exception
                self.loop.faults.append(f"{name} ended by itself: {error!r}")

        process.spawn(live)

    def _front(self) -> Front:
        store = WeightsStore(self.folder / "weights", GAME.name)
        (self.folder / "weights").mkdir(exist_ok=True)
        if store.open() is None:
            first = store.add(b"weights of nobody", 1, 0, "tiny")
            self.ledger.published[first.sha256] = 1
        settings = FrontSettings(
            run="simulated", game=GAME, history=1, self_play=asdict(SelfPlaySettings(history=1)),
            leaves=(LEAVES,), bulk=(BULK,), evaluators=EVALUATORS, rings=(Path("ring"),),
        )  # fmt: skip
        front = self.front = Front(settings, store)
        self.at_end("server", lambda: self.note_faults(front))
        return front

    def note_faults(self, front: Front) -> None:
        """Note errors that the front survived: a handler's exception does not end the front, but here there
        should be none."""
        if front.figures.faults.count:
            self.loop.faults.append(f"the front noted {front.figures.faults.count} faults of its own")

    # ---- what goes wrong --------------------------------------------------------------------

    async def storm(self) -> None:
        """Cause faults at random times; the checker runs after each."""
        times = sorted(self.rng.uniform(0.0, self.plan.seconds) for _ in range(self.plan.blows))
        for at in times:
            await asyncio.sleep(max(0.0, at - self.loop.time()))
            self._strike()
            self._check()
        await asyncio.sleep(max(0.0, self.plan.seconds - self.loop.time()))
        for process in self._processes.values():
            process.crash_at = ""

    def _strike(self) -> None:
        rng, name = self.rng, self.rng.choice(sorted(self._starts))
        kind = rng.choice(("kill", "kill", "cut", "half_open", "crash"))
        self.blows.append(f"{self.loop.time():.2f} {kind} {name}")
        process = self._processes[name]
        links = [link for link in self.net.links if link.process is process]
        points = POINTS.get(name.partition("-")[0])
        if kind == "kill" or (kind == "crash" and points is None):
            process.kill()
        elif kind == "crash" and points is not None:
            process.crash_at, process.crash_after = rng.choice(points), rng.randint(1, 3)
            self.blows[-1] += f" at {process.crash_at}:{process.crash_after}"
        elif links:
            rng.choice(links).cut(notice=rng.uniform(5.0, 15.0) if kind == "half_open" else 0.0)

    def _check(self) -> None:
        found = faults(self.ledger, self.on_disk()) + self.weights_on_disk()
        if found:
            raise BrokenPromise(found)

    def weights_on_disk(self) -> list[str]:
        """Return what azserver would say at its start about the current weights."""
        try:
            current = WeightsStore(self.folder / "weights", GAME.name).read()
        except Fatal as damaged:
            return [f"P6: {damaged}"]
        if current is not None and is_bad(current.sha256):
            return [f"P6: version {current.version} is current, and no evaluator takes it"]
        return []

    def on_disk(self) -> OnDisk:
        trainer, process = self._parts.get("trainer"), self._processes["trainer"]
        counted = trainer.store.totals.games.total() if trainer is not None and process.alive else None
        return OnDisk.read(self.database, sorted(self.folder.glob("client-*")), counted)

    def at_rest(self) -> bool:
        """Return whether nothing is left to do."""
        clients = [part for name, part in self._parts.items() if name.startswith("client-")]
        quiet = all(client.uploader.quiet.is_set() and not client.uploader.spool.games for client in clients)
        answered = not any(one.rows for client in clients for one in client.asked)
        return quiet and self._left_games < 0 and answered and not self.stale()

    def stale(self) -> list[str]:
        """Return who does not use the current weights although nothing has prevented it for long."""
        current = self.front.store.current
        assert current is not None
        late = [
            f"{name} uses {part.downloader._pull.in_use}, and {current} is current"
            for name, part in self._parts.items()
            if name.startswith("client-") and part.downloader._pull.in_use != current
        ]
        publishing = self._parts["trainer"].weights.out._current is not None
        return late + (["the trainer's weights never arrived"] if publishing else [])


class BrokenPromise(AssertionError):
    """Its argument is what the checker found."""


async def _run(world: World) -> list[str]:
    world.start_all()
    try:
        await world.storm()
        world.net.weather = Weather(latency=0.05)
        rested = await until(world.at_rest, CALM, step=1.0)
        await asyncio.sleep(1.0)
        found = faults(world.ledger, disk := world.on_disk()) + world.weights_on_disk()
        world.note_faults(world.front)
        if not rested:
            waiting = unfinished(disk) + world.stale()
            found += waiting or ["leaves were never answered, or games never finished"]
        return found + world.loop.faults
    except BrokenPromise as broken:
        return list(broken.args[0])
    finally:
        world.end()
        await asyncio.sleep(1.0)


def simulate(seed: int, plan: Plan = Plan(), kinds: Kinds = REAL) -> Outcome:
    """Run one simulation. The same seed and plan give the same run."""
    loop = VirtualLoop(random.Random(seed + 1))
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="az-faults-", dir=memory))
    try:
        asyncio.set_event_loop(loop)
        world = World(seed, plan, kinds, folder, loop)
        with virtual(world):
            found = _outcome(loop, world)
        ledger = world.ledger
        return Outcome(
            seed, found, len(ledger.finished), ledger.answered_leaves,
            len(ledger.published) - 1, ledger.used_weights, world.net.messages, world.blows,
            dict(sorted(ledger.answers.items())), round(loop.time(), 3),
        )  # fmt: skip
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        shutil.rmtree(folder, ignore_errors=True)


def _outcome(loop: VirtualLoop, world: World) -> list[str]:
    try:
        return loop.run_until_complete(_run(world))
    except Deadlock as error:
        world.end()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(1.0))
        return [str(error)]


@contextmanager
def virtual(world: World) -> Iterator[None]:
    """Give the real modules this world's clock, network and random numbers."""
    loop, rng = world.loop, world.rng
    clock = SimpleNamespace(monotonic=loop.time, time=lambda: 1.7e9 + loop.time())
    seeded = SimpleNamespace(Random=lambda: random.Random(rng.random()), SystemRandom=lambda: rng)
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    front = {
        "time": clock,
        "random": seeded,
        "raise_file_limit": lambda _: 4096,
        "give_back": lambda: None,
        "Door": lambda endpoints, *_, **__: VirtualDoor(world.net, endpoints),
    }
    connection = {"time": clock, "random": seeded, "new_dealer": dealer_of(world.net)}
    connection |= {"dial": lambda *_: None, "Channel": VirtualChannel}
    try:
        with (
            mock.patch.multiple(azselfplay.link.connection, **connection),
            mock.patch.multiple(server.front, **front),
            mock.patch.object(server.leaves, "RingClient", partial(SimulatedRing, world.net)),
            mock.patch.object(server.bulk, "time", clock),
            mock.patch.object(server.evaluator_pool, "time", clock),
            mock.patch.object(server.port, "time", clock),
            mock.patch.object(trainer.weights, "time", clock),
            mock.patch.object(runs, "watcher", _watch),
        ):
            yield
    finally:
        logging.disable(level)


def _watch(point: str) -> None:
    process = Process.current.get()
    if process is not None:
        process.reached(point)


_GAMES: list[GameRecord] = []


def games() -> list[GameRecord]:
    """Return some valid games, made once."""
    if not _GAMES:
        rng = np.random.default_rng(7)
        _GAMES.extend(random_game(GAME, rng, simulations=SIMULATIONS) for _ in range(50))
    return _GAMES
