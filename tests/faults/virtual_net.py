"""A network in memory: connections that delay, lose, repeat and break, between doors and channels with the
real interfaces.

Within one direction of a connection messages keep their order, as in TCP. Each connection has its own random
numbers, so its behaviour depends neither on the others nor on the order of sending.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import zmq
from virtual_time import Process, VirtualLoop

from azselfplay.link.sockets import Frame, plain

Frames = list[bytes]


@dataclass(frozen=True)
class Weather:
    """What the network does to messages while it is bad."""

    latency: float = 0.05
    """Most seconds of delay of a message; it may also have to wait for the previous one."""
    lost: float = 0.0
    """Share of messages that are lost."""
    repeated: float = 0.0
    """Share of messages that arrive twice."""


class Network:
    """All doors by their endpoint, and all connections."""

    def __init__(self, loop: VirtualLoop, seed: int, weather: Weather) -> None:
        self.loop = loop
        self.weather = weather
        self.doors: dict[str, VirtualDoor] = {}
        self.links: list[Link] = []
        self.messages = 0
        """Messages sent so far."""
        self._seed = seed
        self._made = 0

    def new_rng(self) -> random.Random:
        self._made += 1
        return random.Random(self._seed * 1_000_003 + self._made)


class Link:
    """A client's end, from its first dialling to the end of its process; it dials again when it was cut."""

    def __init__(self, net: Network, endpoint: str) -> None:
        self.endpoint = endpoint
        self.peer = b""
        """The number at the door; empty while there is no connection."""
        self.door: VirtualDoor | None = None
        self.channel: VirtualChannel | None = None
        self.on_connected: Callable[[], None] = lambda: None
        self.closed = False
        self._net = net
        self._rng = net.new_rng()
        self._connection = 0
        """Number of the connection: messages of earlier ones are not delivered."""
        self._last = [0.0, 0.0]
        process = Process.current.get()
        assert process is not None
        self.process = process
        process.at_end.append(self.close)
        net.links.append(self)
        self._dial_later(0.01)

    def close(self) -> None:
        self.cut()
        self.closed = True
        if self in self._net.links:
            self._net.links.remove(self)

    def cut(self, notice: float = 0.0) -> None:
        """End the connection. Messages in transit are lost; the door is told after `notice` seconds."""
        door, peer = self.door, self.peer
        self.door, self.peer = None, b""
        self._connection += 1
        if door is not None:
            self._net.loop.call_later(notice, door.hung_up, peer)
            self._dial_later(self._rng.uniform(0.2, 1.0))

    def get_monitor_socket(self, _events: int) -> VirtualMonitor:
        return VirtualMonitor(self)

    def disable_monitor(self) -> None: ...

    def dropped(self) -> None:
        """Handle a connection that the door has ended."""
        self.door, self.peer = None, b""
        self._connection += 1
        self._dial_later(self._rng.uniform(0.2, 1.0))

    def to_server(self, frames: Frames) -> None:
        door, peer = self.door, self.peer
        if door is not None:
            self._travel(0, lambda: door.arrived(peer, frames))

    def to_client(self, frames: Frames) -> None:
        self._travel(1, lambda: self._arrived(frames))

    def _arrived(self, frames: Frames) -> None:
        if self.channel is not None and self.process.alive:
            self.channel.arrived(frames)

    def _travel(self, direction: int, deliver: Callable[[], None]) -> None:
        net, connection = self._net, self._connection
        net.messages += 1
        copies = 1
        if self.endpoint.startswith("ipc"):
            pass  # within the server's machine
        elif self._rng.random() < net.weather.lost:
            copies = 0
        elif self._rng.random() < net.weather.repeated:
            copies = 2
        for _ in range(copies):
            delay = self._rng.uniform(0.0, net.weather.latency)
            at = self._last[direction] = max(self._last[direction], net.loop.time() + delay)
            net.loop.call_at(at, self._deliver, connection, deliver)

    def _deliver(self, connection: int, deliver: Callable[[], None]) -> None:
        if connection == self._connection:
            deliver()

    def _dial_later(self, seconds: float) -> None:
        if not self.closed:
            self._net.loop.call_later(seconds, self._dial)

    def _dial(self) -> None:
        if self.closed or self.door is not None or self.channel is None:
            return
        door = self._net.doors.get(self.endpoint)
        if door is None:
            self._dial_later(self._rng.uniform(0.2, 1.0))
            return
        self._connection += 1
        self._last = [0.0, 0.0]
        self.door, self.peer = door, door.take_in(self)
        self.channel.connected()


