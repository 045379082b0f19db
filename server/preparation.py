"""What is needed before anyone can play: the locked run folder, weights, and compiled rules.

Anything that needs torch or compiles runs in a child process, so that the front stays small.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from azselfplay.games import Game, get_game
from azselfplay.games.jit import foreign_key_of
from azselfplay.host.aio import Stop
from azselfplay.host.config import to_toml
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.folders import own_folder
from azselfplay.host.hardware import Gpus, may_have_gpus
from azselfplay.host.ports import check_base_port
from azselfplay.host.processes import output_of
from azselfplay.host.reading import read_text
from azselfplay.host.runs import RunFolder, write_atomically
from azselfplay.link.finding import weights_named
from azselfplay.link.weights_files import read_weights
from azselfplay.search.warm import PREPARES
from net.architectures.registry import is_sparse
from protocol.messages import WeightsInfo
from protocol.settings import SelfPlaySettings, changed
from server.config import NO_GPUS, GateConfig, ServerConfig
from server.metrics import Preparing
from server.weights import WeightsStore

log = logging.getLogger("azserver")

FILE_MARK = "@"
"""If `start.positions` begins with this, it names a file."""


def warn_of_waiting_games(folder: RunFolder) -> None:
    """Warn if the server's own workers of an earlier start left games: only workers send them."""
    if count := sum(1 for _ in folder.spool.glob("*/worker-*/*.game")):
        log.warning(
            "%d games of earlier workers wait in %s: the next start with a worker sends them to the trainer",
            count,
            folder.spool,
        )


async def find_devices(gpus: str, stop: Stop) -> list[str]:
    """Return torch devices for `--gpus`. Raises Fatal as `choose_devices`."""
    # If no GPU can be meant, start no child: importing torch takes seconds.
    words = {word.strip() for word in gpus.split(",") if word.strip()}
    if words in ({"cpu"}, {NO_GPUS}) or not (words or may_have_gpus()):
        return choose_devices(gpus, Gpus((), ()))
    found = Gpus(*json.loads(await output_of("net.gpu", stop=stop)))
    devices = choose_devices(gpus, found)
    if not words and not found.usable:
        # The user has not chosen the CPU, and may not want it.
        log.warning("%s; evaluators run on the CPU (--gpus cpu: without this warning)", found.why)
    elif not words and len(found.usable) > 1:
        text = "the last of %d GPUs is left to the trainer; --gpus names those of azserver"
        log.info(text, len(found.usable))
    return devices


async def check_gate_device(gate: GateConfig, stop: Stop) -> None:
    """Raise Fatal as `find_devices` if the gate is to run on a GPU that does not exist."""
    if gate.mode == "alphago_zero" and gate.device.startswith("cuda"):
        try:
            await find_devices(gate.device.partition(":")[2] or "0", stop)
        except Fatal as error:
            found = str(error).rpartition("; ")[0] or error  # the rest is about --gpus
            raise Fatal(f"--gate.device {gate.device}: {found}", error.code) from error


def choose_devices(gpus: str, found: Gpus) -> list[str]:
    """Return `--gpus` as torch devices: `0,cpu` -> ["cuda:0", "cpu"]. An empty `gpus` means all usable GPUs
    but the last, which the trainer takes by default; a single GPU is used all the same. `none` means [], for
    a server whose players evaluate.

    Raises Fatal(CONFIG) for a GPU that does not exist, or a word that is neither a number nor `cpu`, and
    Fatal(TRY_AGAIN) for a GPU whose driver may come back.
    """
    words = [word.strip() for word in gpus.split(",") if word.strip()]
    if not words:
        return list(found.usable[:-1] or found.usable or ("cpu",))
    devices: list[str] = []
    if words == [NO_GPUS]:
        return devices
    for word in words:
        if word == "cpu":
            devices.append(word)
        elif not word.isdecimal():
            raise Fatal(
                f"--gpus {gpus}: give GPU numbers and the word cpu, separated by commas, or the word none "
                "alone; for example --gpus 0,1 or --gpus cpu",
                Exit.CONFIG,
            )
        elif not found.names:
            raise Fatal(f"GPU {word} is not there: {found.why}; without it: --gpus cpu", found.code)
        elif int(word) >= len(found.names):
            names = ", ".join(f"{index} ({name})" for index, name in enumerate(found.names))
            there_are = f"torch finds {names}; use one of them, or --gpus cpu"
            raise Fatal(f"GPU {word} does not exist: {there_are}", Exit.CONFIG)
        else:
            devices.append(f"cuda:{int(word)}")
    # Several evaluators on the CPU divide its cores; two on one GPU would only divide its memory.
    cuda = [device for device in devices if device != "cpu"]
    if len(set(cuda)) < len(cuda):
        raise Fatal(f"--gpus {gpus} names a GPU twice: give each once", Exit.CONFIG)
    return devices


