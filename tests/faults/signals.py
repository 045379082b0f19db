"""P8: does each fault show in a metric and in a log line, and how soon?

Each function causes one fault in a running system, and repairs it after its `yield`. `SIGNALS` says which
metric and which log line show it; results/faults.md has the same table for people.
"""

import hashlib
import json
import math
import os
import signal
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from keyed_parts import TRAINER, Guest, KeyedParts, Packed, Socket, answer_of, ask, evaluate, tell
from parts import RUN

from azselfplay.link.keys import ALLOWED_FILE, new_pair, write_pair
from azselfplay.link.weights_files import NEWEST
from protocol.messages import CHUNK

GUEST = "mallory"
PATIENCE = 150.0
"""Seconds for what takes less than WANTED on an idle machine."""
WANTED = 30.0
"""Seconds within which promise P8 requires it."""
STANDSTILL = 8.0
"""Seconds for which azserver is stopped."""
FAR = 10_000
"""A version beyond those of a short run."""
LONG = 9 * 2**20
"""Bytes of a frame that is longer than every limit."""

Injection = Callable[[KeyedParts], Iterator[None]]


@dataclass(frozen=True)
class Signal:
    """How one fault is shown."""

    name: str
    """Key of INJECTIONS."""
    fault: str
    """Description for people."""
    part: str
    """The part whose metric and log it is: server, trainer or client.main."""
    metric: str
    """The metric as written, with labels."""
    log: str
    """Words of the log line."""
    least: float | None = None
    """The metric is at least this; None: it rises."""
    most: float | None = None
    """The metric is at most this."""

    def is_shown(self, before: float, now: float) -> bool:
        """Return whether the metric, which was `before`, shows it."""
        if self.most is not None:
            return now <= self.most
        return now > before if self.least is None else now >= self.least


@contextmanager
def joined(system: KeyedParts, key: str = GUEST, offset: int = 0, role: str = "client") -> Iterator[Socket]:
    """Yield a connection of a peer with this key that has joined."""
    guest = Guest(system.port, system.keys.server, system.keys.file(key))
    try:
        socket = guest.dial(offset, role=role)
        answer_of(socket, "welcome")
        yield socket
    finally:
        guest.close()


def sent(*messages: Packed) -> Injection:
    """Return the fault that a client with a key causes by sending these messages."""

    def inject(system: KeyedParts) -> Iterator[None]:
        with joined(system) as socket:
            for message in messages:
                tell(socket, message)
            yield

    return inject


# ---- who comes over the network ------------------------------------------------------------------


def foreign_key(system: KeyedParts) -> Iterator[None]:
    file = system.folder / "foreign.key"
    write_pair(file, new_pair(), "Of nobody.")
    guest = Guest(system.port, system.keys.server, file)
    try:
        guest.dial()
        yield
    finally:
        guest.close()


def unreadable_list(system: KeyedParts) -> Iterator[None]:
    with _changed_list(system, lambda text: text + "\n[["):
        yield


def revoked_key(system: KeyedParts) -> Iterator[None]:
    with joined(system), _changed_list(system, _without_guest):
        yield


@contextmanager
def _changed_list(system: KeyedParts, change: Callable[[str], str]) -> Iterator[None]:
    path = system.keys.file(GUEST).parent / ALLOWED_FILE
    before, mode = path.read_text(), path.stat().st_mode
    new = path.with_name("new")
    try:
        for text in (change(before), before):
            new.write_text(text)
            new.chmod(mode)
            new.replace(path)
            if text != before:
                yield
    finally:
        path.write_text(before)


def _without_guest(text: str) -> str:
    """Return allowed.toml without the lines of this key."""
    blocks = text.split("\n[")
    return "\n[".join(block for block in blocks if GUEST not in block.partition("\n")[0])


def dishonest_game(system: KeyedParts) -> Iterator[None]:
    record = os.urandom(200)
    with joined(system, offset=1) as socket:
        put = ask("put_game", uid=os.urandom(16), sha256=hashlib.sha256(record).digest())
        tell(socket, [*put, record])
        yield


