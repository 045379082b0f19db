"""`python -m server.evaluator`: azserver's evaluator for one device.

It computes what workers and front put into their rings (`azselfplay.batching.loop`). Over its connection to
the front it hears which weights to use, and reports.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import zmq

from azselfplay.batching.loop import EvaluatorLoop, Network, open_device
from azselfplay.games import get_game
from azselfplay.host import logs
from azselfplay.host.exits import Exit, guarded
from azselfplay.link.sockets import Socket, dial, new_context, new_dealer, receive
from protocol.messages import (
    EvaluatorReady,
    EvaluatorReport,
    Goodbye,
    LoadWeights,
    Message,
    Ping,
    Pong,
    WeightsLoaded,
    WeightsRefused,
    decode,
    encode,
)
from server.evaluator_pool import FRAME_LIMIT

log = logging.getLogger("evaluator")


class FrontControl:
    """The connection to azserver's front."""

    def __init__(self, socket: Socket, index: int) -> None:
        self._socket = socket
        self._index = index
        self._ready: EvaluatorReady | None = None

    def fileno(self) -> int:
        return int(self._socket.get(zmq.FD))

    def receive(self) -> LoadWeights | None:
        while (frames := receive(self._socket)) is not None:
            message = decode(frames[0])
            match message:
                case LoadWeights():
                    return message
                # The connection was cut and restored; to the front it is a new one.
                case Goodbye():
                    log.warning("the front does not know this connection: joining it again")
                    if self._ready is not None:
                        self._send(self._ready)
                # Its arrival has shown that the front is alive; there is nothing to do.
                case Pong():
                    pass
                case _:
                    log.warning("the front sent %s: ignored", type(message).__name__)
        return None

    def ready(self, network: Network) -> None:
        sizes = network.target_rows, network.max_rows, network.in_flight + 1
        self._ready = EvaluatorReady(self._index, network.device_name, *sizes)
        self._send(self._ready)

    def loaded(self, weights: LoadWeights) -> None:
        self._send(WeightsLoaded(weights.version, weights.sha256))

    def refused(self, weights: LoadWeights, reason: str) -> None:
        self._send(WeightsRefused(weights.version, reason[:2000]))

    def report(self, report: EvaluatorReport) -> None:
        self._send(report)

    def alive(self) -> None:
        self._send(Ping())

    def _send(self, message: Message) -> None:
        self._socket.send(encode(message))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m server.evaluator", description=__doc__)
    parser.add_argument("--endpoint", required=True, help="the front's endpoint for evaluators")
    parser.add_argument("--ring", required=True, type=Path, help="Unix socket at which producers dial")
    parser.add_argument("--index", type=int, required=True, help="number of this evaluator")
    parser.add_argument("--device", required=True, help="cpu or cuda:N")
    parser.add_argument("--game", required=True)
    parser.add_argument("--history", type=int, required=True, help="positions in the features")
    parser.add_argument("--workers", type=int, default=1, help="workers that will use this evaluator")
    parser.add_argument("--games", type=int, default=0, help="games of each; 0: as many as fill the batches")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: one per core")
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    return parser.parse_args(argv)


def main() -> int:
    """Entry point of the process."""
    options = parse()
    logs.set_up(f"evaluator-{options.index}", form=options.log_format)
    game = get_game(options.game)
    network = open_device(options.device, game, options.history, options.threads)
    socket = new_dealer(new_context(), options.endpoint, limit=FRAME_LIMIT)
    dial(socket, options.endpoint)
    control = FrontControl(socket, options.index)
    players = options.workers, options.games
    EvaluatorLoop(options.ring, network, game, options.history, control, *players).run()
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(main))
