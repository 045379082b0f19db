"""Settings of self-play: chosen in azserver's configuration, sent to every worker in WELCOME.

They are frozen dataclasses, one per subject, collected in one: a game is only comparable with games played
under the same settings. Defaults are AlphaZero's where it published one (arXiv 1712.01815).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class SearchSettings:
    """How the search chooses."""

    selection: str = "puct"
    """The rule that chooses in the tree (`search/selection/`): `puct` (AlphaZero), trained on visit counts;
    `gumbel`, sequential halving for few simulations, trained on the improved policy (Danihelka et al. 2022);
    `thompson`, samples of a posterior, trained on visit counts (docs/decisions/0032). `gumbel` never reuses
    the tree and ignores c_base, c_init and the fpu (docs/decisions/0007)."""
    simulations: int = 800
    """New simulations per move, in addition to those in the reused tree (AlphaZero: 800)."""
    c_base: float = 19652.0
    """PUCT: visits at which exploration has grown by ln 2 (AlphaZero: 19652)."""
    c_init: float = 1.25
    """PUCT: weight of the prior at few visits, for values in [-1, 1]. (AlphaZero's 1.25 is for values in
    [0, 1], as in its pseudocode; the same search would need 2.5 here. docs/decisions/0008.)"""
    exploration: str = "alphazero"
    """PUCT: what is added to the value of a child of prior P with n visits, its parent having N:
    `alphazero` = (log((1 + N + c_base) / c_base) + c_init) P sqrt(N) / (1 + n); `alphago_zero` =
    c_puct P sqrt(N) / (1 + n); `ucb` = c_puct P sqrt(ln(1 + N) / (1 + n)). docs/decisions/0008."""
    c_puct: float = 1.5
    """The constant of `exploration = alphago_zero` and `ucb` only, for values in [-1, 1] (AlphaGo Zero did
    not publish its own; ELF OpenGo: 1.5, KataGo: 1.1)."""
    fpu: str = "reduction"
    """First-play urgency, the value of a child that was never visited: `reduction` = the parent's value minus
    `fpu_reduction` times the root of the visited prior mass; `absolute` = `fpu_value`. AlphaZero's paper does
    not say."""
    fpu_reduction: float = 0.2
    """In units of value [-1, 1]; not applied at a root with noise (KataGo: 0.2 and 0)."""
    fpu_value: float = 0.0
    """Used by `fpu = absolute` only, in [-1, 1]. At -1 unvisited moves count as lost; runs then drift to
    draws."""
    reuse_tree: bool = True
    """Keep the subtree of the move played (AlphaGo Zero does), with fresh noise at the new root."""
    solver: bool = False
    """Wins and losses that the tree proves replace evaluations, and a proven move is not searched further.
    With `puct`, moves that are proven to lose are not tried again; with `puct` and `thompson` they are left
    out of the policy target (MCTS-Solver, Winands et al. 2008; AlphaZero: no). docs/decisions/0057."""
    look_ahead: bool = False
    """Before a position is sent to the network, try its moves: if one wins at once, that is its value. Needs
    `search.solver`. It costs as many moves of the rules as there are legal ones (AlphaZero: no)."""
    evaluation_symmetry: bool = False
    """Evaluate each leaf through a random symmetry of the board, in games that have any (AlphaGo Zero: yes;
    AlphaZero: no)."""
    average_symmetries: bool = False
    """Evaluate each leaf through all symmetries of the board and take the mean, in games that have any. That
    is two evaluations a leaf in Connect Four, and eight in Go (AlphaGo: for networks without a search;
    AlphaZero: no). docs/decisions/0060."""


@dataclass(frozen=True)
class GumbelSettings:
    """Constants of `search.selection = gumbel`."""

    considered: int = 16
    """Root actions considered, at most (Gumbel MuZero: 16)."""
    c_visit: float = 50.0
    """A value v counts (c_visit + most visits of an action) * c_scale * v beside the log of the prior (the
    paper: 50)."""
    c_scale: float = 0.2
    """For v in [-1, 1]; chess: try 0.1 to 0.3. The paper's 1.0 is for v in [0, 1] and would be 0.5 here."""


