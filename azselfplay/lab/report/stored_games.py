"""Stored games as text: lists, one game ply by ply, PGN and other formats; and whether a game follows the
rules.

In PGN the results of the search are comments: `[%value +0.123] [%visits 312/800] [%prior_value +0.080]
[%prior_kl 0.412] [%depth 5.3/14]`: the root's value after the search for the side that moves, in [-1, 1];
visits of the move played and of all moves (of Gumbel: ten-thousandths of its policy); the network's value; KL
of the search's policy from the network's, nats; mean and largest depth of the simulations, plies. The last
three appear only if they are known. Other moves that the search visited can be added: as variations of one
move in PGN and SGF, as comments elsewhere. These have no values, because records do not hold values of other
moves.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory, board_text
from azselfplay.games.game_texts import writers_of
from azselfplay.games.knowledge import RESULTS, GameWriter, WrittenMove, knowledge_of
from azselfplay.games.spec import PLY_CAP, RECORDED, RESIGNATION, Game, outcome_for_first_player
from azselfplay.host.exits import Exit, Fatal, output_utf8
from azselfplay.host.logs import on_one_line
from azselfplay.host.runs import check_result
from azselfplay.lab.report.figures import Bin
from azselfplay.store.reader import Range, StoreReader
from azselfplay.store.rows import Stored
from protocol.records import IMPROVED_POLICY, BadRecord, GameRecord

HEADER = (
    f"{'game':>8}  {'received (UTC)':19}  {'source':8}  {'plies':>5}  {'result':7}  {'weights':>11}  reason"
)

CANDIDATES = 4
"""Moves shown with their visits."""

PROGRESS_SECONDS = 5.0
"""Seconds between two lines of progress of `verified`."""

_IMPORTED = re.compile(r"(.*?) - (.*?)(?: ([\d?]{4}(?:[-/.,].*|\d{4})?))?")
"""Matches the source of an imported game: players and date (`games_command.record_of`)."""


# ---- For people ---------------------------------------------------------------------------------


def listed(game: Stored) -> str:
    received = datetime.fromtimestamp(game.received_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return (
        f"{game.seq:8}  {received}  {game.source:8}  {game.plies:5}  {RESULTS.get(game.outcome, '?'):7}  "
        f"{versions(game):>11}  {game.reason}"
    )


def versions(game: Stored) -> str:
    """Return the weights versions that played the game: "7", or "7-9" if new ones came meanwhile."""
    low, high = game.version_min, game.version_max
    return str(low) if low == high else f"{low}-{high}"


@dataclass(frozen=True)
class Ply:
    """A move and the result of its search."""

    side: int
    """The side that moved; 0: the first player."""
    move: str
    value: float | None
    """Value of the root after the search, for the side that moves, in [-1, 1]; None: there was no search."""
    visits: int
    """Visits of the move that was played; with `is_improved` ten-thousandths, as all visits here."""
    all_visits: int
    most_visited: tuple[tuple[str, int], ...]
    """Moves and their visits, most visited first."""
    prior_value: float | None = None
    """The network's value of the root, before the search; None: unknown, like the next two."""
    prior_kl: float | None = None
    """KL of the search's policy from the network's, nats."""
    depth: tuple[float, int] | None = None
    """Mean and largest depth of the simulations, plies."""
    is_improved: bool = False
    """Whether all visits here are shares of Gumbel's improved policy, also of moves never visited."""


def plies(game: Game, record: GameRecord, game_history: GameHistory) -> Iterator[Ply]:
    """Replay the record on `game_history`, and yield each ply after its move. Raises ValueError if it breaks
    a rule."""
    # The visits of all plies are stored one after the other; compute where each ply begins and ends.
    ends = np.cumsum(record.visited, dtype=np.int64).tolist()
    begins = [0, *ends]
    for index, action in enumerate(record.actions.tolist()):
        begin, end = begins[index], ends[index]
        visits = dict(
            zip(record.visit_actions[begin:end].tolist(), record.visits[begin:end].tolist(), strict=True)
        )
        side, state = game_history.side_to_move, game_history.state
        # Ties are sorted by action number, so that the text is always the same.
        order = sorted(visits, key=lambda action: (-visits[action], action))
        try:
            move = game.notation.action_to_text(state, action)
            most = tuple((game.notation.action_to_text(state, one), visits[one]) for one in order)
            game_history.play(action)
        except (ValueError, IndexError) as error:
            raise ValueError(f"ply {index}: {error}") from error
        value = float(record.root_values[index]) if visits else None
        # A ply without a search has no search figures: its columns hold NaN.
        search: dict[str, Any] = {}
        for name, column in (("prior_value", record.prior_values), ("prior_kl", record.prior_kl)):
            if not np.isnan(column[index]):
                search[name] = float(column[index])
        if not np.isnan(record.mean_depths[index]):
            search["depth"] = float(record.mean_depths[index]), int(record.max_depths[index])
        search["is_improved"] = bool(record.flags[index] & IMPROVED_POLICY)
        yield Ply(side, move, value, visits.get(action, 0), sum(visits.values()), most, **search)


