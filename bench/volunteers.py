"""Five thousand players with keys of their own, from fifty addresses: how fast they join, and how many games
a second are stored while every game is also archived in a place that takes its time.

Real programs: `azserver --gpus none --workers 0`, and a trainer that verifies, stores and archives games but
does not train. Each object takes the archive `ARCHIVE_SECONDS` more than a folder takes. The players are made
up: real connections with CURVE, a hundred in a process, each process in a network namespace with an address
of its own. They send random games of chess, the next once the last is acknowledged, first at the pace of
five thousand volunteers and then as fast as AlphaZero's fleet did. Before that azserver is killed and
started again once, for all of them must join anew.

It needs root and `ip` of iproute2, for the namespaces. `AZ_BENCH_SECONDS` is the length of either pace
(default 60).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import uvloop
import zmq

from azselfplay.games import get_game
from azselfplay.host.hardware import seconds_of
from azselfplay.host.ports import claimed_base_port
from azselfplay.link.connection import Connection, ConnectionSettings
from azselfplay.link.keys import ALLOWED_FILE, from_text
from azselfplay.link.sockets import BULK_LIMIT, Context, new_context
from azselfplay.store.archive import Folder
from bench.programs import Programs
from bench.random_games import random_game
from protocol.keys import DialKeys, KeyPair
from protocol.messages import PROTOCOL_VERSION, GameAck, Hello, Message, PutGame, Welcome
from protocol.records import sha256, to_bytes
from server.keys import changed_allowed
from trainer.__main__ import _main as train

ADDRESSES, PLAYERS_OF_ADDRESS = 50, 100
PLAYERS = ADDRESSES * PLAYERS_OF_ADDRESS
PACES = {"volunteers": 417.0, "fleet": 1_360.0}
"""Games a second that are asked of the whole system."""
OFFERED = 1.2
"""How many times as many are offered."""
ARCHIVE_SECONDS = 0.3
AWAY_SECONDS, SETTLING_SECONDS = 30.0, 10.0
SIMULATIONS, PLIES, DISTINCT = 100, 100, 60
FIRST_PORT = 18_000
BRIDGE, HOST = "azbench", "10.77.0.1"

Parts = tuple[bytes, bytes]
"""A record without its uid: what comes before and after it."""


# ---- The players: one process for each address -----------------------------------------------------


class Player:
    """Sends random games, each once the one before is acknowledged and its time has come."""

    interval = 0.0
    """Seconds between two games of a player, the same for all."""
    joins = stored = sent_back = 0
    """Counts of all players of this process."""

    def __init__(self, context: Context, endpoint: str, keys: DialKeys, games: list[Parts]) -> None:
        self._games = games
        self._unanswered: tuple[PutGame, bytes] | None = None

        def on_joined(_: Welcome) -> None:
            Player.joins += 1

        self.connection = Connection(
            context,
            endpoint,
            Hello(PROTOCOL_VERSION, "client", "volunteer"),
            on_message=self._on_message,
            on_joined=on_joined,
            settings=ConnectionSettings("volunteer", limit=BULK_LIMIT, keys=keys),
        )

    def play(self) -> None:
        """Finish a game now, and another one after each interval."""
        if self._unanswered is None:
            uid, (before, after) = os.urandom(16), random.choice(self._games)
            data = before + uid + after
            self._unanswered = PutGame(uid, sha256(data)), data
            self._send()
        asyncio.get_running_loop().call_later(Player.interval, self.play)

    def _send(self) -> None:
        assert self._unanswered is not None
        if not self.connection.send(*self._unanswered):
            asyncio.get_running_loop().call_later(1.0, self._send)

    def _on_message(self, message: Message, frames: list[memoryview]) -> None:  # noqa: ARG002
        if not isinstance(message, GameAck) or self._unanswered is None:
            return
        if message.uid != self._unanswered[0].uid:
            return
        if message.status == "retry":
            Player.sent_back += 1
            asyncio.get_running_loop().call_later(message.retry_after, self._send)
            return
        if message.status == "rejected":
            raise RuntimeError(message.reason)
        Player.stored += 1
        self._unanswered = None


async def be_players(folder: Path, address: int) -> None:
    """Be the players of an address, for ever. Our input says how: first to join, then the seconds between two
    games of a player."""
    logging.disable(logging.WARNING)  # each of them says that azserver has gone
    about = json.loads((folder / "players.json").read_text())
    games = [(bytes.fromhex(before), bytes.fromhex(after)) for before, after in about["games"]]
    server = from_text(about["server"], "the server's key")
    pairs = about["keys"][address * PLAYERS_OF_ADDRESS : (address + 1) * PLAYERS_OF_ADDRESS]
    loop, lines = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("[0, 0, 0]", flush=True)
    await lines.readline()
    context = new_context()
    async with asyncio.TaskGroup() as group:
        group.create_task(tell_counts())
        players = []
        for public, secret in pairs:
            own = KeyPair(from_text(public, "a key"), from_text(secret, "a key"))
            players.append(Player(context, about["endpoint"], DialKeys(server, own), games))
            group.create_task(players[-1].connection.run())
        began = False
        while line := await lines.readline():
            Player.interval = float(line)
            if not began:
                for player in players:
                    loop.call_later(random.uniform(0, Player.interval), player.play)
            began = True


async def tell_counts() -> None:
    """Write the counts again and again."""
    while True:
        await asyncio.sleep(0.5)
        print(json.dumps([Player.joins, Player.stored, Player.sent_back]), flush=True)


# ---- The trainer -----------------------------------------------------------------------------------


def be_trainer() -> int:
    """Be the trainer, with an archive that takes its time. Its flags are those of `python -m trainer`."""
    create = Folder.create

    def slow(folder: Folder, name: str, data: bytes) -> bool:
        time.sleep(ARCHIVE_SECONDS)
        return create(folder, name, data)

    with patch.object(Folder, "create", slow):
        return train()


# ---- The benchmark ---------------------------------------------------------------------------------


@contextmanager
def namespaces() -> Iterator[list[str]]:
    """Make a network namespace for each address, all on one bridge with this machine; return their names."""
    names = [f"{BRIDGE}-{number}" for number in range(ADDRESSES)]
    remove = [f"netns del {name}" for name in names] + [f"link del {BRIDGE}"]
    add = [f"link add {BRIDGE} type bridge", f"addr add {HOST}/16 dev {BRIDGE}", f"link set {BRIDGE} up"]
    for number, name in enumerate(names):
        add += [
            f"netns add {name}",
            f"link add {BRIDGE}{number} type veth peer name eth0 netns {name}",
            f"link set {BRIDGE}{number} master {BRIDGE} up",
            f"-n {name} addr add 10.77.{number + 1}.1/16 dev eth0",
            f"-n {name} link set eth0 up",
        ]
    ip(remove, check=False)  # of a run that was killed
    try:
        ip(add, check=True)
        yield names
    finally:
        ip(remove, check=False)


def ip(commands: list[str], *, check: bool) -> None:
    """Run commands of `ip`, which need root."""
    for command in commands:
        subprocess.run(["ip", *command.split()], check=check, capture_output=not check)


class Players:
    """The processes of all players."""

    def __init__(self, programs: Programs, names: list[str]) -> None:
        self._programs, self._names = programs, names
        command = [sys.executable, "-m", "bench.volunteers", "players", str(programs.folder)]
        self.processes = [
            programs.start(
                name, ["ip", "netns", "exec", name, *command, str(number)], stdin=subprocess.PIPE, stderr=None
            )
            for number, name in enumerate(names)
        ]

    def say(self, text: str) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()

    def counts(self) -> tuple[int, int, int]:
        """How often players have joined (-1: not all processes are ready), and the games that were stored and
        sent back."""
        lines = [self._programs.log(name).split("\n")[:-1] for name in self._names]
        if not all(lines):
            return -1, 0, 0
        joins, stored, sent_back = np.sum([json.loads(one[-1]) for one in lines], axis=0)
        return int(joins), int(stored), int(sent_back)


def prepare(programs: Programs, port: int) -> dict[str, Any]:
    """Make the players' keys and allow them. Returns what the players' processes need, but for the server's
    key."""
    pairs = [[key.decode() for key in zmq.curve_keypair()] for _ in range(PLAYERS)]
    with changed_allowed(programs.keys / ALLOWED_FILE) as allowed:
        for number, (public, _) in enumerate(pairs):
            allowed[f"volunteer-{number}"] = "client", from_text(public, "a key")
    game, rng = get_game("chess"), np.random.default_rng(1)
    records = [random_game(game, rng, simulations=SIMULATIONS, max_plies=PLIES) for _ in range(DISTINCT)]
    games = [[part.hex() for part in to_bytes(record).split(record.uid)] for record in records]
    return {"endpoint": f"tcp://{HOST}:{port + 1}", "keys": pairs, "games": games}


def join(programs: Programs, players: Players) -> dict[str, float]:
    """Let all players join, twice: azserver is killed in between. Returns the seconds that either took."""

    def joined(times: int) -> float:
        began = time.monotonic()
        programs.wait_for(lambda: players.counts()[0] >= times * PLAYERS)
        return round(time.monotonic() - began, 1)

    players.say("join")
    first = joined(1)
    programs.kill("hub")
    time.sleep(AWAY_SECONDS)
    start_hub(programs)
    again = joined(2)
    print(f"{PLAYERS} players have joined after {first} s. azserver was killed for {AWAY_SECONDS:.0f} s;")
    print(f"{again} s after it was back, all had joined again")
    return {"joined_s": first, "joined_again_s": again}


def start_hub(programs: Programs) -> None:
    programs.start_hub(SIMULATIONS, "--self-play.max-plies", str(PLIES))


def watch(name: str, programs: Programs, players: Players, length: float) -> float:
    """Let the players send games at one of the paces. Returns the games stored in a second."""
    players.say(str(PLAYERS / (PACES[name] * OFFERED)))
    time.sleep(SETTLING_SECONDS)
    groups = [programs.process("hub")], [programs.process("trainer")], players.processes

    def cores() -> npt.NDArray[np.float64]:
        return np.array([sum(seconds_of(one.pid) for one in group) for group in groups])

    (_, stored, sent_back), spent, began = players.counts(), cores(), time.monotonic()
    time.sleep(length)
    (_, stored_then, sent_back_then), took = players.counts(), time.monotonic() - began
    hub, trainer, others = (cores() - spent) / took
    rate = (stored_then - stored) / took
    print(
        f"{name}: {rate:,.0f} games/s stored and archived (asked: {PACES[name]:,.0f}), "
        f"{(sent_back_then - sent_back) / took:,.0f} sent back; cores: azserver {hub:.2f}, trainer "
        f"{trainer:.2f}, players {others:.2f}"
    )
    return rate


def run() -> dict[str, Any]:
    if os.geteuid() or not shutil.which("ip"):
        print("left out: it needs root and `ip` of iproute2")
        return {}
    length = float(os.environ.get("AZ_BENCH_SECONDS", "60"))
    with ExitStack() as stack:
        names = stack.enter_context(namespaces())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="az-")))
        port = stack.enter_context(claimed_base_port(FIRST_PORT))
        programs = Programs(folder, port, stack, listen=HOST)
        programs.make_keys([])
        about = prepare(programs, port)
        start_hub(programs)
        (folder / "players.json").write_text(json.dumps({**about, "server": programs.server_key}))
        (folder / "archive").mkdir()
        command = [sys.executable, "-m", "bench.volunteers", "trainer"]
        programs.start_trainer(command, "--archive", str(folder / "archive"))
        players = Players(programs, names)
        programs.wait_for(lambda: players.counts()[0] >= 0 and "0 games read back" in programs.log("trainer"))
        figures = join(programs, players)
        for name in PACES:
            figures[f"{name}_games_per_s"] = round(watch(name, programs, players, length))
        used = (f"{name} {memory(programs.process(name).pid)} MB" for name in ("hub", "trainer"))
        # Counted before the store is: what is acknowledged later is stored by then as well.
        acknowledged, stored = players.counts()[1], programs.stored()
        print(f"memory: {', '.join(used)}")
        print(f"games acknowledged {acknowledged:,}, in the store {stored:,}, none twice")
        if stored < acknowledged:
            raise RuntimeError("a game that was acknowledged is not in the store, or a game is there twice")
    return figures


def memory(pid: int) -> int:
    """Resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 10**6


if __name__ == "__main__":
    if sys.argv[1] == "trainer":
        del sys.argv[1]
        sys.exit(be_trainer())
    uvloop.run(be_players(Path(sys.argv[2]), int(sys.argv[3])))
