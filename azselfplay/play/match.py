"""`azplay match A B`: the command, and the report about two players against each other.

`Match` turns settings into a result: it makes the players, shows progress, writes files, and stops early by
SPRT or Ctrl-C. `play.runner` plays the games. `report` counts finished games. The two games from one opening
with colours swapped are one observation (`play.elo`), so a match that was cut short counts only complete
pairs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from azselfplay.host import aio
from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.finding import RUNS, weights_named
from azselfplay.play.elo import BOUND, EloEstimate, Sprt, estimate, pair_counts, won_drawn_lost
from azselfplay.play.player import KINDS, Player
from azselfplay.play.players import make_player, split
from protocol.settings import Count, Plies, Positive, Seed

if TYPE_CHECKING:
    from azselfplay.games.spec import Game
    from azselfplay.play.runner import PlayedGame

EXAMPLES = (
    "azplay match net:chess-tiny@200 alphabeta:2 --games 100 --concurrent 32",
    "azplay match net:NEW.safetensors@400 net:OLD.safetensors@400 --games 2000 --sprt 0,10 --concurrent 64",
    "azplay match 'uci:stockfish?nodes=1000&Skill Level=3' alphabeta:3 --games 20 --pgn games.pgn",
)

TTY_SECONDS, PLAIN_SECONDS = 0.2, 5.0
"""Seconds between two lines of progress, on a terminal and elsewhere."""


@dataclass(frozen=True)
class MatchConfig:
    """Settings of `azplay match`; A and B come before them."""

    game: str = ""
    """The game; the names are at the top of `--help`. Empty: that of A's or B's network, else chess."""
    games: Positive = 100
    """Games at most, rounded up to whole pairs: each opening is played twice, colours swapped."""
    concurrent: Positive = 16
    """Games at once; their positions share the network's batches (on a GPU use 64 or more)."""
    openings: str = "auto"
    """auto (the game's well-known openings, then random ones), start, book, random:PLIES, or a file of FEN,
    EPD or moves, or a PGN."""
    seed: Seed = 1
    """Seed of random openings and of players that choose at random."""
    max_plies: Plies = 0
    """Length at which a game is a draw; 0 takes the game's (chess 512)."""
    sprt: str = ""
    """ELO0,ELO1, such as 0,10: stop as soon as one of the two is accepted at 5 % error."""
    syzygy_path: str = ""
    """End a game of chess by the Syzygy tables in these folders, separated as in PATH."""
    device: str = "cpu"
    """Device of networks: cpu, cuda, cuda:1."""
    threads: Count = 0
    """CPU threads of a network; 0: all."""
    runs: Path = RUNS
    """Folder of all runs."""
    pgn: str = ""
    """File for the games as PGN, if the game has that format, in the order they end; overwritten."""
    moves: str = ""
    """File for the games as JSON lines (any game); overwritten."""
    json: bool = False
    """Print the result as one JSON object instead of a table."""


def main() -> int:
    """Entry point of `azplay match`."""
    arguments = sys.argv[1:]
    specs: list[str] = []
    # A and B come before the settings, so they are parsed here.
    while arguments and not arguments[0].startswith("-") and len(specs) < 2:
        specs.append(arguments.pop(0))
    players = "\n".join(f"  {kind}" for kind in KINDS)
    config = load(
        MatchConfig,
        arguments,
        command="azplay match A B",
        examples=EXAMPLES,
        description=f"Play A against B. Players:\n\n{players}",
    )
    if len(specs) != 2:
        raise Fatal("say who plays: azplay match A B [settings]; --help lists players", Exit.USAGE)
    a, b = specs
    match = Match(config, (a, b))
    aio.run(match.run)
    from azselfplay.play.builtin_players import leave_if_thinking
    from azselfplay.play.openings import describe

    result, openings = match.report(), describe(match.openings_played())
    # msgspec writes an infinite Elo as null.
    shown = table(result, openings, config.concurrent)
    print(msgspec.json.encode(result).decode() if config.json else shown)
    leave_if_thinking(match.code)
    return int(match.code)


def game_of_match(config: MatchConfig, specs: tuple[str, str]) -> Game:
    """Return the game that `--game` names, else the game of the first network, else the default game."""
    from azselfplay.games.names import DEFAULT_GAME
    from azselfplay.play.nets import game_for

    # Only these kinds name a game's network: a blend or an engine may name files too, but they tell no game.
    files = [rest for kind, rest, _ in map(split, specs) if kind in ("net", "policy")]
    weights = weights_named(files[0], config.runs) if files and not config.game else None
    return game_for(config.game, weights, DEFAULT_GAME)