def shown(game: Game, stored: Stored, record: GameRecord, boards: int) -> Iterator[str]:
    """Yield lines of text; a board after every `boards` plies, and at the start and the end."""
    yield HEADER
    yield listed(stored)
    player = on_one_line(record.source) or "?"
    if record.is_imported:
        yield f"imported, without a search: {player}"
    else:
        yield f"{record.simulations} simulations a move; played by {player} in {record.seconds:.1f} s"
    yield "value: of the root after the search, for the side that moves; prior: the network's value of it"
    of = "ten-thousandths of the improved policy, " if (record.flags & IMPROVED_POLICY).any() else ""
    yield f"visits: {of}of the move played, of all moves; KL: of the search's policy from the network's, nats"
    game_history = GameHistory(game, record.start, record.max_plies)
    yield from ("", game.notation.render(game_history.state), "")
    yield f"{'ply':>4}  {'move':6} {'value':>7} {'prior':>7} {'KL':>6}  {'visits':>11}  most visited"
    for number, ply in enumerate(plies(game, record, game_history), 1):
        most = ", ".join(f"{move} {visits}" for move, visits in ply.most_visited[:CANDIDATES])
        value, prior = (f"{'?' if one is None else f'{one:+.3f}':>7}" for one in (ply.value, ply.prior_value))
        divergence = f"{ply.prior_kl:6.3f}" if ply.prior_kl is not None else f"{'?':>6}"
        visits = f"{ply.visits:5}/{ply.all_visits:<5}"
        yield f"{number:4}  {ply.move:6} {value} {prior} {divergence}  {visits}  {most}"
        is_last = number == record.plies
        if is_last or (boards and number % boards == 0):
            yield from ("", board_text(game, game_history.state, is_over=is_last), "")
    score = game_history.score()
    points = "" if score is None else f", {score:+g}"
    yield f"{RESULTS.get(record.outcome, '?')} {record.reason}{points}"


def results_by_version(versions: Sequence[Bin]) -> Iterator[str]:
    """Yield lines of text, one for each weights version, and a last one for all together. A game in which
    several versions played counts for the newest."""
    yield (
        f"{'weights':>8} {'games':>8} {'first':>7} {'draw':>7} {'second':>7} {'plies':>7} "
        f"{'workers':>8} {'clients':>8}  ends"
    )
    for one in versions:
        yield _results(one.label, one)
    yield _results("all", reduce(add, versions, Bin(0, 0)))


def _results(name: str, results: Bin) -> str:
    games = max(1, results.games)
    first, draw, second = (f"{100 * results.outcomes[outcome] / games:.1f}%" for outcome in (1, 0, -1))
    ends = ", ".join(f"{reason} {number}" for reason, number in results.reasons.most_common())
    return (
        f"{name:>8} {results.games:8} {first:>7} {draw:>7} {second:>7} {results.plies / games:7.1f} "
        f"{results.sources['workers']:8} {results.sources['clients']:8}  {ends}"
    )


# ---- For other programs -------------------------------------------------------------------------


def export(
    games: StoreReader, wanted: Range, form: str, others: int, out: Path | None, say: Callable[[str], None]
) -> tuple[int, int]:
    """Write the games in `wanted` to `out` (None: standard output). Returns (exported, damaged) games.

    form: one of `writers_of`, in upper or lower case; "" is the first. others: how many other moves of each
    search to add, the most visited ones. Raises Fatal(CONFIG) for a format that the game does not have, or a
    file that cannot be written.
    """
    game = get_game(games.game)
    writers = writers_of(game)
    names = {name.lower(): name for name in writers}
    name = names.get(form.lower() or next(iter(names)))
    if name is None:
        text = f"--form is {form!r}, but games of {game.name} are exported as {', '.join(names)}"
        raise Fatal(text, Exit.CONFIG)
    between = {one.name: one.between for one in knowledge_of(game).formats}.get(name, "")
    event = f"azselfplay {games.path.resolve().parent.name}"

    def write_to(file: TextIO) -> tuple[int, int]:
        exported = damaged = 0
        for stored in games.rows(wanted):
            try:
                record = stored.record(game)
                text = written_record(writers[name], game, tags(event, stored, record), record, others)
            except (BadRecord, ValueError) as error:
                damaged += 1
                say(f"game {stored.seq} is damaged: {error}")
                continue
            file.write((between if exported else "") + text + "\n\n")
            exported += 1
        return exported, damaged

    if out is None:
        output_utf8()
        return write_to(sys.stdout)
    check_result(out, "--out")
    # The file is renamed at the end, so that nobody takes a part of the games for all of them.
    unfinished = out.with_name(out.name + ".partial")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            counts = write_to(file)
        unfinished.replace(out)
    except OSError as error:
        raise Fatal(f"cannot write {out}: {error.strerror}", Exit.DISK) from error
    finally:
        # On a full disk, the part would take space that the trainer needs to continue.
        with suppress(OSError):
            unfinished.unlink()
    return counts


