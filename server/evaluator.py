"""`python -m server.evaluator`: one process for one device. It answers the front's batches in order.

The loop blocks and uses no asyncio, because there is one socket and one device. A device has two batches
submitted at once, so that copying and unpacking overlap with computing; a third waits in the socket.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from azselfplay.games.packed import LegalMasks
from azselfplay.games.spec import Game
from azselfplay.host import logs
from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.link.sockets import Socket, dealer, new_context, receive
from protocol.messages import (
    Batch,
    BatchDone,
    EvaluatorReady,
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
from server.devices import check_still_there
from server.evaluators import FRAME_LIMIT

HEARTBEAT = 5.0
"""Seconds of idleness after which the front is told that this process is alive."""
IN_FLIGHT = 2
"""Batches submitted to the device at once; one more waits in the socket."""

log = logging.getLogger("evaluator")


class Network(Protocol):
    """What the loop needs from `net.inference.Inference`."""

    target_rows: int
    max_rows: int
    in_flight: int

    @property
    def device_name(self) -> str: ...
    def load(self, path: str, sha256: bytes) -> Any: ...
    def halve(self) -> None: ...
    def run(
        self,
        features: npt.NDArray[np.uint64],
        counts: npt.NDArray[np.uint16],
        actions: npt.NDArray[np.uint16],
    ) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.float32]]: ...
    def submit(
        self,
        features: npt.NDArray[np.uint64],
        counts: npt.NDArray[np.uint16],
        actions: npt.NDArray[np.uint16],
    ) -> Any: ...
    def collect(self, ticket: Any) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.float32]]: ...


@dataclass(frozen=True)
class _Submitted:
    batch: Batch
    positions: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint16], npt.NDArray[np.uint16]]
    """The arguments of `Network.submit`, kept because they are computed again if the device runs out of
    memory."""
    ticket: Any
    began: float


class EvaluatorLoop:
    """Answers one front over one socket.

    `bad_weights` is the exception `network.load` raises for a bad file, and `out_of_memory` the one the
    network raises when its device has no memory for a batch.
    """

    def __init__(
        self,
        socket: Socket,
        network: Network,
        feature_words: int,
        index: int,
        bad_weights: type[Exception],
        heartbeat: float = HEARTBEAT,
        masks: LegalMasks | None = None,
        out_of_memory: type[Exception] = MemoryError,
    ) -> None:
        """`feature_words`: uint64 words of one packed position. `heartbeat`: seconds of idleness between
        PINGs. `masks`: decodes the legal actions, where they do not come as a list."""
        self._socket = socket
        self._network = network
        self._feature_words = feature_words
        self._index = index
        self._bad_weights = bad_weights
        self._heartbeat_ms = int(1000 * heartbeat)
        self._masks = masks
        self._out_of_memory = out_of_memory
        self._version = 0
        self._submitted: deque[_Submitted] = deque()
        self._last_done = 0.0

    def run(self) -> None:
        """Run forever."""
        self.say_ready()
        while True:
            self.step()

    @property
    def is_busy(self) -> bool:
        """Return whether batches are on the device."""
        return bool(self._submitted)

    def step(self) -> None:
        """Take what has arrived while the device has room, then answer the oldest batch."""
        wait = not self._submitted
        while len(self._submitted) < self._network.in_flight:
            frames = self._receive(wait=wait)
            if frames is None:
                break
            wait = False
            self._on_message(frames)
        if self._submitted:
            self._answer_oldest()

    def say_ready(self) -> None:
        network = self._network
        pipeline = network.in_flight + 1
        self._send(
            EvaluatorReady(self._index, network.device_name, network.target_rows, network.max_rows, pipeline)
        )

    def _receive(self, *, wait: bool) -> list[memoryview] | None:
        frames = receive(self._socket)
        while frames is None and wait:
            if not self._socket.poll(self._heartbeat_ms):
                self._send(Ping())
            frames = receive(self._socket)
        return frames

    def _on_message(self, frames: list[memoryview]) -> None:
        message = decode(frames[0])
        match message:
            case Batch():
                self._submit(message, frames[1:])
            case LoadWeights():
                self._load(message)
            case Goodbye():
                log.warning("the front does not know this connection: joining it again")
                self.say_ready()
            case Pong():
                pass
            case _:
                log.warning("the front sent %s: ignored", type(message).__name__)

    def _submit(self, batch: Batch, frames: Sequence[memoryview]) -> None:
        # Copies, because Numba treats read-only arrays as another type and would compile again.
        features = np.frombuffer(frames[0], np.uint64).reshape(batch.rows, self._feature_words).copy()
        counts = np.frombuffer(frames[1], np.uint16).copy()
        if self._masks is None:
            actions = np.frombuffer(frames[2], np.uint16).copy()
        else:
            masks = np.frombuffer(frames[2], np.uint8).reshape(batch.rows, -1).copy()
            actions = self._masks.lists(counts, masks)
        positions = (features, counts, actions)
        began = time.perf_counter()
        if batch.rows > self._network.max_rows:  # sent before the front knew that batches are smaller now
            self._answer(_Submitted(batch, positions, None, began), *self._network.run(*positions))
            return
        ticket = None
        with suppress(self._out_of_memory):
            ticket = self._network.submit(*positions)
        self._submitted.append(_Submitted(batch, positions, ticket, began))
        if ticket is None:  # not in an `except`, whose exception would keep the failed batch's memory
            self._halve()

    def _answer_oldest(self) -> None:
        answer = None
        with suppress(self._out_of_memory):
            answer = self._network.collect(self._submitted[0].ticket)
        if answer is None:
            self._halve()
        else:
            self._answer(self._submitted.popleft(), *answer)

    def _halve(self) -> None:
        """Recover from running out of device memory: make batches smaller, tell the front, and compute
        everything that was submitted again in parts. If even one row is too many, the process ends and other
        evaluators get its rows."""
        before = self._network.max_rows
        while True:
            self._network.halve()
            try:
                answers = [self._network.run(*one.positions) for one in self._submitted]
                break
            except self._out_of_memory:
                log.debug("%d rows are still too many", self._network.max_rows)
        self._say_smaller(before)
        for one, answer in zip(list(self._submitted), answers, strict=True):
            self._answer(one, *answer)
        self._submitted.clear()

    def _say_smaller(self, before: int) -> None:
        log.warning(
            "%s is short of memory: batches have at most %d rows from now on (before: %d). End other "
            "programs on the device, or choose a smaller --net",
            self._network.device_name,
            self._network.max_rows,
            before,
        )
        self.say_ready()

    def _answer(
        self, done: _Submitted, priors: npt.NDArray[np.float16], wdl: npt.NDArray[np.float32]
    ) -> None:
        now = time.perf_counter()
        busy, self._last_done = now - max(done.began, self._last_done), now
        self._send(BatchDone(done.batch.batch, done.batch.rows, self._version, busy), priors, wdl)

    def _load(self, message: LoadWeights) -> None:
        """Swap weights between two batches: batches already submitted are answered with the old weights."""
        while self._submitted:
            self._answer_oldest()
        described, before = self._described(), self._network.max_rows
        try:
            self._network.load(message.path, message.sha256)
        except self._bad_weights as error:
            log.warning("weights %d are refused: %s", message.version, error)
            self._send(WeightsRefused(message.version, str(error)[:2000]))
            return
        except OSError as error:  # the disk: the parent starts this process again
            what = f"weights {message.version} cannot be read at the moment: {error}"
            raise Fatal(what, Exit.DISK) from error
        self._version = message.version
        if self._network.max_rows < before:
            self._say_smaller(before)
        elif self._described() != described:
            self.say_ready()
        self._send(WeightsLoaded(message.version, message.sha256))

    def _described(self) -> tuple[int, str]:
        return self._network.target_rows, self._network.device_name

    def _send(self, message: Message, *frames: npt.NDArray[Any]) -> None:
        self._socket.send_multipart(
            [encode(message), *(np.ascontiguousarray(frame).data for frame in frames)]
        )


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m server.evaluator", description=__doc__)
    parser.add_argument("--endpoint", required=True, help="the front's endpoint for evaluators")
    parser.add_argument("--index", type=int, required=True, help="number of this evaluator")
    parser.add_argument("--device", required=True, help="cpu or cuda:N")
    parser.add_argument("--game", required=True)
    parser.add_argument("--history", type=int, required=True, help="positions in the features")
    parser.add_argument("--heartbeat", type=float, default=HEARTBEAT, help="seconds between signs of life")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of torch; 0: as torch likes")
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    return parser.parse_args(argv)


@dataclass(frozen=True)
class _Made:
    network: Network
    game: Game
    bad_weights: type[Exception]
    out_of_memory: type[Exception]


def make_network(options: argparse.Namespace) -> _Made:
    """Return the network without weights, its game, and the exceptions that `EvaluatorLoop` must know."""
    import torch

    from azselfplay.games import get_game
    from net.inference import Inference
    from net.weights import BadWeights

    if options.device != "cpu":
        there = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
        check_still_there(options.device, [torch.cuda.get_device_name(i) for i in there])
    game = get_game(options.game)
    try:
        network = Inference(
            game,
            options.history,
            options.device,
            threads=options.threads,
            in_flight=IN_FLIGHT,
        )
    except ValueError as error:
        raise Fatal(f"device {options.device} cannot be used: {error}", Exit.CONFIG) from error
    return _Made(network, game, BadWeights, torch.cuda.OutOfMemoryError)


def main() -> int:
    """Entry point of the process."""
    options = parse()
    logs.set_up(f"evaluator-{options.index}", form=options.log_format)
    made = make_network(options)
    mask_bytes = made.game.mask_bytes
    context = new_context()
    socket = dealer(context, options.endpoint, limit=FRAME_LIMIT)
    EvaluatorLoop(
        socket,
        made.network,
        made.game.feature_words(options.history),
        options.index,
        made.bad_weights,
        options.heartbeat,
        LegalMasks(mask_bytes) if mask_bytes else None,
        made.out_of_memory,
    ).run()
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(main))