@dataclass(frozen=True)
class NoiseSettings:
    """Exploration at the root, and which part of it is removed from the policy target."""

    root_noise: float = 0.25
    """Share of Dirichlet noise in the priors of the root (AlphaZero: 0.25); 0 switches it off. With
    `search.selection = gumbel` there is Gumbel noise instead, in full for any share above 0."""
    dirichlet_alpha: float = 0.0
    """Shape of that noise; 0 takes the game's (AlphaZero: chess 0.3, shogi 0.15, Go 0.03)."""
    policy_temperature: float = 1.0
    """The priors of the root become prior ** (1 / this) before noise is added, so that moves with a small
    prior are tried: with `search.selection = puct`, in searches with noise (KataGo: 1.1;
    AlphaZero: 1). No effect without `root_noise`."""
    policy_temperature_early: float = 0.0
    """The same at the start of the game; it approaches `policy_temperature` with a half-life of as many plies
    as the board is long (KataGo: 1.25); 0: no other temperature at the start."""
    forced_playouts: float = 0.0
    """In a search with noise, every visited root action gets at least sqrt(this * prior * all visits) visits,
    so that moves raised by noise are examined (KataGo: 2); 0: off. Not with `search.selection = gumbel`."""
    prune_target: bool = True
    """Remove forced playouts that the search did not want, from the policy target and from the visits that
    moves are drawn by (KataGo: yes). No effect without `forced_playouts`."""
    prune_noise: bool = False
    """Also remove visits that only the noise or `policy_temperature` caused, with and without forced playouts
    (KataGo: yes; AlphaZero: no). Not with `search.selection = gumbel`. docs/decisions/0009."""


@dataclass(frozen=True)
class PlayoutCapSettings:
    """Playout cap randomisation (KataGo, arXiv 1902.10565; AlphaZero: none)."""

    cheap_probability: float = 0.0
    """Share of moves that get a cheap search, chosen at random. Its visits are no policy target. 0: none
    (KataGo: 0.75)."""
    cheap_simulations: int = 0
    """Simulations of a cheap search, which has no noise; 0 takes a quarter of `search.simulations` (KataGo:
    100 beside 600)."""


@dataclass(frozen=True)
class MoveSettings:
    """Which move is played after a search."""

    temperature: float = 1.0
    """Moves are drawn from visits ** (1 / temperature) for the first plies (AlphaZero: 1)."""
    temperature_plies: int = 30
    """Plies after which the most visited move is played (AlphaZero: 30)."""
    final_move: str = "visits"
    """The move played after `temperature_plies`, and in play: `visits` = most visited, ties go to the
    first (AlphaZero); `robust` = most visited, ties go to the highest value; `max` = highest value;
    `max_robust` = an action that is both, searching on for up to `final_extra` simulations to find one, else
    `robust`; `secure` = highest value - final_secure / sqrt(visits). `search.selection = gumbel` plays
    the winner of its own halving instead."""
    final_secure: float = 1.0
    """`final_move = secure` only, in units of value (Chaslot et al. 2008 give 4 for their program Mango)."""
    final_extra: int = 0
    """`final_move = max_robust` only: most simulations beyond `search.simulations`; 0 takes a quarter of
    them. They choose the move, but the policy target leaves them out, and the tree is not reused
    afterwards."""


@dataclass(frozen=True)
class OpeningSettings:
    """Plies without a search at the beginning of a game, which are never trained on. They count towards
    `moves.temperature_plies` and never end a game (AlphaZero: none)."""

    random_share: float = 0.0
    """Share of games that begin with plies drawn uniformly from the legal moves (chess: try a third;
    AlphaZero: 0)."""
    random_plies: int = 0
    """Such a game begins with 0 to this many random plies, each number equally likely (chess: try 12)."""
    policy_share: float = 0.0
    """Share of games that begin with plies drawn from the network's own policy, one evaluation each; they
    follow the random plies of the same game, if it has any. This varies openings around those that are
    really played (as in KataGo; AlphaZero: 0)."""
    policy_plies: int = 0
    """Such a game begins with 0 to this many policy plies, each number equally likely (KataGo on 19x19: 14 on
    average, exponentially distributed)."""
    policy_temperature: float = 1.0
    """Policy plies are drawn from policy ** (1 / temperature) (KataGo: 1)."""