def bad_weights(system: KeyedParts) -> Iterator[None]:
    """Replace the trainer, which is killed first, and publish the weights in use with a NaN in them. The old
    ones must stay in use."""
    system.end("trainer", signal.SIGKILL)
    data = _with_nan((system.folder / "runs" / RUN / "weights" / NEWEST).read_bytes())
    digest = hashlib.sha256(data).digest()
    about = {"version": FAR, "step": 1, "size": len(data), "game": system.game, "architecture": "tiny"}
    with joined(system, TRAINER, offset=1, role="trainer") as socket:
        tell(socket, ask("weights_info", sha256=digest, **about))
        for _ in range(0, len(data), CHUNK):
            offset = answer_of(socket, "get_chunk")["offset"]
            tell(socket, [*ask("chunk", sha256=digest, offset=offset), data[offset : offset + CHUNK]])
        yield
    assert 0 <= system.metrics("server")["az_model_version"] < FAR, "P6: weights that were refused are in use"
    system.begin("trainer")


def _with_nan(weights: bytes) -> bytes:
    """Return this safetensors file with NaN as the first number of a tensor."""
    end = 8 + int.from_bytes(weights[:8], "little")
    tensors = (one for one in json.loads(weights[8:end]).values() if one.get("dtype") == "F32")
    at = end + next(tensors)["data_offsets"][0]
    return weights[:at] + struct.pack("<f", math.nan) + weights[at + 4 :]


# ---- processes that end or stand still -----------------------------------------------------------


def evaluator_killed(system: KeyedParts) -> Iterator[None]:
    os.kill(system.evaluator(), signal.SIGKILL)
    yield


def evaluator_stopped(system: KeyedParts) -> Iterator[None]:
    system.wait(lambda: system.metrics("server").get("az_evaluators", 0) > 0, "an evaluator")
    pid = system.evaluator()
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


def server_stopped(system: KeyedParts) -> Iterator[None]:
    os.kill(system.front, signal.SIGSTOP)
    time.sleep(STANDSTILL)
    os.kill(system.front, signal.SIGCONT)
    yield


def worker_killed(system: KeyedParts) -> Iterator[None]:
    os.kill(system.child("client.main", "client.worker"), signal.SIGKILL)
    yield


def client_killed(system: KeyedParts) -> Iterator[None]:
    system.end("client.main", signal.SIGKILL)
    yield
    system.begin("client.main")


def trainer_killed(system: KeyedParts) -> Iterator[None]:
    system.end("trainer", signal.SIGKILL)
    yield
    system.begin("trainer")


def server_killed(system: KeyedParts) -> Iterator[None]:
    system.end("server", signal.SIGKILL)
    yield
    system.begin("server")


# ---- disks ---------------------------------------------------------------------------------------


def damaged_spool(system: KeyedParts) -> Iterator[None]:
    """Damage a game while azclient is stopped."""
    system.end("client.main", signal.SIGKILL)
    (folder,) = (system.folder / "spool").glob("*/worker-0")
    (folder / f"{os.urandom(16).hex()}.game").write_bytes(b"not a game")
    system.begin("client.main")
    yield


