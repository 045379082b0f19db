"""Games as PGN with results of the search in comments, or in a similar format for games without PGN.

A comment is `[%value +0.123] [%visits 312/800] [%prior_value +0.080] [%prior_kl 0.412] [%depth 5.3/14]`: the
root's value after the search for the side that moves, in [-1, 1]; visits of the move played and of all moves;
the network's value; KL of the search's policy from the network's, nats; mean and largest depth of the
simulations, plies. The last three stand only where they are known.

Other moves that the search visited can be added: variations of one move in PGN and SGF, comments elsewhere.
They have no values: records hold none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

from games import get_game
from games.game_history import GameHistory
from games.knowledge import PgnWriter, WrittenMove, knowledge_of
from games.spec import Game
from protocol.records import BadRecord, GameRecord
from report.games.showing import RESULTS, Ply, plies, versions
from runtime.exits import Exit, Fatal
from runtime.logs import on_one_line
from store.reader import Range, StoreReader
from store.rows import Stored

Writer = Callable[[Game, dict[str, str], GameRecord, int], str]
"""(game, tags, record, how many other moves of each search to add) -> the game as text."""

TEXT = "text"
"""Our own format, which every game has: tags and moves."""
FORMS = {"gtp": "SGF", "usi": "CSA"}
"""The format of `Knowledge.pgn` by the protocol of engines; PGN for others."""


def forms_of(game: Game) -> dict[str, Writer]:
    """The formats in which games can be written, the usual one first: `PGN`, `CSA`, `KIF`, `text`."""
    known, found = knowledge_of(game), dict[str, Writer]()
    if known.pgn is not None:
        found[FORMS.get(game.notation.engine_protocol, "PGN")] = partial(as_pgn, known.pgn)
    found |= {name.upper(): partial(as_pgn, write) for name, write in known.more_forms.items()}
    return {**found, TEXT: as_text}


def _form_named(name: str, game: Game) -> str:
    forms = {form.lower(): form for form in forms_of(game)}
    if not name:
        return next(iter(forms.values()))
    if name.lower() not in forms:
        raise Fatal(
            f"--form is {name!r}, but games of {game.name} are exported as {', '.join(forms)}", Exit.CONFIG
        )
    return forms[name.lower()]


@dataclass(frozen=True)
class Manner:
    """How games are exported."""

    form: str = ""
    """One of `forms_of`, in upper or lower case; "" is the first."""
    others: int = 0
    """How many other moves of each search to add, the most visited ones."""


def export(
    games: StoreReader, wanted: Range, manner: Manner, out: Path | None, say: Callable[[str], None]
) -> tuple[int, int]:
    """Write the games in `wanted` to `out` (None: standard output). Returns (exported, damaged) games. Raises
    Fatal(CONFIG) for a format that the game does not have."""
    manner = replace(manner, form=_form_named(manner.form, get_game(games.game)))
    if out is None:
        return _export_to(sys.stdout, games, wanted, manner, say)
    partial = out.with_name(out.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            counts = _export_to(file, games, wanted, manner, say)
        partial.replace(out)
    except OSError as error:
        raise Fatal(f"cannot write {out}: {error.strerror}", Exit.DISK) from error
    return counts


def _export_to(
    file: TextIO, games: StoreReader, wanted: Range, manner: Manner, say: Callable[[str], None]
) -> tuple[int, int]:
    game, exported, damaged = get_game(games.game), 0, 0
    forms = forms_of(game)
    write = forms[manner.form]
    between = knowledge_of(game).between_games if manner.form == next(iter(forms)) else ""
    event = f"azselfplay {games.path.resolve().parent.name}"
    for stored in games.rows(wanted):
        try:
            record = stored.record(game)
            text = write(game, tags(event, stored, record), record, manner.others)
        except (BadRecord, ValueError) as error:
            damaged += 1
            say(f"game {stored.seq} is damaged: {error}")
            continue
        file.write((between if exported else "") + text + "\n\n")
        exported += 1
    return exported, damaged


def tags(event: str, stored: Stored, record: GameRecord) -> dict[str, str]:
    """PGN tags of a game: the usual seven first."""
    player = f"weights {versions(stored)}"
    source = on_one_line(record.source).replace('"', "'")  # not every writer escapes quotation marks
    found = {
        "Event": event,
        "Site": source or "?",
        "Date": datetime.fromtimestamp(stored.received_at, UTC).strftime("%Y.%m.%d"),
        "Round": str(stored.seq),
        "White": player,
        "Black": player,
        "Result": RESULTS[record.outcome],
        "Termination": record.reason,
        "PlyCount": str(record.plies),
        "Simulations": str(record.simulations),
    }
    return {**found, "Start": record.start} if record.start else found


def as_pgn(write: PgnWriter, game: Game, headers: dict[str, str], record: GameRecord, others: int) -> str:
    """A game as PGN. Raises ValueError if it breaks the rules."""
    game_history = GameHistory(game, record.start, record.max_plies)
    moves = [
        WrittenMove(ply.move, comment(ply), other_moves(ply, others))
        for ply in plies(game, record, game_history)
    ]
    return write({name: text for name, text in headers.items() if name != "Start"}, record.start, moves, "")


def as_text(game: Game, headers: dict[str, str], record: GameRecord, others: int = 0) -> str:
    """A game as tags and moves, with other moves in brackets after the one played. The move number grows with
    each turn of the first player. Raises ValueError if the game breaks the rules."""
    game_history = GameHistory(game, record.start, record.max_plies)
    lines, number, before = list[str](), 0, 1
    for ply in plies(game, record, game_history):
        number += ply.side < before or number == 0
        before = ply.side
        shown = [f"{ply.move} {{{comment(ply)}}}"]
        shown += [f"({move} {{{its_comment}}})" for move, its_comment in other_moves(ply, others)]
        lines.append(f"{number}{'...' if ply.side else '.'} {' '.join(shown)}")
    all_tags = {"Game": game.name, **headers}
    if (score := game_history.score()) is not None:
        all_tags["Score"] = f"{score:+g}"
    written = [f'[{name} "{text}"]' for name, text in all_tags.items()]
    return "\n".join([*written, "", *lines, headers["Result"]])


def other_moves(ply: Ply, most: int) -> list[tuple[str, str]]:
    """(move, comment) of the most visited moves that were not played, at most `most`."""
    visited = [(move, visits) for move, visits in ply.most_visited if move != ply.move]
    return [
        (move, f"[%visits {visits}/{ply.all_visits}] {visits / ply.all_visits:.0%}")
        for move, visits in visited[:most]
    ]


def comment(ply: Ply) -> str:
    parts = [f"[%value {ply.value:+.3f}]", f"[%visits {ply.visits}/{ply.all_visits}]"]
    if ply.prior_value is not None:
        parts.append(f"[%prior_value {ply.prior_value:+.3f}]")
    if ply.prior_kl is not None:
        parts.append(f"[%prior_kl {ply.prior_kl:.3f}]")
    if ply.depth is not None:
        parts.append(f"[%depth {ply.depth[0]:.1f}/{ply.depth[1]}]")
    return " ".join(parts)
