"""Weights in a simulation: a trainer publishes random bytes, evaluators and players use them.

The real code is `trainer.weights`, the front's `server.bulk` and WeightsStore on real files, and
the players' WeightsDownloader. Promise P6: the bytes of weights in use are those that were announced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ring_parts import GAME

from azselfplay.link.weights_downloader import WeightsDownloader
from azselfplay.link.weights_files import in_cache
from protocol.messages import CHUNK, LoadWeights, WeightsInfo, WeightsLoaded, WeightsRefused
from protocol.records import sha256
from trainer.config import PublishingSettings, TrainerConfig
from trainer.weights import WeightsOut

if TYPE_CHECKING:
    from simulated_parts import SimulatedClient, SimulatedTrainer
    from simulation import World

SIZES = (1000, CHUNK, CHUNK + 1000)
"""Bytes of weights files: one chunk, and two."""
BAD = 26
"""Weights whose hash begins with a byte below this are refused by every evaluator: one file in ten."""


class SimulatedTraining:
    """Replaces `trainer.training_loop.Training`: one step a second, and random bytes as weights."""

    has_checkpoint = True
    architecture = "tiny"

    def __init__(self, world: World) -> None:
        self.step = 0
        self._world = world
        self._version = 0

    def export_weights(self, server_version: int) -> tuple[int, int, bytes]:
        rng = self._world.rng
        self._version = max(self._version, server_version) + 1
        data = rng.randbytes(rng.choice(SIZES))
        self._world.ledger.published[sha256(data)] = self._version
        return self._version, self.step, data


class Publishing:
    """Does what `trainer.service` does with weights, for a simulated trainer."""

    def __init__(self, world: World, trainer: SimulatedTrainer) -> None:
        self._world = world
        no_games = SimpleNamespace(newest_version=0)
        self._run: Any = SimpleNamespace(training=SimulatedTraining(world), game=GAME, committer=no_games)
        publishing = PublishingSettings(seconds=world.plan.publish_seconds, steps=10**9)
        figures: Any = SimpleNamespace(weights_version=0, on_weights=lambda _: None)
        config = TrainerConfig(publishing=publishing)
        self.out = WeightsOut(config, trainer.connection, figures, self)

    async def run(self) -> None:
        loop, training = asyncio.get_running_loop(), self._run.training
        self.out.begin(0, loop.time())
        while True:
            await asyncio.sleep(1.0)
            training.step += 1
            self.out.tick(loop.time())
            if loop.time() < self._world.plan.seconds:
                turn: Any = SimpleNamespace(step=training.step, version=None)
                await self.out.publish_if_due(self._run, turn)

    async def in_training_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)

    async def save(self, _run: object) -> bool:
        """There is a checkpoint from the start."""
        return True

    def wake(self) -> None:
        """Does nothing: training checks every second."""


def loaded(world: World, message: LoadWeights) -> WeightsLoaded | WeightsRefused:
    """Return an evaluator's answer: it accepts weights unless they are bad."""
    if is_bad(message.sha256):
        return WeightsRefused(message.version, "bad weights")
    info = SimpleNamespace(version=message.version, sha256=message.sha256)
    world.ledger.uses("an evaluator", info, Path(message.path).read_bytes())
    return WeightsLoaded(message.version, message.sha256)


def is_bad(digest: bytes) -> bool:
    return digest[0] < BAD


def downloader(world: World, client: SimulatedClient) -> WeightsDownloader:
    """Return the downloader of a player with a local network."""

    def load(path: Path, info: WeightsInfo) -> str:
        world.ledger.uses(client.name, info, path.read_bytes())
        return ""

    folder = world.folder / "nets" / client.name
    return WeightsDownloader(in_cache(folder, load), client.bulk.send, world.kinds.pull())
