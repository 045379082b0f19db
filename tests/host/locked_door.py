"""A door that needs keys, and peers that dial it with libzmq's own CURVE."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import zmq
from free_ports import free_base_port
from nacl.public import PrivateKey
from router_socket import dealer
from zmq.utils.monitor import parse_monitor_message

from azselfplay.link.door import Door
from azselfplay.link.door_connection import DoorLimits
from azselfplay.link.sockets import Channel, new_context
from protocol.keys import DialKeys, KeyOwner, KeyPair, NotNow

PATIENCE = 20.0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (each turn of the loop may change it)
            await asyncio.sleep(0)


def key_pair(number: int) -> KeyPair:
    secret = bytes([number]) * 32
    return KeyPair(bytes(PrivateKey(secret).public_key), secret)


SERVER, CLIENT, STRANGER = map(key_pair, (1, 2, 3))
LAB = KeyOwner("lab-3", "client")


@dataclass
class Locked:
    """A door that echoes messages of peers with the key of `CLIENT`."""

    endpoint: str
    allowed: dict[bytes, KeyOwner] = field(default_factory=lambda: {CLIENT.public: LAB})
    readable: bool = True
    fails: bool = False
    ahead: float = 0.0
    stopped: float | None = None
    """The time at which the door's clock stands still."""
    gone: list[str] = field(default_factory=list)
    owners: list[KeyOwner | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context = new_context()
        self.lock = SERVER, self.owner_of
        self.door = Door([self.endpoint], DoorLimits(), self.clock, self.lock)
        self.door.start(self.on_message, lambda _peer, why: self.gone.append(why))

    def clock(self) -> float:
        return self.ahead + (time.monotonic() if self.stopped is None else self.stopped)

    def owner_of(self, key: bytes) -> KeyOwner | None:
        if not self.readable:
            raise NotNow
        if self.fails:
            raise RuntimeError("a fault of ours")
        return self.allowed.get(key)

    def on_message(self, peer: bytes, frames: list[memoryview]) -> None:
        self.owners.append(self.door.owner(peer))
        self.door.admit(peer)
        self.door.send(peer, frames)

    def dial(self, own: KeyPair = CLIENT, server: bytes = SERVER.public) -> Dialled:
        return Dialled(dealer(self.context, self.endpoint, limit=8_000_000, keys=DialKeys(server, own)))


class Dialled:
    """libzmq's DEALER, and the handshake events of its monitor."""

    def __init__(self, dialled: zmq.Socket) -> None:
        self.inbox: asyncio.Queue[list[bytes]] = asyncio.Queue()
        self.events: list[tuple[int, int]] = []
        self.connected = asyncio.Event()
        handshakes = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_SUCCEEDED
        self.monitor = Channel(dialled.get_monitor_socket(handshakes), self.on_event)
        self.channel = Channel(dialled, lambda frames: self.inbox.put_nowait(list(map(bytes, frames))))
        self.monitor.start()
        self.channel.start()

    def on_event(self, frames: list[memoryview]) -> None:
        event = parse_monitor_message(list(map(bytes, frames)))
        self.events.append((event["event"], event["value"]))
        if event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.connected.set()

    async def exchange(self, message: list[bytes]) -> list[bytes]:
        """Send a message and wait for the answer."""
        async with asyncio.timeout(PATIENCE):
            await self.connected.wait()
            while not self.channel.send(message):  # noqa: ASYNC110 (each turn of the loop may empty its queue)
                await asyncio.sleep(0)
            return await self.inbox.get()

    def close(self) -> None:
        self.channel.socket.disable_monitor()
        self.monitor.close()
        self.channel.close()


@asynccontextmanager
async def locked_door() -> AsyncIterator[Locked]:
    locked = Locked(f"tcp://127.0.0.1:{free_base_port()}")
    try:
        yield locked
    finally:
        locked.door.close()
        locked.context.destroy(0)
