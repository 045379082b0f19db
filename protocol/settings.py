"""Settings: the kinds of values that they take, and how games are played.

A setting is a field of a frozen dataclass. Its type says what is allowed, as msgspec reads it: a plain
type, a `Literal`, or a number with its limits (`Fraction`, `Count`). So one function checks all of them
(`converted`), whether they come from a file, a variable, a flag or a message, and the same types tell
people what is allowed. They are dataclasses and not msgspec's structs because tyro and
`dataclasses.replace` read them as they are; unknown names are found here, since msgspec does not say
which name is the nearest.

Settings of self-play are chosen in azserver's configuration and sent to every worker in WELCOME, all in
one dataclass: a game is only comparable with games played under the same settings. Defaults are
AlphaZero's where it published one (arXiv 1712.01815).
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

T = TypeVar("T")

MAX_SIMULATIONS = 20_000
"""Visit counts are stored as uint16, and a kept subtree may triple them."""

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Constant = Annotated[float, Meta(ge=0, le=1000)]
Simulations = Annotated[int, Meta(ge=1, le=MAX_SIMULATIONS)]
SomeSimulations = Annotated[int, Meta(ge=0, le=MAX_SIMULATIONS)]
Plies = Annotated[int, Meta(ge=0, le=10_000)]
Seed = Annotated[int, Meta(ge=0, le=1 << 62)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
"""0: none."""
BasePort = Annotated[int, Meta(ge=1, le=65_534)]
"""The first of azserver's two ports."""

_WORDS: dict[Any, str] = {
    **{int: "a whole number", float: "a number", str: "text", bool: "true or false", Path: "a path"},
    tuple[str, ...]: "a list of texts",
}


@cache
def settings_in(config_class: type) -> Mapping[str, Any]:
    """Return the types of all settings by name, such as "search.c_init", including those of nested
    dataclasses."""
    found: dict[str, Any] = {}
    hints = get_type_hints(config_class, include_extras=True)
    for one in fields(config_class):
        kind = hints[one.name]
        # A group of settings, such as `search`.
        if is_dataclass(kind):
            inner = settings_in(cast(type, kind))
            found |= {f"{one.name}.{name}": of for name, of in inner.items()}
        else:
            found[one.name] = kind
    return found


def allowed(kind: Any) -> str:
    """Say what a setting of this type may be, such as "a number from 0 to 1"."""
    kind, limits = bare(kind)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(kind))
    low = limits.ge if limits.ge is not None else limits.gt
    text = _WORDS.get(kind, str(kind))
    if limits.gt is not None:
        text += f" above {low:g}"
    elif low is not None:
        text += f" {'of at least' if limits.le is None and limits.lt is None else 'from'} {_shown(low)}"
    if limits.lt is not None:
        return f"{text} and below {limits.lt:g}"
    if limits.le is None:
        return text
    return f"{text} {'and at most' if limits.gt is not None else 'to'} {_shown(limits.le)}"


def _shown(limit: float) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)


def bare(kind: Any) -> tuple[Any, Meta]:
    """Return a setting's type without None and annotations, and its limits."""
    if get_origin(kind) in (Union, types.UnionType):
        # `X | None`: None only says that nothing was given.
        kind = next(one for one in get_args(kind) if one is not types.NoneType)
    if get_origin(kind) is not Annotated:
        return kind, Meta()
    kind, *notes = get_args(kind)
    return kind, next((note for note in notes if isinstance(note, Meta)), Meta())


