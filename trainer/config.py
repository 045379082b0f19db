"""Settings of `python -m trainer`. Imports nothing heavy: `--help` answers at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from net.architectures.registry import check_name
from runtime import ports
from runtime.exits import Exit, Fatal
from runtime.keys import dial_keys
from runtime.ports import Address, parse_address


@dataclass(frozen=True)
class OptimizerSettings:
    """How a training step is made."""

    kind: Literal["adamw", "alphazero"] = "adamw"
    """adamw for small nets and short runs; alphazero: SGD, momentum 0.9, the paper's schedule."""
    batch: int = 0
    """Positions in a step; 0: 256 for adamw, 4096 for alphazero (the paper's)."""
    lr: float = 0.0
    """Learning rate; 0: 0.001 for adamw, 0.2 for alphazero (dropping to 0.02, 0.002, 0.0002)."""
    weight_decay: float | None = None
    """As torch counts it; default 0.01 for adamw (filters and matrices), 0.0002 for alphazero (all): its
    c = 1e-4 on |theta|^2."""
    warmup_steps: int | None = None
    """Steps over which the rate rises from 0; default 30 for adamw (three times the memory of its mean;
    without it the first step can saturate the value head), 0 for alphazero."""
    grad_clip: float | None = None
    """Largest norm of the gradient, 0: unlimited; default 1 for adamw, 0 for alphazero."""
    cosine_steps: int = 0
    """For a run of known length: steps over which the rate falls to a tenth, along half a cosine, to stay
    there; 0: it does not fall (AlphaZero: factors of ten at 100,000, 300,000 and 500,000 steps)."""
    ema: float = 0.0
    """Decay of an average of the weights that is published in place of the newest ones, 0..1: 0.999 is a
    mean over about the last 1000 steps; 0: the newest weights (AlphaZero: 0; KataGo averages)."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Numbers of the forward and backward pass; weights, sums and losses are float32 in any case. auto takes
    bfloat16 where the device has instructions for it, which halves the time of a step (AlphaZero's TPUs: the
    same)."""

    def filled_in(self) -> OptimizerSettings:
        """The same with the values of its `kind` where none is set."""
        is_set = {name: getattr(self, name) is not None for name in _OF_KIND[self.kind]}
        is_set |= {"batch": self.batch > 0, "lr": self.lr > 0}
        return replace(self, **{name: one for name, one in _OF_KIND[self.kind].items() if not is_set[name]})


_OF_KIND: dict[str, dict[str, Any]] = {
    "adamw": {"batch": 256, "lr": 1e-3, "weight_decay": 1e-2, "warmup_steps": 30, "grad_clip": 1.0},
    "alphazero": {"batch": 4096, "lr": 0.2, "weight_decay": 2e-4, "warmup_steps": 0, "grad_clip": 0.0},
}


@dataclass(frozen=True)
class LossSettings:
    """The loss that training minimises."""

    value_weight: float = 1.0
    """Weight of the value loss; that of the policy loss is 1 (AlphaZero: 1; 2 cost one chess run 231 Elo)."""
    value_q_share: float = 0.0
    """Share, 0..1, of the search's root value in the value target, the rest being the outcome
    (AlphaZero: 0; others report: 0.2 makes no difference, 0.5 costs 25 Elo in Go, a little helps when games
    are few)."""
    win_discount: float = 1.0
    """Above 0, up to 1: the value target of a position k plies before the end of a won (lost) game is a win
    (loss) with probability win_discount ^ k, else a draw, so that value tells near wins from far ones and
    the search plays on to the end (AlphaZero: 1, all wins alike; 0.995 halves a win in 138 plies)."""
    capped_value_weight: float = 1.0
    """Weight in the value loss of positions whose game reached the length limit and was scored as a draw
    (AlphaZero: 1; 0.25 keeps many such games from teaching that everything is drawn)."""
    moves_left_weight: float = 0.0
    """Weight of an auxiliary loss: the plies left in the game (Huber, on plies / 20), predicted by a head
    that only teaches the network and is dropped in play; 0: no such head (AlphaZero: none; lc0: yes). Try
    0.1."""
    soft_policy_weight: float = 0.0
    """Weight of an auxiliary loss: a second policy, trained on the visits ^ (1 / 4), whose head is dropped
    in play. It teaches the network to tell unlikely moves apart; 0: no such head (AlphaZero: none; KataGo:
    8)."""
    policy_loss: Literal["legal", "all"] = "legal"
    """Softmax of the policy loss over the legal moves, as the search takes it (lc0), or over all actions
    (AlphaZero's published pseudocode)."""


