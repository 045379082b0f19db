"""A player from a short text: `net:chess-tiny@800`, `alphabeta:3`, `uci:stockfish?nodes=1000`, ..."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluation.match.command import KINDS
from evaluation.match.player import Player
from games.spec import Game
from runtime.exits import Exit, Fatal
from runtime.finding import RUNS, weights_named

DEFAULT_SIMULATIONS = 800
MAX_DEPTH, MAX_ROLLOUTS = 64, 1_000_000


@dataclass
class _Shared:
    """A loaded network and the number of players that use it."""

    net: object
    users: int = 0


@dataclass
class Nets:
    """Networks loaded by this process, one per (file, device, threads); closed with their last player."""

    loaded: dict[tuple[str, str, str, int], _Shared] = field(default_factory=dict)


NETS = Nets()


@dataclass(frozen=True)
class Networks:
    """How networks are found and run."""

    device: str = "cpu"
    threads: int = 0
    """CPU threads; 0: all."""
    runs: Path = RUNS
    """Folder in which runs are found by their names."""


def make_player(spec: str, game: Game, *, device: str = "cpu", threads: int = 0, runs: Path = RUNS) -> Player:
    """The player that `spec` describes (see KINDS), which is also its name.

    Raises Fatal(CONFIG) for an invalid spec, an engine that is not installed, or a kind that cannot play the
    game; Fatal(BAD_DATA) for a weights file that cannot be used.
    """
    networks = Networks(device, threads, runs)
    kind, _, rest = spec.partition(":")
    kind, _, simulations = kind.partition("@")
    if kind == "net":
        file, _, simulations = rest.rpartition("@") if "@" in rest else (rest, "", "")
        return _searching(spec, file, simulations, game, networks)
    if kind == "untrained":
        return _searching(spec, "", simulations, game, networks)
    if kind == "policy":
        return _net_player(rest, 0, game, networks)
    if kind in ("uci", "usi", "gtp"):
        return _engine_player(spec, kind, rest, game)
    makers: dict[str, Callable[[], Player]] = {
        "random": lambda: _simple(spec, game),
        "greedy": lambda: _simple(spec, game),
        "alphabeta": lambda: _thinking(spec, rest, game),
        "rollouts": lambda: _thinking(spec, rest, game),
        "solver": lambda: _truth(spec, game),
        "tablebase": lambda: _truth(spec, game),
        "blend": lambda: _blend(spec, rest, game, networks),
    }
    if kind not in makers:
        listed = "\n  ".join(KINDS)
        raise Fatal(f"{spec!r} is not a player; players are\n  {listed}", Exit.CONFIG)
    return makers[kind]()


async def prepare(player: Player) -> None:
    """Start an engine before the first game, also one inside a blend; other players need nothing. Raises
    Fatal(CONFIG) if it does not speak its protocol or refuses an option."""
    from evaluation.match.engine_player import EnginePlayer
    from evaluation.match.search_players import Blend

    while isinstance(player, Blend):
        player = player.inner
    if isinstance(player, EnginePlayer):
        await player.prepare()


def _searching(spec: str, file: str, how: str, game: Game, networks: Networks) -> Player:
    """A network that searches. `how`: N or N/SEARCH, see `engine.search_choice`."""
    simulations, _, search = how.partition("/")
    count = _number(spec, simulations, DEFAULT_SIMULATIONS, 20_000)
    return _net_player(file, count, game, networks, search)


def _number(spec: str, text: str, default: int, most: int) -> int:
    if text == "" and default:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise Fatal(f"{spec!r}: {text!r} must be a whole number from 1 to {most}", Exit.CONFIG)
    return int(text)


def _check_alone(spec: str, kinds: Sequence[str]) -> None:
    """Raise Fatal(CONFIG) if something follows the kind of a player that has no settings."""
    if spec not in kinds:
        kind = next(kind for kind in kinds if spec.startswith(kind))
        raise Fatal(f"{spec!r}: {kind} has no settings; write {kind} alone", Exit.CONFIG)


def _simple(spec: str, game: Game) -> Player:
    from evaluation.match.search_players import ThinkingPlayer, greedy_think, random_think

    _check_alone(spec, ("random", "greedy"))
    think = random_think if spec == "random" else greedy_think(game)
    return ThinkingPlayer(spec, think, threaded=False)


def _thinking(spec: str, rest: str, game: Game) -> Player:
    from evaluation.match.search_players import ThinkingPlayer, alphabeta_think, rollout_think

    if spec.startswith("alphabeta"):
        return ThinkingPlayer(spec, alphabeta_think(game, _number(spec, rest, 0, MAX_DEPTH)))
    return ThinkingPlayer(spec, rollout_think(game, _number(spec, rest, 0, MAX_ROLLOUTS)))


def _truth(spec: str, game: Game) -> Player:
    from evaluation.match.adjudication import solver_think, tablebase_think
    from evaluation.match.search_players import ThinkingPlayer

    _check_alone(spec, ("solver", "tablebase"))
    think = solver_think(game) if spec == "solver" else tablebase_think(game)
    return ThinkingPlayer(spec, think, alone=True)


def _blend(spec: str, rest: str, game: Game, networks: Networks) -> Player:
    from evaluation.match.search_players import Blend

    inner, _, percent = rest.rpartition(":")
    if not percent.isdecimal() or not 0 < int(percent) < 100 or not inner:
        raise Fatal(f"{spec!r}: write blend:SPEC:PERCENT with a percentage from 1 to 99", Exit.CONFIG)
    player = make_player(inner, game, device=networks.device, threads=networks.threads, runs=networks.runs)
    return Blend(spec, player, int(percent) / 100)


def _engine_player(spec: str, kind: str, rest: str, game: Game) -> Player:
    """An engine of another program. Only the protocol's module is imported."""
    from evaluation.match.engine_player import EnginePlayer, parse_spec

    spoken = game.notation.engine_protocol
    if spoken != kind:
        what = f"engines of {game.name} speak {spoken}" if spoken else f"{game.name} has no engines"
        raise Fatal(f"{spec!r}: {kind.upper()} engines do not play {game.name}; {what}", Exit.CONFIG)
    protocol = importlib.import_module(f"evaluation.match.{kind}_player")
    parsed = parse_spec(kind, rest, protocol.EXAMPLE)
    protocol.check_limits(rest, parsed)
    return EnginePlayer(spec, parsed, protocol.connect)


def _net_player(network: str, simulations: int, game: Game, networks: Networks, search: str = "") -> Player:
    from engine.nets import LoadedNet, load_net
    from engine.search_choice import search_for, search_name
    from evaluation.match.net_players import NetPlayer

    path = weights_named(network, networks.runs).resolve() if network else None
    settings = search_for(search, game, path) if simulations else None
    device, threads = networks.device, networks.threads
    key = (str(path or ""), game.name, device, threads)
    if key not in NETS.loaded:
        NETS.loaded[key] = _Shared(load_net(path, game.name, device=device, threads=threads))
    shared = NETS.loaded[key]
    shared.users += 1
    net = shared.net
    assert isinstance(net, LoadedNet)

    def release() -> None:
        shared.users -= 1
        if shared.users == 0 and NETS.loaded.pop(key, None) is not None:
            net.close()

    name = _net_name(path, simulations) + (f"/{search_name(settings)}" if settings else "")
    return NetPlayer(name, net, simulations, release, settings)


def _net_name(path: Path | None, simulations: int) -> str:
    if path is None:
        return f"untrained@{simulations}"
    short = path.resolve().stem
    return f"net:{short}@{simulations}" if simulations else f"policy:{short}"