def tags(event: str, stored: Stored, record: GameRecord) -> dict[str, str]:
    """Return PGN tags of a game: the usual seven first."""
    first = second = "?" if record.is_imported else f"weights {versions(stored)}"
    date = datetime.fromtimestamp(stored.received_at, UTC).strftime("%Y.%m.%d")
    source = on_one_line(record.source)
    if record.is_imported and (names := _IMPORTED.fullmatch(source)):
        first, second, date = names.groups("????.??.??")
    searched = {} if record.is_imported else {"Simulations": str(record.simulations)}
    return {
        "Event": event,
        "Site": source or "?",
        "Date": date,
        "Round": str(stored.seq),
        "White": first,
        "Black": second,
        "Result": RESULTS[record.outcome],
        "Termination": record.reason,
        "PlyCount": str(record.plies),
        **searched,
    }


def written_record(
    write: GameWriter, game: Game, headers: dict[str, str], record: GameRecord, others: int
) -> str:
    """Return a game as PGN, or in another format, with `others` other moves of each search. Raises ValueError
    if it breaks the rules."""
    game_history = GameHistory(game, record.start, record.max_plies)
    moves = [
        WrittenMove(ply.move, comment(ply), [((move,), said) for move, said in other_moves(ply, others)])
        for ply in plies(game, record, game_history)
    ]
    return write(headers, record.start, moves, "")


def other_moves(ply: Ply, most: int) -> list[tuple[str, str]]:
    """Return (move, comment) of the most visited moves that were not played, at most `most`."""
    visited = [(move, visits) for move, visits in ply.most_visited if move != ply.move]
    return [
        (move, f"[%visits {visits}/{ply.all_visits}] {visits / ply.all_visits:.0%}")
        for move, visits in visited[:most]
    ]


def comment(ply: Ply) -> str:
    if ply.value is None:
        return ""
    parts = [f"[%value {ply.value:+.3f}]", f"[%visits {ply.visits}/{ply.all_visits}]"]
    if ply.prior_value is not None:
        parts.append(f"[%prior_value {ply.prior_value:+.3f}]")
    if ply.prior_kl is not None:
        parts.append(f"[%prior_kl {ply.prior_kl:.3f}]")
    if ply.depth is not None:
        parts.append(f"[%depth {ply.depth[0]:.1f}/{ply.depth[1]}]")
    return " ".join(parts)


# ---- Whether a game is intact and follows the rules ---------------------------------------------


def verified(
    games: StoreReader,
    wanted: Range,
    name: Callable[[str], None],
    say: Callable[[str], None],
    most: float = math.inf,
) -> tuple[int, int]:
    """Return (checked, bad) games. `name` is told what is wrong with each of the first `most` bad ones, and
    `say` how far the check is."""
    game, checked, bad, told = get_game(games.game), 0, 0, time.monotonic()
    for stored in games.rows(wanted):
        checked += 1
        fault = fault_of(game, stored)
        if fault is not None:
            bad += 1
            if bad <= most:
                name(f"game {stored.seq}: {fault}")
        if time.monotonic() - told >= PROGRESS_SECONDS:
            told = time.monotonic()
            say(f"{checked:,} games checked, {bad:,} bad")
    return checked, bad


def fault_of(game: Game, stored: Stored) -> str | None:
    """Return the fault of a stored game; None if it has none."""
    try:
        record = stored.record(game)
    except BadRecord as error:
        return f"damaged: {error}"
    try:
        game_history = GameHistory(game, record.start, record.max_plies)
    except ValueError as error:
        return f"start position {record.start!r}: {error}"
    side = game_history.side_to_move
    for ply, action in enumerate(record.actions.tolist()):
        try:
            side = game_history.side_to_move
            game_history.play(action)
        except ValueError as error:
            return f"ply {ply}: {error}"
    reason, outcome = game_history.end_reason(), game_history.outcome()
    if reason is None and record.reason == RESIGNATION:  # with its move: the last mover has lost
        reason, outcome = RESIGNATION, outcome_for_first_player(-1, side)
    # An imported game was played without the cap, and may have ended by agreement at or beyond it.
    if reason in (None, PLY_CAP) and record.reason == RECORDED and record.is_imported:
        reason, outcome = RECORDED, record.outcome
    if reason != record.reason:
        return (
            f"it ends by {record.reason!r}, but after its last move the rules say {reason or 'it goes on'!r}"
        )
    if outcome != record.outcome:
        return f"its outcome is {record.outcome:+d}, but by {reason} it is {outcome:+d}"
    return None
