"""Runs to be looked at in a browser, and the pages that show them."""

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from aiohttp import ClientTimeout
from aiohttp.test_utils import TestClient, TestServer
from games_runs import records
from report_runs import whole_run

from azselfplay.games import get_game
from azselfplay.lab.web.app import SITE, make_app, open_site
from azselfplay.link.weights_files import short_hash
from net import weights
from net.architectures.network import build
from net.architectures.registry import named

JSON = {"Content-Type": "application/json"}


def run_with_games(runs: Path, game: str, name: str = "a-run", games: int = 6) -> Path:
    """Make a run with figures and games, and two networks."""
    folder = whole_run(runs / name, game, records(game, games, versions=(1, 2)))
    for version in (1, 2):
        file = folder / "weights" / "new"
        digits = save_net(file, game, version)
        file.rename(file.with_name(f"{version:06d}-{short_hash(digits)}.safetensors"))
    return folder


def save_net(file: Path, game: str, step: int) -> str:
    """Save an untrained network of the smallest kind, which only its step determines. Return its sha256,
    hexadecimal."""
    about, architecture = get_game(game), named("1x8")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(step)
        module = build(architecture, about, about.history).eval()
    return weights.save(file, module, weights.WeightsMeta(game, about.history, architecture, step))


@asynccontextmanager
async def pages(runs: Path, listen: str = "127.0.0.1") -> AsyncIterator[TestClient[Any, Any]]:
    """Yield a client of the pages about `runs`."""
    patience = ClientTimeout(1000)  # a game's rules are compiled meanwhile
    async with (
        open_site(runs) as site,
        TestClient(TestServer(make_app(site, listen)), timeout=patience) as client,
    ):
        assert client.app is not None
        assert client.app[SITE] is site
        yield client
        await site.watching.close()


def with_client(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Run a test with a client of the pages about the runs in its fixture `runs`, or else `tmp_path`."""

    @wraps(test)
    async def run(**fixtures: Any) -> None:
        async with pages(fixtures.get("runs", fixtures.get("tmp_path"))) as client:
            await test(client, **fixtures)

    # Without the first parameter: pytest has no fixture for the client.
    signature = inspect.signature(test)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])
    return run


async def got(client: TestClient[Any, Any], path: str, status: int = 200) -> Any:
    """Return the JSON at a path."""
    async with client.get(path) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def ordered(client: TestClient[Any, Any], path: str, body: object, status: int = 200) -> Any:
    """Return the answer to an order."""
    async with client.post(path, json=body) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def next_event(answer: Any) -> Any:
    """Return the next figures of a stream of events."""
    while not (line := await answer.content.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return json.loads(line.removeprefix(b"data: "))
