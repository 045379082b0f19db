"""Reads from libzmq's monitor why a server refused a connection, after which libzmq does not try again, and
that a connection has ended, after which libzmq dials again."""

from __future__ import annotations

from collections.abc import Callable

import zmq
from zmq.utils.monitor import parse_monitor_message

from protocol.keys import DialKeys
from runtime.keys import as_text
from runtime.sockets import Channel, Socket

UNKNOWN_KEY = 400
"""The server's ERROR for an unknown key, as the monitor reports it (`protocol.curve`). Any other code means a
wrong server key."""


class HandshakeWatch:
    """Calls `on_refused(reason)` once the server has refused the handshake of `socket`, or the two sides
    disagree about using keys, and `on_ended()` when a connection has ended. `socket` must not have dialled
    yet: what happened before there was a watch is lost."""

    def __init__(
        self,
        socket: Socket,
        keys: DialKeys | None,
        role: str,
        on_refused: Callable[[str], None],
        on_ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._socket, self._keys, self._role = socket, keys, role
        self._on_refused, self._on_ended = on_refused, on_ended
        refused = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        monitor = socket.get_monitor_socket(refused | zmq.EVENT_DISCONNECTED)
        self._channel = Channel(monitor, self._on_event)

    def start(self) -> None:
        self._channel.start()

    def close(self) -> None:
        """Stop watching. To be called before the socket is closed."""
        if not self._socket.closed:
            self._socket.disable_monitor()
        self._channel.close()

    def _on_event(self, frames: list[memoryview]) -> None:
        event = parse_monitor_message([bytes(frame) for frame in frames])
        if int(event["event"]) == zmq.EVENT_DISCONNECTED:
            self._on_ended()
        if reason := refusal(int(event["event"]), int(event["value"]), self._keys, self._role):
            self._on_refused(reason)


def refusal(event: int, value: int, keys: DialKeys | None, role: str) -> str:
    """Explain an event of the monitor to a person, with what to do; "" if the server refused nothing."""
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH and keys is not None:
        if value != UNKNOWN_KEY:
            return "--server-key is not the key of this server; it prints its own at its start"
        kind = "trainer" if role == "trainer" else "client"
        allow = f"azserver allow {kind} NAME '{as_text(keys.own.public)}'"
        return f"it does not allow this key (or not any more): on its machine, run {allow}"
    if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH:
        if keys is not None:
            return "it asks for no keys (--insecure, or for its own machine only): leave --server-key out"
        return (
            "it asks for a key: run `azclient keygen` here, have it allowed there (`azserver allow`), and "
            "give --server-key, which azserver prints at its start"
        )
    return ""
