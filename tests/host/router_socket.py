"""Sockets of tests: a ROUTER that acts as the server (azserver itself listens through `link.door`), and a
DEALER that dials at once."""

from collections.abc import Sequence
from typing import Any

import zmq

from azselfplay.link.sockets import LEAVES_LIMIT, Context, Socket, dial, new_dealer, set_common


def router(
    context: Context, endpoints: Sequence[str], *, limit: int = LEAVES_LIMIT, hwm: int = 256
) -> Socket:
    """Return a ROUTER bound to all `endpoints`; `hwm`: messages queued per peer, in each direction."""
    socket = context.socket(zmq.ROUTER)
    set_common(socket, limit, hwm)
    socket.set(zmq.ROUTER_MANDATORY, 1)  # otherwise it silently drops messages that it cannot deliver
    for endpoint in endpoints:
        socket.bind(endpoint)
    return socket


def dealer(context: Context, endpoint: str, **settings: Any) -> Socket:
    socket = new_dealer(context, endpoint, **settings)
    dial(socket, endpoint)
    return socket
