"""A ROUTER, which plays the server's part in tests of clients; azserver itself listens by `runtime.door`."""

from __future__ import annotations

from collections.abc import Sequence

import zmq

from runtime.sockets import LEAVES_LIMIT, Context, Socket, set_common


def router(
    context: Context, endpoints: Sequence[str], *, limit: int = LEAVES_LIMIT, hwm: int = 256
) -> Socket:
    """Bound to all `endpoints`; `hwm`: messages queued per peer, either way."""
    socket = context.socket(zmq.ROUTER)
    set_common(socket, limit, hwm)
    socket.set(zmq.ROUTER_MANDATORY, 1)  # a ROUTER else drops in silence
    for endpoint in endpoints:
        socket.bind(endpoint)
    return socket