def converted(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """Return a value as the type of its setting. `strict=False`: from text, as in a variable. Raises
    ValueError saying what is allowed."""
    # An empty text, such as an empty variable's, is no path: `Path("")` would be the current folder.
    given = None if value == "" and bare(kind)[0] is Path else value
    try:
        found = msgspec.convert(given, kind, strict=strict, dec_hook=lambda custom, text: custom(text))
    except msgspec.ValidationError as error:
        raise ValueError(f"must be {allowed(kind)}, not {value!r}") from error
    # NaN passes any limit, and no setting means infinity.
    if isinstance(found, float) and not math.isfinite(found):
        raise ValueError(f"must be {allowed(kind)}, not {value!r}")
    return found


def check_settings(settings: object) -> None:
    """Raise ValueError, which begins with the setting's name, for the first value that is not allowed."""
    for name, kind in settings_in(cast(type, type(settings))).items():
        try:
            converted(attrgetter(name)(settings), kind)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None


def changed(settings: T, changes: Mapping[str, Any]) -> T:
    """Return a copy of nested dataclasses with new values at some names, such as {"search.c_init": 2.5}."""
    parts: dict[str, Any] = {}
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        # Several changes may concern the same part.
        inner = parts.get(name, getattr(settings, name))
        parts[name] = changed(inner, {rest: value}) if rest else value
    return replace(settings, **parts)  # type: ignore[type-var]


# ---- Self-play -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SearchSettings:
    """How the search chooses."""

    selection: str = "puct"
    """The rule that chooses in the tree (`azselfplay/search/selection/`): `puct` (AlphaZero), trained on
    visit counts; `gumbel`, sequential halving for few simulations, trained on the improved policy (Danihelka
    et al. 2022); `thompson`, samples of a posterior, trained on visit counts (docs/decisions/0032). `gumbel`
    never reuses the tree and ignores c_base, c_init and fpu_reduction (docs/decisions/0007)."""
    simulations: Simulations = 800
    """New simulations per move, in addition to those in the reused tree (AlphaZero: 800)."""
    c_base: Annotated[float, Meta(ge=1, le=1e9)] = 19652.0
    """PUCT: visits at which exploration has grown by ln 2 (AlphaZero: 19652)."""
    c_init: Constant = 1.25
    """PUCT: weight of the prior at few visits, for values in [-1, 1]. (AlphaZero's 1.25 is for values in
    [0, 1], as in its pseudocode; the same search would need 2.5 here. docs/decisions/0008.)"""
    fpu_reduction: Annotated[float, Meta(ge=0, le=2)] = 0.2
    """First-play urgency: a child that was never visited has the parent's value minus this times the root of
    the visited prior mass, in units of value [-1, 1]; not applied at a root with noise (KataGo: 0.2 and 0;
    AlphaZero's paper does not say)."""
    solver: bool = False
    """Wins and losses that the tree proves replace evaluations, and a proven move is not searched further.
    Moves that are proven to lose are left out of the policy target and of the root's value; `puct` does not
    try them again, and `gumbel` takes others first (MCTS-Solver, Winands et al. 2008; AlphaZero: no)."""
    look_ahead: bool = False
    """Before a position is sent to the network, try its moves: if one wins at once, that is its value. Needs
    `search.solver`. It costs as many moves of the rules as there are legal ones (AlphaZero: no)."""


@dataclass(frozen=True)
class GumbelSettings:
    """Constants of `search.selection = gumbel`."""

    considered: Annotated[int, Meta(ge=1, le=256)] = 16
    """Root actions considered, at most (Gumbel MuZero: 16)."""
    c_scale: Annotated[float, Meta(ge=0, le=10)] = 0.2
    """For v in [-1, 1]; chess: try 0.1 to 0.3. The paper's 1.0 is for v in [0, 1] and would be 0.5 here."""


@dataclass(frozen=True)
class NoiseSettings:
    """Exploration at the root."""

    root_noise: Fraction = 0.25
    """Share of Dirichlet noise in the priors of the root (AlphaZero: 0.25); 0 switches it off. With
    `search.selection = gumbel` there is Gumbel noise instead, in full for any share above 0."""
    dirichlet_alpha: Constant = 0.0
    """Shape of that noise; 0 takes the game's (AlphaZero: chess 0.3, shogi 0.15, Go 0.03)."""


@dataclass(frozen=True)
class MoveSettings:
    """Which move is played after a search."""

    temperature: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """Moves are drawn from visits ** (1 / temperature) for the first plies (AlphaZero: 1)."""
    temperature_plies: Annotated[int, Meta(ge=0, le=1_000_000)] = 30
    """Plies after which the most visited move is played (AlphaZero: 30)."""
    final_move: Literal["visits", "secure"] = "visits"
    """The move played after `temperature_plies` (in play: `secure`): `visits` = most visited, ties go to
    the first (AlphaZero); `secure` = highest value - 1 / sqrt(visits). `search.selection = gumbel` plays
    the winner of its own halving instead."""


@dataclass(frozen=True)
class OpeningSettings:
    """Plies without a search at the beginning of a game, which are never trained on. They count towards
    `moves.temperature_plies` and never end a game (AlphaZero: none)."""

    random_share: Fraction = 0.0
    """Share of games that begin with plies drawn uniformly from the legal moves (chess: try a third;
    AlphaZero: 0)."""
    random_plies: Annotated[int, Meta(ge=0, le=1000)] = 12
    """Such a game begins with 0 to this many random plies, each number equally likely."""


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
    """Instead of `positions`: kinds of start positions, separated by commas; each game draws one. Chess:
    material such as KQK,KRPKR, for either colour, with nobody in check. Chess960: numbers of start positions,
    or `all`, its default. Random opening plies follow `all` only."""
    share: Fraction = 0.0
    """Share of games that begin at one of `positions`, or at one drawn by `generator`; each line or kind is
    equally likely (AlphaZero: 0)."""


@dataclass(frozen=True)
class ResignationSettings:
    """When a side resigns (AlphaGo Zero; AlphaZero's paper does not say)."""

    value: Annotated[float, Meta(ge=-1, le=0)] = 0.0
    """A side resigns when its root value after the search is this or lower, in [-1, 0); 0: nobody resigns.
    With `mistakes` above 0 this is the highest threshold ever used; the one in force is found from the games
    that are played on (as in AlphaGo Zero)."""
    mistakes: Annotated[float, Meta(ge=0, le=0.5)] = 0.05
    """Largest share of resigned games that the resigning side would not have lost. The trainer measures this
    share and lowers the threshold accordingly; until it has enough games, nobody resigns (AlphaGo Zero:
    0.05). 0: the threshold is always `value`."""
    play_on: Fraction = 0.1
    """Share of games that are played to their end in any case, to measure the mistakes (AlphaGo Zero:
    0.1)."""


@dataclass(frozen=True)
class SelfPlaySettings:
    """How games are played."""

    history: Annotated[int, Meta(ge=0, le=8)] = 0
    """Positions in the network's input; 0 takes the game's default (AlphaZero: 8)."""
    max_plies: Plies = 0
    """Length at which a game is scored as a draw; 0 takes the game's (AlphaZero: chess 512)."""
    seed: Seed = 0
    """Game k of worker w draws from (seed, w, k); 0: another seed at each start."""
    search: SearchSettings = field(default_factory=SearchSettings)
    gumbel: GumbelSettings = field(default_factory=GumbelSettings)
    noise: NoiseSettings = field(default_factory=NoiseSettings)
    moves: MoveSettings = field(default_factory=MoveSettings)
    opening: OpeningSettings = field(default_factory=OpeningSettings)
    start: StartSettings = field(default_factory=StartSettings)
    resignation: ResignationSettings = field(default_factory=ResignationSettings)