def sprt_from(text: str) -> Sprt | None:
    """Return the test of `--sprt`, if there is one. Raises Fatal(CONFIG)."""
    try:
        elo0, elo1 = (float(word) for word in text.split(",")) if text else (0.0, 0.0)
        return Sprt(elo0, elo1) if text else None
    except ValueError as error:
        raise Fatal(f"--sprt {text}: {error}; it is ELO0,ELO1 such as 0,10", Exit.CONFIG) from error


class Match:
    """One match. Raises Fatal before the first game if settings, players, openings or files are wrong."""

    def __init__(self, config: MatchConfig, specs: tuple[str, str]) -> None:
        from azselfplay.play.openings import check_lengths, openings_for
        from azselfplay.play.syzygy import open_tables

        game = game_of_match(config, specs)
        self.sprt = sprt_from(config.sprt)
        # This comes first, so that a game without tables is refused before openings are read.
        path = config.syzygy_path
        self.known = open_tables(game, path, only_results=True).result if path else None
        self.config = config
        self.game = game
        self.pairs = (config.games + 1) // 2
        self.openings = openings_for(game, config.openings, self.pairs, config.seed)
        check_lengths(self.openings, config.max_plies)
        self._specs = specs
        self._names = specs
        self._ended: dict[int, PlayedGame] = {}
        """Games that have ended, by their number."""
        self.code = Exit.OK
        """DISK if games are missing in a file."""
        self._shown = time.monotonic()

    async def run(self, stop: aio.Stop) -> None:
        """Play the match. Ctrl-C ends it; the result then counts the pairs that are complete."""
        stop.waits_for = "nothing; the games that have not ended are dropped"
        players: list[Player] = []
        try:
            for spec in self._specs:
                players.append(
                    make_player(
                        spec,
                        self.game,
                        device=self.config.device,
                        threads=self.config.threads,
                        runs=self.config.runs,
                    )
                )
            first, second = players[0].name, players[1].name
            # If a player meets itself, the table still needs two names.
            self._names = (first, second) if first != second else (f"{first} (A)", f"{second} (B)")
            players[0].name, players[1].name = self._names
            # After Ctrl-C the games that have ended are the result.
            await aio.unless_stopped(self._play(players[0], players[1]), stop)
        finally:
            async with asyncio.TaskGroup() as closing:  # all are closed even if one is interrupted
                for player in players:
                    closing.create_task(player.close())

    async def _play(self, a: Player, b: Player) -> None:
        from azselfplay.play.runner import MatchSettings, open_match_files, play_match

        config, sprt = self.config, self.sprt
        for player in (a, b):
            await player.prepare()

        def decided(games: Sequence[PlayedGame]) -> bool:
            assert sprt is not None, "asked only where there is a test"
            return sprt.verdict(pair_counts([game.outcome_for_a for game in games])) != ""

        def on_game(number: int, played: PlayedGame) -> None:
            # Games of incomplete pairs are kept here, too; after Ctrl-C only complete pairs count.
            self._ended[number] = played
            if not write(played):
                self.code = Exit.DISK
            now, is_terminal = time.monotonic(), sys.stderr.isatty()
            if now - self._shown < (TTY_SECONDS if is_terminal else PLAIN_SECONDS):
                return
            self._shown = now
            text = progress(report(*self._names, _whole_pairs(self._ended), sprt), 2 * self.pairs)
            if is_terminal:  # a line that the terminal wraps could not be replaced by the next
                columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80  # 0: it does not say
                text = f"\r\x1b[K{text[: columns - 1]}"
            with contextlib.suppress(OSError):  # its disk may be full, too
                print(text, end="" if is_terminal else "\n", file=sys.stderr, flush=True)

        settings = MatchSettings(config.concurrent, config.max_plies, self.known, config.seed)
        until = decided if sprt else None
        event = " - ".join(self._names)
        with open_match_files(self.game, config.pgn, config.moves, event) as write:
            try:
                games = await play_match(
                    self.game, a, b, self.openings, settings, on_game=on_game, until=until
                )
                self._ended = dict(enumerate(games))
            finally:
                # The progress line has no newline yet.
                if sys.stderr.isatty():
                    print(file=sys.stderr)

    def report(self) -> Report:
        """Return the result so far. In a match that was cut short, only complete pairs count."""
        return report(*self._names, _whole_pairs(self._ended), self.sprt)

    def openings_played(self) -> list[str]:
        """Return the ids of the openings of all complete pairs, each as often as it was played."""
        return [game.opening for game in _whole_pairs(self._ended) if not game.swapped]


