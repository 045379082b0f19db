"""The result of a match: counts, Elo, reasons, as data and as a table. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.match.elo import EloEstimate, Sprt, estimate, pair_counts
from evaluation.match.runner import PlayedGame


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
    """A's wins, draws, losses when A moved first."""
    pentanomial: tuple[int, ...]
    """Pairs in which A scored 0, 1/2, 1, 3/2, 2 points."""
    distinct: int
    """Games that differ in start, moves or first player. The others are repetitions."""
    reasons: dict[str, int]
    failures: dict[str, int]
    """Games lost by a failure or on time, by player."""
    mean_plies: float
    ms_a_move: tuple[float, float]
    """Wall clock of A and of B; with several games at once it includes waiting for the others."""
    elo: EloEstimate | None
    """None before the first pair is complete."""
    sprt: Sprt | None
    llr: float
    """Log likelihood ratio of the SPRT."""
    verdict: str
    """H0, H1, or "" while there is none."""


def report(a: str, b: str, games: Sequence[PlayedGame], sprt: Sprt | None = None) -> Report:
    """Count games. Games 2i and 2i+1 are a pair; an odd last game does not count in Elo and SPRT."""
    outcomes = [game.outcome_for_a for game in games]
    counts = pair_counts(outcomes[: len(outcomes) // 2 * 2])
    paired = sum(counts) > 0
    first = [game.outcome_for_a for game in games if not game.swapped]
    return Report(
        a,
        b,
        len(games),
        *_won_drawn_lost(outcomes),
        _won_drawn_lost(first),
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


def ms_a_move(games: Sequence[PlayedGame]) -> tuple[float, float]:
    """Mean milliseconds of A and of B for a move; 0 for a player who chose none."""
    moves, seconds = [0, 0], [0.0, 0.0]
    for game in games:
        for side in (0, 1):
            player = side ^ game.swapped
            moves[player] += game.moves[side]
            seconds[player] += game.seconds[side]
    return 1000 * seconds[0] / max(1, moves[0]), 1000 * seconds[1] / max(1, moves[1])


def _won_drawn_lost(outcomes: Sequence[int]) -> tuple[int, int, int]:
    return outcomes.count(1), outcomes.count(0), outcomes.count(-1)


def progress(now: Report, planned: int) -> str:
    """One line while the match is running."""
    parts = [f"{now.games}/{planned} games", f"+{now.wins} ={now.draws} -{now.losses}"]
    if now.elo is not None:
        parts.append(f"Elo {elo_text(now.elo)}")
    if now.sprt is not None:
        parts.append(f"LLR {now.llr:+.2f} [{now.sprt.lower:.2f}, {now.sprt.upper:.2f}]")
    if now.failures:
        parts.append(f"failures {sum(now.failures.values())}")
    return "  ".join(parts)


def elo_text(elo: EloEstimate) -> str:
    """The estimate and its interval: `+12.3 [+7.8, +16.8]`."""
    return f"{elo.elo:+.1f} [{elo.elo_low:+.1f}, {elo.elo_high:+.1f}]"


def table(done: Report, openings: str = "", at_once: int = 1) -> str:
    """The result for people. `openings` says how its games began, `at_once` how many were played at a
    time."""
    waiting = f" ({at_once} games at once)" if at_once > 1 else ""
    rows = [
        ("A", done.a),
        ("B", done.b),
        ("games", f"{done.games} ({done.distinct} distinct), {done.mean_plies:.1f} plies on average"),
        *([("openings", openings)] if openings else []),
        ("A won, drew, lost", f"{done.wins} {done.draws} {done.losses}"),
        ("  moving first", " ".join(map(str, done.as_first))),
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
        bounds = f"LLR {done.llr:+.2f} in [{done.sprt.lower:.2f}, {done.sprt.upper:.2f}]"
        rows.append((f"SPRT {done.sprt.elo0:g}, {done.sprt.elo1:g}", f"{verdict}: {bounds}"))
    rows.append(("ended by", ", ".join(f"{reason} {n}" for reason, n in done.reasons.items())))
    if done.failures:
        rows.append(("failures", ", ".join(f"{name} {n}" for name, n in done.failures.items())))
    return "\n".join(f"{what:20} {value}" for what, value in rows)


def as_json(done: Report) -> dict[str, Any]:
    """The report as data for JSON; infinite Elo becomes null."""
    return {name: _finite(value) for name, value in asdict(done).items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