@dataclass(frozen=True)
class WindowSettings:
    """The replay window."""

    positions: int = 500_000
    """Positions in the replay window (AlphaZero: those of the last 1,000,000 games)."""
    min_positions: int = 2000
    """Positions in the window before the first step."""
    key_share: float = 1.0
    """Part of the window, 0..1, that the games of one key may fill; what it plays beyond that is stored and
    not trained on. Where fewer players are at work than fill a window so, each may have an equal part. 1: no
    limit, as for keys of people you trust (AlphaZero: one player)."""
    workers_share: float = 0.0
    """Part of the window, 0..1, that all keys together leave to azserver's own workers while these play; 0:
    none (AlphaZero: all games are its own)."""
    growth: bool = False
    """Draw from fewer, newer positions at the beginning of a run: of N positions that ever came in, from
    the newest c (1 + 0.4 ((N / c) ^ 0.75 - 1) / 0.75) that fit in the window, c being `growth_min`
    (KataGo: yes, arXiv 1902.10565; AlphaZero: no)."""
    growth_min: int = 20_000
    """c of `growth`, positions: up to here all are drawn from (KataGo: 250,000)."""


@dataclass(frozen=True)
class SampleSettings:
    """Which positions are trained on, and how often."""

    per_position: float = 2.0
    """Times a position is trained on, on average (AlphaZero: 0.5-0.7; AlphaGo Zero: 1.4; KataGo: 4 or less).
    Plies without a full search and held-out games do not count. 4 learns most where games are short, and
    memorises the first games of chess (docs/decisions/0018). A change applies to games that come later."""
    surprise_share: float = 0.0
    """Share of the samples, 0..1, that are drawn within their game in proportion to KL(pi || P), which says
    how far the search disagreed with the network (KataGo: 0.5; AlphaZero: 0, all positions alike)."""
    symmetric: Literal["auto", "on", "off"] = "auto"
    """Train on samples through random symmetries of the board. auto: where the game has any, such as
    tic-tac-toe and Go (8) and Connect Four (2), but not chess (AlphaZero: no; AlphaGo Zero: 8 of Go)."""
    held_out: float = 0.02
    """Share of the games, 0..0.5, that are never trained on: at each publishing the loss on 1024 of their
    newest 8192 positions shows whether the network memorises its window; 0 trains on all
    (AlphaZero: 0). Which games they are is decided by a hash of the uid, the same after a restart."""
    stale_versions: int = 1000
    """A game is stored but not trained on when its newest weights are more than this many versions behind the
    newest in the store, such as a game that comes out of a spool after days. 0: train on all (AlphaZero: no
    such games). 1000 versions are 100,000 steps or 8 hours by default."""


@dataclass(frozen=True)
class PublishingSettings:
    """When weights go to the server, and checkpoints to disk."""

    steps: int = 100
    """Steps after which weights are published (AlphaZero: 1000)."""
    seconds: float = 30.0
    """Seconds after which weights are published, if there was a step."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints; one more is written at the end."""
    keep_checkpoints: int = 3
    """How many checkpoints are kept; the oldest are deleted."""
    known_positions: int = 100
    """Where a game is solved (tic-tac-toe, Connect Four, small boards of dots-and-boxes and Go): positions of
    each group in which the new network's policy is counted right or wrong, which takes milliseconds and
    changes nothing; 0: none (AlphaZero: none)."""


@dataclass(frozen=True)
class PlayersSettings:
    """Whose visits no search gives, looked for now and then (docs/players.md)."""

    check_share: float = 0.0
    """Share of the new positions, 0..1, that are searched again to find made-up visits; 0.001 is a good
    measure, 0: none. Each costs two searches on this machine, at low priority (AlphaZero: none)."""
    check_seconds: float = 3600.0
    """Seconds between two checks; a check of fewer than 100 positions waits for the next time."""
    server_folder: Path | None = None
    """Folder of azserver's run, with config.toml and weights/, if it is not this run's folder."""


