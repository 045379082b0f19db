"""Settings of azserver. No import here may be slow, because `--help` must be quick."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, Self

from msgspec import Meta

from azselfplay.games.names import DEFAULT_GAME, parts_of
from azselfplay.host import config, ports
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.weights_web import check_url
from net.architectures.registry import check_name, check_plays, is_sparse
from protocol.settings import Amount, BasePort, Count, Port, Seed, SelfPlaySettings, SomeSimulations

EXAMPLES = (
    "azserver --gpus 0,1                          # chess on two GPUs, with local workers",
    "azserver --game connect_four --gpus cpu      # a small game without a GPU",
    "azserver --gpus 0 --listen 0.0.0.0           # let other machines join (first: azserver keygen)",
)


@dataclass(frozen=True)
class GateConfig:
    """Which weights play, and the match that newer ones must win (docs/networks.md)."""

    mode: Literal["alphazero", "alphago_zero"] = "alphazero"
    """Which weights play: `alphazero`, the newest that the trainer published; `alphago_zero`, the best, which
    newer weights replace only by winning a match against them."""
    games: Annotated[int, Meta(ge=2)] = 400
    """Games of a match, rounded up to pairs (AlphaGo Zero: 400)."""
    share: Annotated[float, Meta(ge=0, lt=1)] = 0.55
    """Share of the points (0..1) that a candidate must exceed; a draw is half a point (AlphaGo Zero:
    0.55)."""
    simulations: SomeSimulations = 0
    """Simulations per move, 1 to 20000; 0 takes those of self-play (AlphaGo Zero: 1600, as in self-play)."""
    device: str = ""
    """Where the networks run: cpu, cuda:0; empty: the first evaluator's device, or cpu with a `sparse`
    network."""


NO_GPUS = "none"
"""For `--gpus`: clients play with evaluators of their own."""


@dataclass(frozen=True)
class ServerConfig:
    """Serves one run: evaluators, local self-play workers, clients and the trainer. `azserver doctor` with
    the same flags checks machine, run and ports. `azserver keygen`, `allow`, `keys` and `revoke` are for
    keys."""

    game: str = DEFAULT_GAME
    """The game to play; the names are at the top of `--help`."""
    board: str = ""
    """Board size, such as 9 or 2x4, of a game that has several; empty: the size in the game's name, or the
    usual one."""
    gpus: str = ""
    """Devices of the evaluators, one process each: `0,1` (GPU numbers), `cpu`, `cpu,cpu`; empty uses all
    GPUs but the last, which is the trainer's (if there is only one, they share it), or one cpu process.
    `none`: clients play with evaluators of their own. A `sparse` network needs none."""
    workers: Count | None = None
    """Local worker processes; not given: chosen by the number of cores. 0: only clients play."""
    games: Count = 0
    """Games in flight per worker process; 0 derives it from the batch sizes of the evaluators; 64 with a
    `sparse` network."""
    listen: str = "127.0.0.1"
    """Address to listen on for clients and the trainer; with 0.0.0.0, or :: for IPv6 as well, other machines
    can join, which then need keys (docs/security.md)."""
    keys: Path | None = None
    """Folder with this server's key and the list of allowed keys. Not given: ~/.config/azselfplay; no keys
    are needed on the loopback address."""
    insecure: bool = False
    """Listen beyond the loopback address without keys or encryption: anyone who can reach the ports may
    join."""
    port: BasePort = 5600
    """Base port, for leaves; the next port carries games and weights."""
    run: str = ""
    """Name of the run; empty: GAME-NET. An existing run is continued."""
    runs: Path = Path("runs")
    """Folder of all runs."""
    net: str = "small"
    """A new run's network: a preset such as tiny, small, medium, alphazero, or sizes such as 4x64 (blocks x
    channels), 6x96se (with squeeze-excitation); docs/networks.md has all."""
    weights: Path | None = None
    """Start a new run with this weights file, or with the newest network of this run, instead of an untrained
    one."""
    seed: Seed = 0
    """Seed of the untrained network."""
    cpu_threads: Count = 0
    """Threads of each CPU evaluator; 0 shares the cores evenly between them."""
    weights_url: str = ""
    """Address of a web server's folder with the files of the run's folder weights/, such as
    http://A:8000/ or a bucket's: clients fetch weights there, and from here only what is not there or has
    another SHA-256 (docs/many_machines.md). Empty: from here."""
    trainer_grace: Amount = 0.0
    """Seconds that a clean stop waits, after the workers have ended, for the last weights of a trainer that
    is stopping too; 0: it does not wait. azrun sets it."""
    metrics_port: Port = 0
    """Port of /metrics for Prometheus, /livez and /readyz (docs/metrics.md); 0: none."""
    metrics_listen: str = "127.0.0.1"
    """Address of that port; 0.0.0.0 lets other machines read it (no key, no encryption)."""
    web: Port = 0
    """Port of the web pages about this run, for browsers on this machine (docs/web.md); 0: none."""
    log_format: Literal["text", "json"] = "text"
    """Format of the log: `text` for people, or `json` with one object per line (docs/metrics.md)."""
    gate: GateConfig = field(default_factory=GateConfig)
    self_play: SelfPlaySettings = field(default_factory=SelfPlaySettings)
    """How games are played, by local workers and clients alike."""

    def check(self) -> Self:
        """Return the same settings, with the host of `listen` and its port apart. Raises Fatal(CONFIG) naming
        the setting that is wrong."""
        # Names first: what follows looks them up.
        for flag, check, value in (("--net", check_name, self.net), ("--game", parts_of, self.game)):
            try:
                check(value)
            except ValueError as error:
                raise Fatal(f"{flag}: {error}", Exit.CONFIG) from None
        if is_sparse(self.net):
            check_network_in_search(self.net, self.game)
        if self.insecure and self.keys is not None:
            raise Fatal("--insecure asks for no keys: leave out --keys, or --insecure", Exit.CONFIG)
        if self.weights_url:
            try:
                check_url(self.weights_url)
            except ValueError as error:
                raise Fatal(f"--weights-url: {error}", Exit.CONFIG) from None
        if not re.fullmatch(r"|cpu|cuda(:\d+)?", self.gate.device):
            raise Fatal(
                f"--gate.device: there is no device {self.gate.device!r}: give cpu or cuda:0", Exit.CONFIG
            )
        host, port = ports.parse_listen(self.listen, self.port)
        return replace(self, listen=host, port=port)


def load(argv: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> ServerConfig:
    """Return the checked settings of azserver. `argv` and `environment` are those of `config.load`."""
    return config.load(
        ServerConfig, argv, command="azserver", examples=EXAMPLES, environment=environment
    ).check()


def check_network_in_search(network: str, game: str) -> None:
    """Raise Fatal(CONFIG) if `game` cannot be played with this network, a part of the players' search."""
    from azselfplay.games import get_game  # slow

    try:
        check_plays(network, get_game(game))
    except ValueError as error:
        raise Fatal(f"--net: {error}", Exit.CONFIG) from None
