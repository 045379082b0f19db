"""Settings of `python -m trainer`. Imports nothing heavy, so that `--help` answers at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from azselfplay.host.exits import Exit, Fatal, as_fatal
from azselfplay.host.hardware import named_devices, usable_cores
from azselfplay.host.ports import Address, parse_address
from azselfplay.link.keys import dial_keys
from net.architectures.registry import TRAINING_HEADS, check_name
from protocol.settings import Amount, Count, Fraction, Port, Positive, Seed, converted


@dataclass(frozen=True)
class OptimizerSettings:
    """The optimizer of a training step."""

    kind: Literal["adamw", "alphazero"] = "adamw"
    """adamw for small nets and short runs; alphazero: SGD, momentum 0.9, the paper's schedule."""
    batch: Count = 0
    """Positions in a step; 0: 256 for adamw, 4096 for alphazero (the paper's)."""
    lr: Amount = 0.0
    """Learning rate; 0: 0.001 for adamw, 0.2 for alphazero (dropping to 0.02, 0.002, 0.0002)."""
    weight_decay: Amount | None = None
    """As torch defines it; default 0.01 for adamw (convolutions and matrices only), 0.0002 for alphazero (all
    weights; the same as the paper's c = 1e-4 on |theta|^2)."""
    warmup_steps: Count | None = None
    """Steps over which the learning rate rises from 0; default 30 for adamw (without it, the first step can
    saturate the value head), 0 for alphazero."""
    grad_clip: Amount | None = None
    """Largest norm of the gradient, 0: unlimited; default 1 for adamw, 0 for alphazero."""
    cosine_steps: Count = 0
    """For a run of known length: steps over which the learning rate falls along half a cosine to a tenth,
    where it stays; 0: it does not fall (AlphaZero: by ten at 100,000, 300,000 and 500,000 steps)."""
    cosine_minutes: Amount = 0.0
    """Instead of `cosine_steps`, for a run of known time: minutes over which the rate falls in that way, by
    the clock, while a trainer runs. (A recipe that ends by processor time, `clock = "cores"`, ends later on a
    busy machine.) 0: by steps, or not at all (AlphaZero: by steps)."""
    ema: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Decay, 0..1, of a moving average of the weights, which is published in place of the newest ones: 0.999
    averages about the last 1000 steps; 0: the newest weights (AlphaZero: 0; KataGo averages)."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format of the forward and backward pass, except a sparse network's; weights, sums and losses are
    always float32. auto takes bfloat16 where the device computes faster in it, up to twice as fast (as on
    AlphaZero's TPUs)."""

    sync_norm: bool = False
    """With several devices: batch normalisation over the whole batch, and not over each device's part of it.
    The same numbers as with one device, but slower steps."""

    def filled_in(self) -> OptimizerSettings:
        """Return the settings with missing values replaced by those of its `kind`."""
        is_set = {name: getattr(self, name) is not None for name in _OF_KIND[self.kind]}
        # 0 is no possible value of these two, so it stands for "not given".
        is_set |= {"batch": self.batch > 0, "lr": self.lr > 0}
        return replace(self, **{name: one for name, one in _OF_KIND[self.kind].items() if not is_set[name]})


_OF_KIND: dict[str, dict[str, Any]] = {
    "adamw": {"batch": 256, "lr": 1e-3, "weight_decay": 1e-2, "warmup_steps": 30, "grad_clip": 1.0},
    "alphazero": {"batch": 4096, "lr": 0.2, "weight_decay": 2e-4, "warmup_steps": 0, "grad_clip": 0.0},
}


@dataclass(frozen=True)
class LossSettings:
    """The loss that training minimises."""

    value_weight: Amount = 1.0
    """Weight of the value loss; that of the policy loss is 1 (AlphaZero: 1; 2 cost one chess run 231 Elo)."""
    value_q_share: Fraction = 0.0
    """Share, 0..1, of the search's root value in the value target, the rest being the outcome
    (AlphaZero: 0; others report that 0.2 makes no difference, that 0.5 costs 25 Elo in Go, and that a little
    helps when games are few)."""
    win_discount: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Above 0, up to 1: the value target of a position k plies before the end of a won (lost) game is a win
    (loss) with probability win_discount ^ k, else a draw; a resigned game goes on from the value at its end.
    The value then tells near wins from far ones, and the search finishes its games (AlphaZero: 1, all wins
    alike; 0.995 halves a win in 138 plies)."""
    capped_value_weight: Fraction = 1.0
    """Weight in the value loss of positions whose game reached the length limit and was scored as a draw
    (AlphaZero: 1; with 0.25, many such games do not teach that everything is a draw)."""
    heads: str = ""
    """Weights of auxiliary heads by name, each above 0 and separated by commas. They teach the body and do
    not play. There is `ownership`: who owns each point at the end, in Go (`ownership:0.5`), which `azplay
    gtp` then also tells. Empty: none (AlphaZero)."""

    @property
    def head_weights(self) -> dict[str, float]:
        """The weights in `heads` by name, in the order of TRAINING_HEADS. Raises ValueError."""
        found: dict[str, float] = {}
        for one in filter(None, self.heads.replace(" ", "").split(",")):
            name, _, weight = one.partition(":")
            if name not in TRAINING_HEADS:
                raise ValueError(f"there is no head {name!r}; there are {', '.join(TRAINING_HEADS)}")
            if name in found:
                raise ValueError(f"the head {name} is there twice")
            try:
                found[name] = converted(weight, Annotated[float, Meta(gt=0)], strict=False)
            except ValueError as error:
                raise ValueError(f"the weight of {name} {error}, as in ownership:0.5") from None
        # In one order, so that the same settings make the same network.
        return {name: found[name] for name in TRAINING_HEADS if name in found}


@dataclass(frozen=True)
class WindowSettings:
    """The replay window."""

    positions: Positive = 500_000
    """Positions in the replay window (AlphaZero: those of the last 1,000,000 games)."""
    min_positions: Count = 2000
    """Positions in the window before the first step."""
    growth: bool = False
    """Begin with a small window that grows: once N positions have come in, draw from the newest
    c (1 + 0.4 ((N / c) ^ 0.75 - 1) / 0.75) of them, at most `positions`, where c is `growth_min` (KataGo:
    yes, arXiv 1902.10565; AlphaZero: no)."""
    growth_min: Positive = 20_000
    """c of `growth`, in positions: the first c positions are all drawn from (KataGo: 250,000)."""


@dataclass(frozen=True)
class SampleSettings:
    """Which positions are trained on, and how often."""

    per_position: Annotated[float, Meta(gt=0, le=1000)] = 2.0
    """How often a position is trained on, on average (AlphaZero: 0.5-0.7; AlphaGo Zero: 1.4; KataGo: 4 or
    less). Plies without a search and held-out games do not count. With 4, short games are learned
    fastest, but in chess the network memorises the first games (docs/decisions/0018). A change applies to
    later games."""
    surprise_share: Fraction = 0.0
    """Share of the samples, 0..1, that are drawn within their game in proportion to KL(pi || P), that is,
    to how far the search disagreed with the network (KataGo: 0.5; AlphaZero: 0, all positions alike)."""
    wins_share: Fraction = 0.0
    """Share of the samples, 0..1, that are positions one move beside the stored games in which the side to
    move wins at once. Only the policy is learned there: the winning moves, evenly. Games contain few such
    positions, because each ends a game (AlphaZero: 0). They count for `per_position`: with 0.1, a position of
    a game is trained on 0.9 times as often. docs/decisions/0058."""
    imported_share: Fraction = 0.0
    """Share of the samples, 0..1, from games that `azplay games RUN import` has stored. The move played is
    the policy target, the game's result the value. Above 0, training begins with them alone, `per_position`
    times each: a warm start. Then they count for `per_position`: with 0.2, a position of self-play is
    trained on 0.8 times as often. 0: they are not used (AlphaZero: none; AlphaGo began so)."""
    symmetric: Literal["auto", "off"] = "auto"
    """Train on samples through random symmetries of the board. auto: where the game has any, such as
    tic-tac-toe and Go (8) and Connect Four (2), but not chess (AlphaZero: no; AlphaGo Zero: 8 of Go)."""
    held_out: Annotated[float, Meta(ge=0, le=0.5)] = 0.02
    """Share of the games, 0..0.5, that are never trained on: at each publishing the loss on 1024 of their
    newest 8192 positions shows whether the network memorises its window; 0 trains on all
    (AlphaZero: 0). A hash of a game's uid decides, so the choice is the same after a restart."""
    stale_versions: Count = 1000
    """A game is stored but not trained on if its newest weights are more than this many versions behind the
    newest in the store, for instance after days in a spool. 0: train on all games (AlphaZero: no such
    games). By default 1000 versions are at most 100,000 steps or 8 hours."""


@dataclass(frozen=True)
class PublishingSettings:
    """When weights go to the server, and checkpoints to disk."""

    steps: Positive = 100
    """Steps after which weights are published (AlphaZero: 1000)."""
    seconds: Amount = 30.0
    """Seconds after which weights are published, if there was a step."""
    half: bool = False
    """Whether players get weights in float16: half the bytes for each of them. Checkpoints stay in
    float32."""
    checkpoint_seconds: Amount = 60.0
    """Seconds between two checkpoints; one more is written at the end."""


@dataclass(frozen=True)
class TrainerConfig:
    """Takes finished games, stores them, trains the network and publishes its weights. The server sets the
    game, its history and how games are played."""

    server: str = "127.0.0.1:5600"
    """HOST or HOST:PORT of azserver (its base port)."""
    server_key: str = ""
    """The server's public key, if the server uses keys: azserver prints it at its start."""
    key: Path | None = None
    """File of this trainer's key (azclient keygen --trainer); not given: ~/.config/azselfplay/trainer.key."""
    run: str = ""
    """Name of the run folder; empty: the server's name for the run."""
    runs: str = "runs"
    """Folder of all run folders."""
    archive: str = ""
    """Folder on another disk or machine, or a bucket (s3://BUCKET/RUN, gs://, az://), for a second copy of
    games and checkpoints: a game is acknowledged once both have it, and a trainer that has lost its disk goes
    on from there. Empty: none."""
    keep_games: Count = 0
    """Number of newest games that keep their moves in games.db, for a disk that would fill up; it must exceed
    the games of the window. Of older self-play only results stay. 0: all games."""
    net: str = ""
    """A new network: a preset such as tiny, small, medium, alphazero, or sizes such as 4x64 (blocks x
    channels), 6x96se (with squeeze-excitation); docs/networks.md lists all; empty: as the server's. A run
    with a checkpoint keeps its own."""
    weights: str = ""
    """Initial weights of a run without a checkpoint: a weights file; the newest network of another run;
    `server`, the weights that the server plays with; or `new`, an untrained network, even if it replaces
    weights that the run has trained, which is refused otherwise."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N. Several, such as cuda:0,cuda:1, share each batch: the trainer starts a
    process for each (docs/operate.md)."""
    cpu_threads: Count = 0
    """CPU threads of torch and of the sampler; 0: half of the cores that this process may use."""
    seed: Seed = 0
    """Seed of a new network and of the positions drawn from the window."""
    metrics_port: Port = 0
    """Port of /metrics for Prometheus, /livez and /readyz (docs/metrics.md); 0: none."""
    metrics_listen: str = "127.0.0.1"
    """Address of that port; 0.0.0.0 lets other machines read it (no key, no encryption)."""
    log_format: Literal["text", "json"] = "text"
    """Format of the log: `text` for people, or `json` with one object per line (docs/metrics.md)."""
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    window: WindowSettings = field(default_factory=WindowSettings)
    samples: SampleSettings = field(default_factory=SampleSettings)
    publishing: PublishingSettings = field(default_factory=PublishingSettings)

    def check(self) -> TrainerConfig:
        """Return the same settings. Raises Fatal(CONFIG) naming settings that do not go together."""
        with as_fatal(ValueError, Exit.CONFIG, "--net: "):
            # Empty means the server's, which is known only later.
            check_name(self.net or "tiny")
        with as_fatal(ValueError, Exit.CONFIG, "--loss.heads: "):
            # Read for its error: it is a text with a form of its own.
            _ = self.loss.head_weights
        is_folder = bool(self.archive) and "://" not in self.archive
        if is_folder and Path(self.archive).resolve().is_relative_to(Path(self.runs).resolve()):
            text = "would be lost with them: name a folder on another disk or machine"
            raise Fatal(f"--archive {self.archive} is among the runs ({self.runs}) and {text}", Exit.USAGE)
        with as_fatal(ValueError, Exit.CONFIG, f"--device {self.device}: "):
            names = self.devices
        # NCCL sums between GPUs only.
        if "cpu" in names and set(names) != {"cpu"}:
            raise Fatal(f"--device {self.device}: give either GPUs, or cpu for each process", Exit.CONFIG)
        if self.optimizer.cosine_steps and self.optimizer.cosine_minutes:
            raise Fatal(
                "--optimizer.cosine-steps and --optimizer.cosine-minutes both say when the learning rate "
                "falls: leave out one",
                Exit.CONFIG,
            )
        if self.window.min_positions > self.window.positions:
            raise Fatal(
                f"--window.min-positions {self.window.min_positions} can never be reached in a window of "
                f"--window.positions {self.window.positions}",
                Exit.CONFIG,
            )
        return self

    @property
    def devices(self) -> list[str]:
        """The names in `device`. Raises ValueError if `check` refuses it."""
        return named_devices(self.device, "auto", "cuda")

    def threads(self, ranks: int = 1) -> int:
        """Return the CPU threads of each of the ranks on this machine: as set, or together half of the cores,
        because the other half plays."""
        return self.cpu_threads or max(1, usable_cores() // 2 // ranks)

    def address(self) -> Address:
        """Address of the server. Raises Fatal(CONFIG) for an invalid one."""
        return replace(parse_address(self.server), keys=dial_keys(self.server_key, self.key, "trainer"))
