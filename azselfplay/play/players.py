"""Makes a player from its text: `net:chess-tiny@800`, `alphabeta:3`, `uci:stockfish?nodes=1000`, ...

`make_player` parses the text and imports only the code for this kind of player. So a match without networks
does not load torch, and `--help` loads nothing. Players with the same weights file share one loaded network,
which is closed with the last of these players.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.finding import RUNS, weights_named
from azselfplay.play.player import KINDS, Player
from protocol.settings import MAX_SIMULATIONS

if TYPE_CHECKING:
    from azselfplay.games.spec import Game
    from azselfplay.play.nets import SharedNet

DEFAULT_SIMULATIONS = 800

MAX_DEPTH, MAX_ROLLOUTS = 64, 1_000_000


def make_player(spec: str, game: Game, *, device: str = "cpu", threads: int = 0, runs: Path = RUNS) -> Player:
    """Return the player that `spec` describes (see KINDS); `spec` is also the player's name.

    Raises Fatal(CONFIG) for an invalid spec, an engine that is not installed, or a kind that cannot play the
    game; Fatal(BAD_DATA) for a weights file that cannot be used.
    """
    kind, rest, how = split(spec)
    if kind in ("net", "policy", "untrained"):
        simulations, search = 0, ""  # as `policy`: no search
        if kind != "policy":
            number, _, search = how.partition("/")
            simulations = _number(spec, number, DEFAULT_SIMULATIONS, MAX_SIMULATIONS)
        # The path is resolved, so that a file with two names is loaded only once.
        weights = None if kind == "untrained" or not rest else weights_named(rest, runs).resolve()
        return _net_player(weights, simulations, search, game, device, threads)
    if kind in ("random", "greedy", "alphabeta", "rollouts", "solver", "tablebase"):
        return _thinking_player(spec, kind, rest, game)
    if kind == "blend":
        from azselfplay.play.builtin_players import Blend

        inner, _, percent = rest.rpartition(":")
        if not percent.isdecimal() or not 0 < int(percent) < 100 or not inner:
            raise Fatal(f"{spec!r}: write blend:SPEC:PERCENT with a percentage from 1 to 99", Exit.CONFIG)
        player = make_player(inner, game, device=device, threads=threads, runs=runs)
        return Blend(spec, player, int(percent) / 100)
    if kind in ("uci", "usi", "gtp"):
        from azselfplay.play.engine_protocols import engine_player

        spoken = game.notation.engine_protocol
        if spoken != kind:
            what = f"engines of {game.name} speak {spoken}" if spoken else f"{game.name} has no engines"
            raise Fatal(f"{spec!r}: {kind.upper()} engines do not play {game.name}; {what}", Exit.CONFIG)
        return engine_player(spec, kind, rest)
    listed = "\n  ".join(KINDS)
    raise Fatal(f"{spec!r} is not a player; players are\n  {listed}", Exit.CONFIG)


def _thinking_player(spec: str, kind: str, rest: str, game: Game) -> Player:
    from azselfplay.play.builtin_players import ThinkingPlayer, solver_think, tablebase_think
    from azselfplay.play.kernel_players import alphabeta_think, greedy_think, random_think
    from azselfplay.play.rollouts import rollout_think

    if kind == "alphabeta":
        return ThinkingPlayer(spec, alphabeta_think(game, _number(spec, rest, 0, MAX_DEPTH)))
    if kind == "rollouts":
        return ThinkingPlayer(spec, rollout_think(game, _number(spec, rest, 0, MAX_ROLLOUTS)))
    if spec != kind:
        raise Fatal(f"{spec!r}: {kind} has no settings; write {kind} alone", Exit.CONFIG)
    if kind in ("random", "greedy"):  # too quick to be worth a thread
        return ThinkingPlayer(spec, random_think if kind == "random" else greedy_think(game), threaded=False)
    return ThinkingPlayer(spec, solver_think(game) if kind == "solver" else tablebase_think(game))


def split(spec: str) -> tuple[str, str, str]:
    """Return a player's kind, what follows the colon, and what follows the @ of `net` and `untrained`."""
    kind, _, rest = spec.partition(":")
    # In `untrained@64`, the number comes before any colon.
    kind, _, how = kind.partition("@")
    if kind == "net" and "@" in rest:  # split at the last @, because a path may contain one
        rest, _, how = rest.rpartition("@")
    return kind, rest, how


_LOADED: dict[tuple[str, str, str, int], SharedNet] = {}
"""Networks loaded by this process, by (file, game, device, threads); closed with their last player."""


def _number(spec: str, text: str, default: int, most: int) -> int:
    if text == "" and default:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise Fatal(f"{spec!r}: {text!r} must be a whole number from 1 to {most}", Exit.CONFIG)
    return int(text)


def _net_player(
    path: Path | None, simulations: int, search: str, game: Game, device: str, threads: int
) -> Player:
    from azselfplay.play.builtin_players import NetPlayer
    from azselfplay.play.nets import SharedNet, load_net, search_name, settings_for_search

    # The raw policy does not search.
    settings = settings_for_search(search, game, path) if simulations else None
    # The game is part of the key, because the same file may play a variant with the same board.
    key = (str(path or ""), game.name, device, threads)
    if key not in _LOADED:
        _LOADED[key] = SharedNet(load_net(path, game.name, device=device, threads=threads))
    shared = _LOADED[key]
    shared.users += 1
    net = shared.net

    def release() -> None:
        shared.users -= 1
        # Remove the entry first, so that a later player loads the network again.
        if shared.users == 0 and _LOADED.pop(key, None) is not None:
            net.close()

    name = f"untrained@{simulations}"
    if path is not None:
        name = f"net:{path.stem}@{simulations}" if simulations else f"policy:{path.stem}"
    if settings is not None:
        name += f"/{search_name(settings)}"
    return NetPlayer(name, net, simulations, release, settings)