class Beginning(NamedTuple):
    """What a run plays with at its start."""

    network: str
    """Its name."""
    file: Path | None = None
    """A new run's first weights; None: an untrained network is made."""
    step: int = 0
    """Their training step; unless it is 0, no trainer replaces them by an untrained network."""


async def network_of_run(config: ServerConfig, history: int, store: WeightsStore, stop: Stop) -> Beginning:
    """Open the store, and return what this run plays with: its current weights; in a new run those in
    `--weights`, or a new network as in `--net`. Raises Fatal(CONFIG) if `--weights` and `--net` contradict
    each other, Fatal(BAD_DATA) if the file cannot be used, and Stopped."""
    current = store.open()
    if current is not None:
        if config.weights is not None or config.net not in (ServerConfig.net, current.architecture):
            log.warning("the run goes on with its own network: --net and --weights are for new runs")
        return Beginning(current.architecture or config.net)
    if config.weights is None:
        return Beginning(config.net)
    file = weights_named(config.weights, config.runs)
    game = ("--game", config.game, "--history", str(history))
    output = await output_of("server.given_weights", *game, str(file), stop=stop)
    found = json.loads(output.splitlines()[-1])  # the package of a game may have printed something before
    if is_sparse(config.net) and not is_sparse(found["network"]):
        raise Fatal(
            f"--weights {config.weights} holds no network of the family `sparse`, and --net asks for "
            f"{config.net}: leave out --net, or --weights",
            Exit.CONFIG,
        )
    return Beginning(found["network"], file, found["step"])


async def first_weights(
    config: ServerConfig, history: int, begins: Beginning, store: WeightsStore, stop: Stop
) -> WeightsInfo:
    """Return the weights of the run; a new run gets those in `--weights`, or an untrained network. `begins`:
    from `network_of_run`, which has opened the store."""
    current = store.current
    if current is not None:
        log.info("weights %d (step %d) of %s", current.version, current.step, current.architecture)
        return current
    if begins.file is not None:
        log.info("this run begins with the weights in %s, of step %d", config.weights, begins.step)
        return store.add(read_weights(begins.file), 0, begins.step, begins.network)
    log.info("making an untrained network, %s", config.net)
    with own_folder() as folder:
        file = folder / "untrained.safetensors"
        await output_of(
            "net.create",
            *("--game", config.game, "--history", str(history), "--preset", config.net),
            *("--seed", str(config.seed), "--out", str(file)),
            stop=stop,
        )
        # Version 0: the weights that nobody has trained.
        return store.add(file.read_bytes(), 0, 0, config.net)


def with_start_positions(config: ServerConfig) -> SelfPlaySettings:
    """Return the settings of self-play, with the text of the file if `start.positions` is `@FILE`. Raises
    Fatal(CONFIG) if it cannot be read."""
    positions = config.self_play.start.positions
    if not positions.startswith(FILE_MARK):
        return config.self_play
    file = Path(positions.removeprefix(FILE_MARK))
    try:
        text = read_text(file)
    except (OSError, ValueError) as error:
        raise Fatal(
            f"the start positions in {file} cannot be read ({error}); "
            "name a text file with one position a line",
            Exit.CONFIG,
        ) from error
    return changed(config.self_play, {"start.positions": text})


async def compile_rules(game: Game, selection: str, network: str, preparing: Preparing, stop: Stop) -> None:
    """Fill the compiler's disk cache, unless it is filled. `selection`: from the self-play settings;
    `network`: its name if it is part of the search, else ""."""
    what = PREPARES % game.name
    log.info("%s", what)
    preparing.begin(what, time.monotonic())
    said = await output_of("client.warm", game.name, selection, network, stop=stop)
    preparing.end(time.monotonic())
    log.info("%s", said.strip())


@contextlib.contextmanager
def opened_run(config: ServerConfig, history: int, *, listens: bool = True) -> Iterator[RunFolder]:
    """Open or create the run folder, and lock it for this process. If this process `listens`, a new folder is
    created only while the ports are free; otherwise the folder's settings say port 0. A new folder is removed
    if the run is refused before it has a network. Raises Fatal as `check_base_port` does."""
    folder = RunFolder(config.runs, config.run or f"{config.game}-{config.net}")
    if listens and not folder.about.exists():
        check_base_port(config.listen, config.port)  # otherwise a port in use would leave an empty run
    with folder.removed_if_refused():
        folder.create(config.game, history)
        # Locked before anything is written: another azserver may work on this run.
        with folder.lock("azserver"):
            write_atomically(folder.config, to_toml(config if listens else replace(config, port=0)).encode())
            # run.json has the hash of a user's own game package, which may have changed since the last start.
            key, about = foreign_key_of(get_game(config.game).rules.play), folder.describe()
            if about.get("package", key) != key:
                log.warning(
                    "the package of %s has changed since run %s was last served: if its rules have, begin a "
                    "new run (--run NAME), because the games stored so far may break them",
                    config.game,
                    folder.name,
                )
            if key and about.get("package") != key:
                write_atomically(folder.about, json.dumps(about | {"package": key}, indent=1).encode())
            yield folder