def locked_store(system: KeyedParts) -> Iterator[None]:
    with closing(sqlite3.connect(_store(system), isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def damaged_store(system: KeyedParts) -> Iterator[None]:
    """Damage a game while the trainer is stopped."""
    system.end("trainer", signal.SIGKILL)
    with closing(sqlite3.connect(_store(system), timeout=60)) as store:
        store.execute("UPDATE games SET data = zeroblob(40) WHERE seq = (SELECT min(seq) FROM games)")
        store.commit()
    system.begin("trainer")
    yield


def _store(system: KeyedParts) -> Path:
    return system.trainers / RUN / "games.db"


INJECTIONS: dict[str, Injection] = {
    "garbage": sent([b"\xc1" * 20], [b""], ask("nonsense")),
    "long_frame": sent([b"x" * LONG]),
    "over_credit": sent(*(evaluate(request) for request in range(1, 60))),
} | {
    one.__name__: one
    for one in (
        foreign_key, unreadable_list, revoked_key, dishonest_game, bad_weights, evaluator_killed,
        evaluator_stopped, server_stopped, worker_killed, client_killed, damaged_spool, locked_store,
        trainer_killed, damaged_store, server_killed,
    )
}  # fmt: skip


SIGNALS = (
    Signal("foreign_key", "a peer with a key that is not allowed connects", "server",
           'az_handshakes_refused_total{port="leaves"}', "its key is not allowed"),
    Signal("unreadable_list", "the list of allowed keys is damaged", "server",
           "az_allowed_keys", "nobody new may join", most=0),
    Signal("revoked_key", "a key is revoked while its client is connected", "server",
           'az_client_disconnects_total{reason="ended"}', "not allowed here any more"),
    Signal("garbage", "a message that cannot be read", "server",
           "az_protocol_errors_total", "dropped a message of"),
    Signal("long_frame", "a frame over the size limit", "server",
           'az_connections_cut_total{port="leaves"}', "cut a connection of"),
    Signal("over_credit", "more requests than were granted", "server",
           "az_credit_violations_total", "more than the"),
    Signal("dishonest_game", "a game that breaks the rules", "trainer",
           'az_game_rejects_total{code="bad_record"}', "refused a game"),
    Signal("bad_weights", "weights with a NaN in them", "server",
           "az_weights_refused_total", "refuses weights"),
    Signal("evaluator_killed", "an evaluator is killed", "server",
           "az_gpu_worker_restarts_total", "evaluator-0 ended"),
    Signal("evaluator_stopped", "an evaluator hangs", "server",
           'az_evaluator_silent_seconds{evaluator="0"}', "has said nothing for", least=20),
    Signal("server_stopped", "azserver hangs", "server", "az_loop_lag_seconds", "stood still for", least=5),
    Signal("worker_killed", "a worker of azclient is killed", "client.main",
           "az_client_worker_restarts_total", "starting it again"),
    Signal("client_killed", "azclient is killed", "server",
           'az_client_disconnects_total{reason="hung_up"}', "has left the leaves port"),
    Signal("damaged_spool", "a finished game is damaged in the spool", "client.main",
           'az_spool_rejected_total{worker="0"}', "set aside in", least=1),
    Signal("locked_store", "another program holds a lock on the store", "trainer",
           'az_games_received_total{status="retry"}', "games are NOT being stored"),
    Signal("trainer_killed", "the trainer is killed", "server",
           "az_trainer_present", "has left the bulk port", most=0),
    Signal("damaged_store", "a stored game is damaged", "trainer",
           "az_damaged_games", "is damaged and left out", least=1),
    Signal("server_killed", "azserver is killed", "trainer",
           "az_trainer_connected", "has ended; dialling again", most=0),
)  # fmt: skip


def shown(system: KeyedParts, one: Signal) -> float:
    """Cause the fault, and wait until metric and log show it. Returns the seconds until both do. Raises
    AssertionError if they never do."""
    before = system.metrics(one.part).get(one.metric, 0.0)
    said = len(system.whole_log(one.part))
    injection = INJECTIONS[one.name](system)
    begun = time.monotonic()
    next(injection)
    if one.name == "server_stopped":
        begun += STANDSTILL

    def is_shown() -> bool:
        metrics = system.metrics(one.part)
        value = metrics.get(one.metric)
        in_log = one.log in system.whole_log(one.part)[said:]
        return in_log and value is not None and one.is_shown(before, value)

    try:
        while not is_shown():
            late = time.monotonic() - begun > PATIENCE
            assert not late, f"P8: {one.fault}: {_missing(system, one, said)}"
            time.sleep(0.2)
        return time.monotonic() - begun
    finally:
        next(injection, None)


def _missing(system: KeyedParts, one: Signal, said: int) -> str:
    value = system.metrics(one.part).get(one.metric)
    return (
        f"{one.metric} is {value}; the log of {one.part} since:\n{system.whole_log(one.part)[said:][-3000:]}"
    )


def measure(folder: Path, say: Callable[[str], None]) -> dict[str, float]:
    """Test every row of the table. Returns the seconds until each fault is shown, by its name."""
    found = {}
    with KeyedParts(folder, guests=[GUEST]) as system:
        for one in SIGNALS:
            found[one.fault] = shown(system, one)
            say(f"{one.fault}: {found[one.fault]:.1f} s")
            system.wait_until_whole()
    return found