@dataclass(frozen=True)
class TrainerConfig:
    """Which game, which history and how games are played comes from the server."""

    server: str = "127.0.0.1:5600"
    """HOST or HOST:PORT of azserver (its base port)."""
    server_key: str = ""
    """The server's public key, where it asks for keys: azserver prints it at its start."""
    key: Path | None = None
    """File of this trainer's key (azclient keygen --trainer); None: ~/.config/azselfplay/trainer.key."""
    run: str = ""
    """Name of the run folder; empty: the server's name for the run."""
    runs: str = "runs"
    """Folder of all run folders."""
    net: str = ""
    """A new network: a preset such as tiny, small, medium, alphazero, or sizes such as 4x64 (blocks x
    channels), 6x96se (with squeeze-excitation), docs/networks.md has all; empty: the server's. A run that
    has a checkpoint goes on with its own."""
    weights: str = ""
    """What a run without a checkpoint begins with: a weights file or a run; the word server, to go on from
    the weights that the server plays with and a new optimizer; or the word new, for a new network even if it
    replaces trained weights of the server, which is refused otherwise."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    cpu_threads: int = 0
    """Threads of torch; 0: half of the machine's cores."""
    seed: int = 0
    """Seed of a new network and of the draws from the window."""
    metrics_port: int = 0
    """Port of /metrics for Prometheus, /livez and /readyz (docs/metrics.md); 0: none."""
    metrics_listen: str = "127.0.0.1"
    """Address of that port; 0.0.0.0 lets other machines read it (no key, no encryption)."""
    log_format: Literal["text", "json"] = "text"
    """Lines of the log: for people, or one JSON object a line (docs/metrics.md)."""
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    window: WindowSettings = field(default_factory=WindowSettings)
    samples: SampleSettings = field(default_factory=SampleSettings)
    publishing: PublishingSettings = field(default_factory=PublishingSettings)
    players: PlayersSettings = field(default_factory=PlayersSettings)

    def check(self) -> TrainerConfig:
        """The same settings, or Fatal(CONFIG) naming the one that is out of range."""
        try:
            check_name(self.net or "tiny")
        except ValueError as error:
            raise Fatal(f"--net: {error}", Exit.CONFIG) from None
        for path, (low, high) in _RANGES.items():
            if not low <= attrgetter(path)(self) <= high:
                upto = f"in {low:g}..{high:g}" if high < math.inf else f"at least {low:g}"
                raise Fatal(f"--{path.replace('_', '-')} must be {upto}", Exit.CONFIG)
        for path in ("samples.per_position", "loss.win_discount"):
            if attrgetter(path)(self) == 0:
                raise Fatal(f"--{path.replace('_', '-')} must be more than 0", Exit.CONFIG)
        if self.optimizer.ema == 1:
            raise Fatal("--optimizer.ema must be less than 1: the average would never move", Exit.CONFIG)
        if self.window.min_positions > self.window.positions:
            raise Fatal(
                f"--window.min-positions {self.window.min_positions} can never be reached in a window of "
                f"--window.positions {self.window.positions}",
                Exit.CONFIG,
            )
        return self

    def address(self) -> Address:
        """Of the server. Raises Fatal(CONFIG) for a bad one."""
        return replace(parse_address(self.server), keys=dial_keys(self.server_key, self.key, "trainer"))


_RANGES = {
    "metrics_port": ports.NUMBERS,
    **dict.fromkeys(("window.positions", "window.growth_min"), (1, math.inf)),
    **dict.fromkeys(("publishing.steps", "publishing.keep_checkpoints"), (1, math.inf)),
    **dict.fromkeys(("optimizer.batch", "optimizer.lr", "optimizer.cosine_steps"), (0, math.inf)),
    **dict.fromkeys(("window.min_positions", "cpu_threads"), (0, math.inf)),
    **dict.fromkeys(
        ("publishing.seconds", "publishing.known_positions", "samples.stale_versions"), (0, math.inf)
    ),
    **dict.fromkeys(("loss.moves_left_weight", "loss.soft_policy_weight"), (0, math.inf)),
    "samples.per_position": (0, math.inf),
    **dict.fromkeys(("loss.value_q_share", "loss.capped_value_weight", "loss.win_discount"), (0, 1)),
    **dict.fromkeys(("samples.surprise_share", "optimizer.ema"), (0, 1)),
    "players.check_share": (0, 1),
    "players.check_seconds": (1, math.inf),
    **dict.fromkeys(("window.key_share", "window.workers_share"), (0, 1)),
    "samples.held_out": (0, 0.5),
}
"""Lowest and highest value."""
_LEAVES = ("batch", "lr", "weight_decay", "warmup_steps", "grad_clip", "cosine_steps", "ema", "precision")
MOVED = {
    "begin_anew": "weights",
    "optimizer": "optimizer.kind",
    **{name: f"optimizer.{name}" for name in _LEAVES},
    **{one.name: f"loss.{one.name}" for one in fields(LossSettings)},
    **{f"window_{name}": f"window.{name}" for name in ("positions", "growth")},
    "window_min": "window.growth_min",
    "min_positions": "window.min_positions",
    "samples_per_position": "samples.per_position",
    **{name: f"samples.{name}" for name in ("surprise_share", "symmetric", "held_out", "stale_versions")},
    **{f"publish_{name}": f"publishing.{name}" for name in ("steps", "seconds")},
    **{name: f"publishing.{name}" for name in ("checkpoint_seconds", "keep_checkpoints")},
}
"""Old names of settings: `runtime.config.load`."""
