"""A ROUTER that acts as the server in tests of clients; azserver itself listens through `link.door`."""

from collections.abc import Sequence

import zmq

from azselfplay.link.sockets import LEAVES_LIMIT, Context, Socket, set_common


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
