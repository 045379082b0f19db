"""Measures P5: what twenty honest clients, with a key each, get next to one that stalls, one that floods and
one that sends garbage.

Turns of one run follow each other: one honest client alone, all of them, all of them next to the attackers.
While the attackers are away, as much processor time is burnt as they used, because on machines of their own
they would take none from the server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from crowd import ServerAlone
from free_ports import free_base_port
from keyed import KeyRing
from measure import Burner, Lost
from scraped import Metrics, scrape
from target import ROOT, _end_with_us

from azselfplay.host.cores import seconds_of

HONEST = 20
ATTACKERS = ("stalled", "flooding", "garbage")
KEYS = HONEST + len(ATTACKERS)
NETWORK = "8x128"
"""Large for the game, so that almost all processor time goes into evaluations, which are what is shared, and
little into the clients, which normally run on other machines."""
ALONE, TOGETHER = 256, 64
"""Leaves in flight of a client that is alone, enough for full batches, and of each of many clients."""
SETTLE = 3.0
"""Seconds between two turns, in which the previous turn's queue is emptied."""
LEAST = 0.95
"""Promise P5: least share that a client must get, relative to 1/N of what a client had alone, with N keys."""


@dataclass
class Shares:
    """Leaves a second, in each round."""

    alone: list[float] = field(default_factory=list)
    """One honest client alone."""
    quiet: list[list[float]] = field(default_factory=list)
    """Each honest client, without the attackers."""
    beside: list[list[float]] = field(default_factory=list)
    """Each honest client, next to the attackers."""
    taken: list[float] = field(default_factory=list)
    """The attackers' share of all leaves in those turns."""

    def add(self, alone: float, quiet: Turn, beside: Turn) -> None:
        """Add a round."""
        self.alone.append(alone)
        self.quiet.append(quiet.rates)
        self.beside.append(beside.rates)
        self.taken.append(max(0.0, 1 - sum(beside.rates) / beside.total))

    def of_alone(self) -> list[float]:
        """For each client: the median over rounds of its rate next to attackers, in units of 1/N of the rate
        alone."""
        pairs = list(zip(self.beside, self.alone, strict=True))
        return [median(turn[client] * KEYS / alone for turn, alone in pairs) for client in range(HONEST)]

    def interval(self) -> Lost:
        """The same for the worst-off client of each round."""
        return Lost.among(
            [min(turn) * KEYS / alone for turn, alone in zip(self.beside, self.alone, strict=True)]
        )

    def kept(self) -> Lost:
        """The total rate next to attackers, relative to the total without."""
        return Lost.among([sum(one) / sum(two) for one, two in zip(self.beside, self.quiet, strict=True)])

    def text(self) -> str:
        least, most = min(self.of_alone()), max(self.of_alone())
        alone, quiet = median(self.alone), median(map(sum, self.quiet))
        return (
            f"{len(self.alone)} rounds; one alone {alone:.0f} leaves/s, {HONEST} together {quiet:.0f}, "
            f"beside {', '.join(ATTACKERS)} {median(map(sum, self.beside)):.0f}: {_ratio(self.kept())} of "
            f"it, and the attackers {100 * median(self.taken):.0f} % of all. Each honest client had "
            f"{least:.2f} to {most:.2f} of 1/{KEYS} of what one had alone (the worst-off of each round: "
            f"{_ratio(self.interval())})"
        )


def _ratio(found: Lost) -> str:
    return f"{found.median:.2f} ({found.least:.2f} to {found.most:.2f})"


def broken(shares: Shares) -> str:
    """Why P5 does not hold; "" if it does."""
    poor = [number for number, share in enumerate(shares.of_alone()) if share < LEAST]
    return (
        f"P5: {len(poor)} honest clients had less than {LEAST} of their part: {shares.text()}" if poor else ""
    )