@dataclass(frozen=True)
class StartSettings:
    """Where games begin, before any opening plies."""

    position: str = ""
    """Start position in the game's notation (chess: FEN); empty is the usual one."""
    positions: str = ""
    """More start positions in the game's notation, one a line (# begins a comment), at most 1000 of 500
    characters; `@FILE`: those in that text file of azserver's machine. Games from them say so in their
    records."""
    generator: str = ""
    """Instead of `positions`: kinds of start positions, separated by commas; one is drawn at random for each
    game (chess: material such as KQK,KRPKR; either colour has either side's men, nobody is in check). No
    opening plies follow such a start."""
    share: float = 0.0
    """Share of games that begin at one of `positions`, or at one drawn by `generator`; each line or kind is
    equally likely (AlphaZero: 0)."""


@dataclass(frozen=True)
class ResignationSettings:
    """When a side resigns (AlphaGo Zero; AlphaZero's paper does not say)."""

    value: float = 0.0
    """A side resigns when its root value after the search is this or lower, in [-1, 0); 0: nobody resigns.
    With `mistakes` above 0 this is the highest threshold ever used; the one in force is found from the games
    that are played on (as in AlphaGo Zero)."""
    mistakes: float = 0.05
    """Largest share of resigned games that the resigning side would not have lost. The trainer measures this
    share and lowers the threshold accordingly; until it has enough games, nobody resigns (AlphaGo Zero:
    0.05). 0: the threshold is always `value`."""
    play_on: float = 0.1
    """Share of games that are played to their end in any case, to measure the mistakes (AlphaGo Zero:
    0.1)."""


@dataclass(frozen=True)
class SelfPlaySettings:
    """How games are played."""

    history: int = 0
    """Positions in the network's input; 0 takes the game's default (AlphaZero: 8)."""
    max_plies: int = 0
    """Length at which a game is scored as a draw; 0 takes the game's (AlphaZero: chess 512)."""
    seed: int = 0
    """Games of worker w, game number k draw from (seed, w, k); 0 draws a new seed at each start."""
    round_games: int = 0
    """0: playing and training go on side by side (AlphaZero). Else in rounds: this many games by one network,
    the training steps that these games allow, then the next network, which makes a run with a `seed`
    repeatable bit by bit, also through stops and kills (docs/decisions/0014). This is slower, because each
    half waits for the other."""
    child_values: bool = False
    """Write the search's value of each visited move into the records, one byte each, for
    `loss.action_value_weight` of the trainer (AlphaZero: no). docs/decisions/0059."""
    search: SearchSettings = field(default_factory=SearchSettings)
    gumbel: GumbelSettings = field(default_factory=GumbelSettings)
    noise: NoiseSettings = field(default_factory=NoiseSettings)
    playout_cap: PlayoutCapSettings = field(default_factory=PlayoutCapSettings)
    moves: MoveSettings = field(default_factory=MoveSettings)
    opening: OpeningSettings = field(default_factory=OpeningSettings)
    start: StartSettings = field(default_factory=StartSettings)
    resignation: ResignationSettings = field(default_factory=ResignationSettings)


def changed(settings: T, changes: Mapping[str, Any]) -> T:
    """Return a copy of nested dataclasses with new values at some paths, such as {"search.c_init": 2.5}."""
    parts: dict[str, Any] = {}
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        inner = parts.get(name, getattr(settings, name))
        parts[name] = changed(inner, {rest: value}) if rest else value
    return replace(settings, **parts)  # type: ignore[type-var]
