"""Settings of `python -m trainer`. Imports nothing heavy: `--help` answers at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from net.architectures.registry import check_name
from runtime.exits import Exit, Fatal
from runtime.ports import Address, parse_address


@dataclass(frozen=True)
class TrainerConfig:
    """Which game, which history and how games are played comes from the server."""

    server: str = "127.0.0.1:5600"
    """HOST or HOST:PORT of azserver (its base port)."""
    run: str = ""
    """Name of the run folder; empty: the server's name for the run."""
    runs: str = "runs"
    """Folder of all run folders."""
    net: str = ""
    """A new network: a preset such as tiny, small, medium, alphazero, or sizes such as 4x64 (blocks x
    channels), 6x96se (with squeeze-excitation), docs/networks.md has all; empty: the server's. A run that
    has a checkpoint goes on with its own."""
    weights: str = ""
    """Weights file to begin with, when the run has no checkpoint yet; the word server: those that the server
    plays with, so that training goes on from them with a new optimizer."""
    begin_anew: bool = False
    """Begin with a new network, which replaces the server's trained weights, where the run folder has no
    checkpoint; without this the trainer refuses. Changes nothing where there is a checkpoint."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    cpu_threads: int = 0
    """Threads that torch computes with; 0: half of the machine's cores."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Numbers of the forward and backward pass; weights, sums and losses are float32 in any case. auto takes
    bfloat16 where the device has instructions for it, which halves the time of a step (AlphaZero's TPUs: the
    same)."""
    optimizer: Literal["adamw", "alphazero"] = "adamw"
    """adamw for small nets and short runs; alphazero: SGD, momentum 0.9, the paper's schedule."""
    batch: int = 0
    """Positions in a step; 0: 256 for adamw, 4096 for alphazero (the paper's)."""
    lr: float = 0.0
    """Learning rate; 0: 0.001 for adamw, 0.2 for alphazero (dropping to 0.02, 0.002, 0.0002)."""
    weight_decay: float | None = None
    """As torch counts it; default 0.01 for adamw (filters and matrices), 0.0002 for alphazero (all)."""
    warmup_steps: int | None = None
    """Steps over which the rate rises; default 30 for adamw, 0 for alphazero."""
    grad_clip: float | None = None
    """Largest norm of the gradient, 0: unlimited; default 1 for adamw, 0 for alphazero."""
    cosine_steps: int = 0
    """For a run of known length: steps over which the rate falls to a tenth, along half a cosine, to stay
    there; 0: it does not fall (AlphaZero: factors of ten at 100,000, 300,000 and 500,000 steps)."""
    ema: float = 0.0
    """Decay of an average of the weights that is published in place of the newest ones, 0..1: 0.999 is a
    mean over about the last 1000 steps; 0: the newest weights (AlphaZero: 0; KataGo averages)."""
    value_weight: float = 1.0
    """Weight of the value loss beside 1 for the policy (AlphaZero: 1)."""
    value_q_share: float = 0.0
    """Share, 0..1, of the search's root value in the value target, the rest being the outcome
    (AlphaZero: 0; others' trials: 0.2 makes no difference, 0.5 costs 25 Elo in Go, some of it helps when
    games are few)."""
    win_discount: float = 1.0
    """Above 0, up to 1: the value target of a position k plies before the end of a won (lost) game is a win
    (loss) with probability win_discount ^ k, else a draw, so that value tells near wins from far ones and
    the search plays on to the end (AlphaZero: 1, all wins alike; 0.995 halves a win in 138 plies)."""
    capped_value_weight: float = 1.0
    """Weight of a position in the value loss when its game ended by the length limit and was scored as a
    draw (AlphaZero: 1; 0.25 keeps many such games from teaching that everything is a draw)."""
    moves_left_weight: float = 0.0
    """Weight of a loss for saying how many plies are left (Huber, on plies / 20), by a head of training only
    that makes the tower see the end coming; 0: no such head (AlphaZero: none; lc0: has one). Try 0.1."""
    soft_policy_weight: float = 0.0
    """Weight of the policy loss, by a head of training only, to the visits ^ (1 / 4): teaches to tell the
    less likely moves apart; 0: no such head (AlphaZero: none; KataGo: 8)."""
    policy_loss: Literal["legal", "all"] = "legal"
    """Softmax of the policy loss over the legal moves, as the search takes it (lc0), or over all actions
    (AlphaZero's published pseudocode)."""
    samples_per_position: float = 2.0
    """Times a position is trained on, on average (AlphaZero: 0.5-0.7; AlphaGo Zero: 1.4; KataGo: 4 or less).
    Plies that were played without a search or after a cheap one, and games held out, are none. 4 learns most
    where games are short, and learns the first games of chess by heart (docs/decisions/0018); a change counts
    for later games."""
    min_positions: int = 2000
    """Positions in the window before the first step."""
    window_positions: int = 500_000
    """Positions in the replay window (AlphaZero: those of the last 1,000,000 games)."""
    window_growth: bool = False
    """Draw from fewer, newer positions at the beginning of a run: of N positions that ever came in, from
    the newest c (1 + beta ((N / c) ^ alpha - 1) / alpha) that fit in the window, c being `window_min`
    (KataGo: yes, arXiv 1902.10565; AlphaZero: no)."""
    window_min: int = 20_000
    """c of `window_growth`, positions: up to here all are drawn from (KataGo: 250,000)."""
    window_alpha: float = 0.75
    """Exponent of `window_growth`: 1 keeps a fixed share, smaller ones less and less (KataGo: 0.75)."""
    window_beta: float = 0.4
    """Growth per new position of `window_growth` once `window_min` is reached, 0..1 (KataGo: 0.4)."""
    visited_per_position: float = 0.0
    """Room for visited actions in the window, per position; 0: the game's mean number of legal ones."""
    surprise_share: float = 0.0
    """Share of the samples, 0..1, that are drawn within their game in proportion to KL(pi || P): how far the
    search got away from what the network had said (KataGo: 0.5; AlphaZero: 0, all positions alike)."""
    symmetric: Literal["auto", "on", "off"] = "auto"
    """See samples through random symmetries of the board: auto does where the game has any, which are
    tic-tac-toe (8) and Connect Four (2), not chess (AlphaZero: no; AlphaGo Zero: 8 of Go)."""
    held_out: float = 0.02
    """Share of the games, 0..0.5, that are never trained on: at each publishing the loss on 1024 of their
    newest 8192 positions shows whether the network learns its window by heart; 0 trains on all
    (AlphaZero: 0). Which games they are is decided by a hash of the uid, the same after a restart."""
    publish_steps: int = 100
    """Steps after which weights are published (AlphaZero: 1000)."""
    publish_seconds: float = 30.0
    """Seconds after which they are published if any step was made."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints; one more is written at the end."""
    keep_checkpoints: int = 3
    """Newest checkpoints that are kept."""
    version_slack: int = 16
    """Weights versions by which a game may be ahead of what this trainer knows of."""
    stale_versions: int = 1000
    """A game is stored but not trained on when the newest weights in it are more than so many versions behind
    the newest that any stored game was played with: one that comes out of a spool after days. 0: all are
    trained on (AlphaZero: no such games). 1000 versions are 100,000 steps or 8 hours by default."""
    alert_games: int = 256
    """Games in a stretch; alerts (docs/report.md) compare the newest stretches. 0: no alerts."""
    seed: int = 0
    """Of a new network and of the draws from the window."""

    def check(self) -> TrainerConfig:
        """The same settings, or Fatal(CONFIG) naming the one that is out of range."""
        try:
            check_name(self.net or "tiny")
        except ValueError as error:
            raise Fatal(f"--net: {error}", Exit.CONFIG) from None
        positive = ("samples_per_position", "window_positions", "publish_steps", "keep_checkpoints")
        for name in (*positive, "window_min", "window_alpha"):
            if getattr(self, name) <= 0:
                raise Fatal(f"--{name.replace('_', '-')} must be more than 0", Exit.CONFIG)
        for name in (
            "batch",
            "lr",
            "min_positions",
            "cpu_threads",
            "publish_seconds",
            "version_slack",
            "stale_versions",
            "cosine_steps",
            "alert_games",
            "moves_left_weight",
            "soft_policy_weight",
        ):
            if getattr(self, name) < 0:
                raise Fatal(f"--{name.replace('_', '-')} must not be negative", Exit.CONFIG)
        for name in ("value_q_share", "capped_value_weight", "window_beta", "surprise_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise Fatal(f"--{name.replace('_', '-')} must be in 0..1", Exit.CONFIG)
        if not 0 < self.win_discount <= 1:
            raise Fatal("--win-discount must be more than 0 and at most 1", Exit.CONFIG)
        if not 0 <= self.ema < 1:
            raise Fatal("--ema must be in 0..1, and not 1: the average would never move", Exit.CONFIG)
        if not 0 <= self.held_out <= 0.5:
            raise Fatal("--held-out must be in 0..0.5: the rest is what the network learns from", Exit.CONFIG)
        if self.min_positions > self.window_positions:
            raise Fatal(
                f"--min-positions {self.min_positions} can never be reached in a window of "
                f"--window-positions {self.window_positions}",
                Exit.CONFIG,
            )
        return self

    def address(self) -> Address:
        """Of the server. Raises Fatal(CONFIG) for a bad one."""
        return parse_address(self.server)
