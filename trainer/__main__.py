"""`python -m trainer`: reads the flags first, and imports everything heavy afterwards."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from azselfplay.host import config as settings
from azselfplay.host.exits import (
    Exit,
    as_fatal,
    check_that_nothing_hides_our_packages,
    guarded,
    leave_at_once,
    require,
)
from azselfplay.host.folders import check_folders

if TYPE_CHECKING:
    from trainer.config import TrainerConfig

EXAMPLES = (
    "python -m trainer                                  # train for the azserver on this machine",
    "python -m trainer --server gpu-box --device cuda   # for an azserver on another machine, on this GPU",
    "python -m trainer --device cuda:0,cuda:1           # on two GPUs, which share each batch",
    "python -m trainer --run chess-1 --optimizer.batch 1024 --window.positions 2000000",
)


def load(argv: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> TrainerConfig:
    """Return the settings of this process, checked, so that a wrong setting ends it before any work begins.
    `argv` and `environment` are as for `config.load`."""
    with as_fatal(ImportError, Exit.CONFIG):
        # `python -m` looks for modules in the current folder first.
        check_that_nothing_hides_our_packages()
    from trainer.config import TrainerConfig

    return settings.load(
        TrainerConfig, argv, command="python -m trainer", examples=EXAMPLES, environment=environment
    ).check()


def _main() -> int:
    config = load()
    require("train", "the trainer")
    check_folders(Path(config.runs), "--runs")
    # Imported only now: torch and numba take seconds, and --help needs neither.
    from azselfplay.host import aio, logs
    from azselfplay.store.archive import open_archive
    from protocol.messages import PROTOCOL_VERSION, Hello
    from trainer.ranks import Ranks, place_of
    from trainer.service import Service
    from trainer.train_step import choose_device

    given, place = config, place_of(config, os.environ)
    config = place.config
    for device in place.devices:
        choose_device(device)  # before it joins, because the server may come much later
    if not place.rank:
        open_archive(config.archive, Path(config.runs))
    logs.set_up(f"trainer rank {place.rank}" if place.rank else "trainer", form=config.log_format)
    ranks = Ranks()
    if place.ranks > 1:
        from trainer.gang import Gang, follow

        ranks = gang = Gang.of_children(place) if place.starts_others else Gang.from_environment(place)
        if place.rank:
            follow(gang, config)
            return 0
        ranks.given = given
    name = f"{socket.gethostname()}:{os.getpid()}"
    hello = Hello(PROTOCOL_VERSION, "trainer", name, secret=secrets.token_bytes(32))

    async def run(stop: aio.Stop) -> None:
        await Service(config, hello, ranks).main(stop)

    aio.run(run)
    return 0


if __name__ == "__main__":
    # A thread that waits for a lost rank, or reads an archive back, would delay the end for minutes or hours.
    leave_at_once(guarded(_main))
