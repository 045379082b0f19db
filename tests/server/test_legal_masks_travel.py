"""Legal actions as masks, over sockets from players through front and evaluator and back."""

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from client_server import echo_priors
from front_bench import PATIENCE, Bench, inside, running_front
from ring_parts import EchoNetwork

from azselfplay.batching.loop import EvaluatorLoop
from azselfplay.games import get_game
from azselfplay.games.packed import LegalMasks
from azselfplay.link.connection import Connection
from azselfplay.link.sockets import new_context
from azselfplay.search.evaluator import evaluate
from client.remote_evaluator import RemoteEvaluator
from protocol.frames import LeafBatch
from protocol.messages import PROTOCOL_VERSION, Hello
from server.evaluator import FrontControl
from server.front import FrontSettings

GO = get_game("go")
ROWS = 50
WORDS = GO.feature_words(1)


class GoNetwork(EchoNetwork):
    """A network whose priors follow from the actions alone."""

    def load(self, path: str, sha256: bytes) -> None:
        """Accept any file."""

    def room_for(self, rows: int) -> np.ndarray:
        self._room = np.empty((rows, WORDS), np.uint64)
        return self._room

    def answers(self, batch: LeafBatch) -> Any:
        return echo_priors(batch.actions), np.tile(np.float32([1, 0, 0]), (batch.rows, 1))


def random_leaves(seed: int) -> LeafBatch:
    """Return positions whose legal actions are in random order, as after a symmetry."""
    rng = np.random.default_rng(seed)
    lists = [rng.permutation(GO.actions)[: rng.integers(1, GO.actions + 1)] for _ in range(ROWS)]
    counts = np.array([len(one) for one in lists], np.uint16)
    return LeafBatch(np.zeros((ROWS, WORDS), np.uint64), counts, np.concatenate(lists).astype(np.uint16))


@asynccontextmanager
async def go_front(tmp_path: Path) -> AsyncIterator[Bench]:
    """Run a front of Go with one evaluator."""

    def settings(usual: FrontSettings) -> FrontSettings:
        return dataclasses.replace(usual, game=GO)

    async with running_front(tmp_path, settings=settings) as bench:
        context = new_context()
        socket = context.socket(zmq.DEALER)
        socket.connect(bench.endpoints["evaluators"])
        ring, control = bench.front.settings.rings[0], FrontControl(socket, 0)
        loop = EvaluatorLoop(ring, GoNetwork(8, 64), GO, 1, control)
        thread = threading.Thread(target=_run, args=(loop,))
        thread.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await bench.front.one_up.wait()
                yield bench
        finally:
            bench.front.close()  # wakes the evaluator, which then finds its context closed
            context.destroy(0)
            thread.join()


def _run(loop: EvaluatorLoop) -> None:
    with suppress(zmq.ZMQError):  # its context may be closed
        loop.run()


@inside(go_front)
async def test_a_worker_gets_the_prior_of_each_action_where_it_asked_for_it(bench: Bench) -> None:
    """Requests are larger than a batch of the device."""
    connection = Connection(
        bench.context,
        bench.front.settings.leaves[0],
        Hello(PROTOCOL_VERSION, "client"),
        on_message=lambda message, frames: evaluator.on_evaluated(message, frames),  # type: ignore[arg-type]
        on_joined=lambda welcome: evaluator.joined(welcome),
    )
    evaluator = RemoteEvaluator(connection.send, masks=LegalMasks(GO.mask_bytes))
    running = asyncio.ensure_future(connection.run())
    for seed in range(3):
        batch = random_leaves(seed)
        answer = await evaluate(evaluator, batch)
        assert answer.priors.tolist() == echo_priors(batch.actions).tolist()
    running.cancel()
    evaluator.close()