@dataclass(frozen=True)
class Report:
    """The result of a match between A and B; wins are A's."""

    a: str
    b: str
    games: int
    wins: int
    draws: int
    losses: int
    as_first: tuple[int, int, int]
    """A's wins, draws, losses as the game's first side (chess: White)."""
    pentanomial: tuple[int, ...]
    """Pairs in which A scored 0, 1/2, 1, 3/2, 2 points."""
    distinct: int
    """Number of games that differ in start, moves or sides. All other games are repetitions."""
    reasons: dict[str, int]
    failures: dict[str, int]
    """Games lost by a failure, by player."""
    mean_plies: float
    ms_a_move: tuple[float, float]
    """Mean wall-clock milliseconds per move, of A and of B. With several games at once, this includes waiting
    for other games."""
    elo: EloEstimate | None
    """None until the first pair is complete."""
    sprt: Sprt | None
    llr: float
    """Log likelihood ratio of the SPRT."""
    verdict: str
    """H0, H1, or "" while there is none."""


def report(a: str, b: str, games: Sequence[PlayedGame], sprt: Sprt | None = None) -> Report:
    """Return the report on these games. Games 2i and 2i+1 are a pair; an odd last game does not count for Elo
    and SPRT."""
    from azselfplay.play.runner import ms_a_move

    outcomes = [game.outcome_for_a for game in games]
    counts = pair_counts(outcomes[: len(outcomes) // 2 * 2])
    paired = sum(counts) > 0
    first = [game.outcome_for_a for game in games if not game.swapped]
    return Report(
        a,
        b,
        len(games),
        *won_drawn_lost(outcomes),
        won_drawn_lost(first),
        counts,
        len({(game.start, game.actions, game.swapped) for game in games}),
        dict(Counter(game.reason for game in games).most_common()),
        dict(Counter(game.failed for game in games if game.failed)),
        sum(game.plies for game in games) / max(1, len(games)),
        ms_a_move(games),
        estimate(counts) if paired else None,
        sprt,
        sprt.log_likelihood_ratio(counts) if sprt and paired else 0.0,
        sprt.verdict(counts) if sprt and paired else "",
    )


def progress(now: Report, planned: int) -> str:
    """Return the progress line for a running match."""
    parts = [f"{now.games}/{planned} games", f"+{now.wins} ={now.draws} -{now.losses}"]
    if now.elo is not None:
        parts.append(f"Elo {elo_text(now.elo)}")
    if now.sprt is not None:
        parts.append(f"LLR {now.llr:+.2f} [{-BOUND:.2f}, {BOUND:.2f}]")
    if now.failures:
        parts.append(f"failures {sum(now.failures.values())}")
    return "  ".join(parts)


def table(done: Report, openings: str = "", at_once: int = 1) -> str:
    """Return the result as text for people. `openings` says how the games began, `at_once` how many were
    played at a time."""
    waiting = f" ({at_once} games at once)" if at_once > 1 else ""
    rows = [
        ("A", done.a),
        ("B", done.b),
        ("games", f"{done.games} ({done.distinct} distinct), {done.mean_plies:.1f} plies on average"),
        *([("openings", openings)] if openings else []),
        ("A won, drew, lost", f"{done.wins} {done.draws} {done.losses}"),
        ("  as the first side", " ".join(map(str, done.as_first))),
        ("pairs 0 1/2 1 3/2 2", " ".join(map(str, done.pentanomial))),
        ("ms a move of A, B", f"{done.ms_a_move[0]:.2f}, {done.ms_a_move[1]:.2f}{waiting}"),
    ]
    if done.elo is not None:
        rows += [
            ("score of A", f"{done.elo.score:.4f} [{done.elo.score_low:.4f}, {done.elo.score_high:.4f}]"),
            ("Elo of A over B", f"{elo_text(done.elo)} (95 %)"),
            ("A is the stronger", f"{100 * done.elo.los:.1f} %"),
        ]
    if done.sprt is not None:
        verdict = {"H0": "H0 accepted", "H1": "H1 accepted", "": "undecided"}[done.verdict]
        bounds = f"LLR {done.llr:+.2f} in [{-BOUND:.2f}, {BOUND:.2f}]"
        rows.append((f"SPRT {done.sprt.elo0:g}, {done.sprt.elo1:g}", f"{verdict}: {bounds}"))
    rows.append(("ended by", ", ".join(f"{reason} {n}" for reason, n in done.reasons.items())))
    if done.failures:
        rows.append(("failures", ", ".join(f"{name} {n}" for name, n in done.failures.items())))
    return "\n".join(f"{what:20} {value}" for what, value in rows)


def elo_text(elo: EloEstimate) -> str:
    """Return the estimate and its interval: `+12.3 [+7.8, +16.8]`."""
    return f"{elo.elo:+.1f} [{elo.elo_low:+.1f}, {elo.elo_high:+.1f}]"


def _whole_pairs(ended: Mapping[int, PlayedGame]) -> list[PlayedGame]:
    """Return the games of all pairs (2i and 2i+1) of which both have ended."""
    return [game for number, game in sorted(ended.items()) if number ^ 1 in ended]