class KeyedServer(ServerAlone):
    """azserver with keys, without players of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.keys = KeyRing(folder, [*(f"honest-{number}" for number in range(HONEST)), *ATTACKERS])
        self.metrics_port = free_base_port()

    def _server_flags(self) -> list[str]:
        flags = super()._server_flags()
        flags[flags.index("--net") + 1] = NETWORK
        return [*flags, *self.keys.server_flags(), "--metrics-port", str(self.metrics_port)]

    def metrics(self) -> Metrics:
        return scrape(self.metrics_port)

    def _is_up(self) -> bool:
        return self.metrics().get("az_evaluators", 0.0) > 0


class Honest:
    """The process of the honest clients."""

    def __init__(self, server: KeyedServer) -> None:
        files = [str(server.keys.file(f"honest-{number}")) for number in range(HONEST)]
        script = str(ROOT / "tests/faults/share_members.py")
        self._process = subprocess.Popen(
            [sys.executable, script, str(server.port), server.keys.server, *files],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=_end_with_us,
        )

    def be_active(self, number: int) -> None:
        """Let only the first `number` of them send requests."""
        self._tell(f"active {number} {ALONE if number == 1 else TOGETHER}")

    def counts(self) -> tuple[float, list[int]]:
        self._tell("counts")
        assert self._process.stdout is not None
        at, answered = json.loads(self._process.stdout.readline())
        return at, answered

    def rates(self, seconds: float) -> list[float]:
        """Leaves a second of each, over `seconds` seconds."""
        begun, before = self.counts()
        time.sleep(seconds)
        ended, after = self.counts()
        return [(late - early) / (ended - begun) for early, late in zip(before, after, strict=True)]

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def attackers(server: KeyedServer) -> Iterator[list[int]]:
    """Start one attacker of each kind, joined. Yields their process ids; they are killed after the block."""
    with ExitStack() as stack:
        pids = []
        for kind in ATTACKERS:
            script = str(ROOT / "tests/faults/share_attackers.py")
            process = subprocess.Popen(
                [
                    sys.executable,
                    script,
                    kind,
                    str(server.port),
                    server.keys.server,
                    str(server.keys.file(kind)),
                ],
                stdout=subprocess.PIPE,
                preexec_fn=_end_with_us,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n", f"the {kind} client could not join"
            pids.append(process.pid)
        yield pids


@dataclass(frozen=True)
class Turn:
    """Figures of one turn."""

    rates: list[float]
    """Leaves a second of each honest client."""
    total: float
    """Leaves a second of the evaluator, for all clients."""
    front: float
    """Cores used by the front."""


class Rounds:
    """Turns with one running server and its honest clients."""

    def __init__(self, server: KeyedServer, honest: Honest, seconds: float) -> None:
        self._server, self._honest, self._seconds = server, honest, seconds
        self._burnt = 0.0
        """Cores that the attackers used in their last turn."""

    def alone(self) -> Turn:
        return self._turn(1)

    def quiet(self) -> Turn:
        """A turn of all honest clients, while as much processor time is burnt as the attackers used."""
        burner = Burner(self._burnt)
        burner.start()
        try:
            return self._turn(HONEST)
        finally:
            burner.finish()

    def beside(self) -> Turn:
        """A turn of all honest clients next to the attackers."""
        with attackers(self._server) as pids:
            before, begun = sum(map(seconds_of, pids)), time.monotonic()
            turn = self._turn(HONEST)
            self._burnt = (sum(map(seconds_of, pids)) - before) / (time.monotonic() - begun)
        return turn

    def _turn(self, active: int) -> Turn:
        self._honest.be_active(active)
        time.sleep(SETTLE)
        begun, before = time.monotonic(), self._counts()
        rates = self._honest.rates(self._seconds)
        took, after = time.monotonic() - begun, self._counts()
        evaluated, front = ((late - early) / took for early, late in zip(before, after, strict=True))
        return Turn(rates, evaluated, front)

    def _counts(self) -> tuple[float, float]:
        evaluated = self._server.metrics()['az_eval_leaves_total{evaluator="0"}']
        return evaluated, seconds_of(self._server.front)


def measure(folder: Path, rounds: int, seconds: float, say: Callable[[str], None]) -> Shares:
    """Run `rounds` rounds of three turns of `seconds` each; the order of the last two alternates."""
    shares = Shares()
    with KeyedServer(folder) as server, ExitStack() as stack:
        honest = Honest(server)
        stack.callback(honest.close)
        server.wait(lambda: server.metrics().get('az_clients{role="clients"}', 0) >= HONEST, "all to join")
        turns = Rounds(server, honest, seconds)
        for number in range(rounds):
            alone = turns.alone()
            if number % 2 == 0:
                beside, quiet = turns.beside(), turns.quiet()
            else:
                quiet, beside = turns.quiet(), turns.beside()
            shares.add(alone.rates[0], quiet, beside)
            say(f"round {number + 1}: {_line(alone, quiet, beside)}")
    return shares


def _line(alone: Turn, quiet: Turn, beside: Turn) -> str:
    worst = min(beside.rates) * KEYS / alone.rates[0]
    return (
        f"alone {alone.rates[0]:.0f} leaves/s, together {sum(quiet.rates):.0f}, beside attackers "
        f"{sum(beside.rates):.0f} of {beside.total:.0f}, the worst-off {worst:.2f} of its part; cores of the "
        f"front {alone.front:.2f}, {quiet.front:.2f}, {beside.front:.2f}"
    )