def in_process(process: Process | None, callback: Callable[..., None], *arguments: Any) -> None:
    token = Process.current.set(process)
    try:
        callback(*arguments)
    finally:
        Process.current.reset(token)


class VirtualMonitor:
    """A monitor's socket: it says only when its link is connected. No keys are used here."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def close(self) -> None: ...


class VirtualChannel:
    """Has the interface of `link.sockets.Channel`, for the socket that `new_dealer` returned."""

    def __init__(self, link: Link | VirtualMonitor, on_message: Callable[[list[memoryview]], None]) -> None:
        self._link: Any = link
        self._on_message = on_message
        if isinstance(link, VirtualMonitor):
            begun = struct.pack("=hi", zmq.EVENT_HANDSHAKE_SUCCEEDED, 0)
            link.link.on_connected = lambda: on_message([memoryview(begun), memoryview(b"")])
        else:
            link.channel = self

    def start(self) -> None:
        """Nothing has to be watched."""

    def close(self, _linger: int = 0) -> None:
        self._link.close()

    def send(self, frames: Sequence[Frame]) -> bool:
        if self._link.door is None or not self._link.process.alive:
            return False
        self._link.to_server([bytes(plain(frame)) for frame in frames])
        return True

    def connected(self) -> None:
        in_process(self._link.process, self._link.on_connected)

    def arrived(self, frames: Frames) -> None:
        in_process(self._link.process, self._on_message, [memoryview(frame) for frame in frames])


class VirtualDoor:
    """Has the interface of `link.door.Door`, without rate limits: the simulation is about losses, not
    costs."""

    def __init__(self, net: Network, endpoints: Sequence[str]) -> None:
        self._net = net
        self._endpoints = list(endpoints)
        self._links: dict[bytes, Link] = {}
        self._next = 0
        self._process = Process.current.get()
        self.on_drained: Callable[[], None] = lambda: None
        self.held = self.cut = 0
        if self._process is not None:
            self._process.at_end.append(self.close)

    def __len__(self) -> int:
        return len(self._links)

    def start(
        self, on_message: Callable[[bytes, list[memoryview]], None], on_gone: Callable[[bytes, str], None]
    ) -> None:
        self._on_message, self._on_gone = on_message, on_gone
        for endpoint in self._endpoints:
            self._net.doors[endpoint] = self

    def close(self) -> None:
        for endpoint in self._endpoints:
            if self._net.doors.get(endpoint) is self:
                del self._net.doors[endpoint]
        links, self._links = self._links, {}
        for link in links.values():
            if not link.closed and link.door is self:
                link.dropped()

    def take_in(self, link: Link) -> bytes:
        self._next += 1
        peer = b"%d" % self._next
        self._links[peer] = link
        return peer

    def hung_up(self, peer: bytes) -> None:
        if self._links.pop(peer, None) is not None and self._alive:
            in_process(self._process, self._on_gone, peer, "")

    def arrived(self, peer: bytes, frames: Frames) -> None:
        if peer in self._links and self._alive:
            in_process(self._process, self._on_message, peer, [memoryview(frame) for frame in frames])

    def send(self, peer: bytes, frames: Sequence[bytes | memoryview]) -> bool:
        link = self._links.get(peer)
        if link is None or not self._alive:
            return False
        if link.peer == peer and link.door is self:
            link.to_client([bytes(frame) for frame in frames])
        return True

    def unsent(self, _peer: bytes) -> int:
        return 0

    def owner(self, _peer: bytes) -> None:
        """No keys are used."""

    def admit(self, peer: bytes) -> None:
        """No peer is turned away here."""

    dismiss = admit

    def charge(self, _peer: bytes, *_: object, **__: object) -> None:
        """Messages cost nothing here."""

    @property
    def _alive(self) -> bool:
        return self._process is None or self._process.alive


def dealer_of(net: Network) -> Callable[..., Link]:
    """Return the replacement of `link.sockets.new_dealer`."""

    def new_dealer(_context: object, endpoint: str, **_settings: object) -> Link:
        return Link(net, endpoint)

    return new_dealer


async def until(holds: Callable[[], bool], seconds: float, step: float = 0.5) -> bool:
    """Return whether `holds()` becomes true within `seconds` virtual seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not holds():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(step)
    return True
