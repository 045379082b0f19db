"""Dishonest games: each is a mutation of an honest record, with the code that it must be refused with."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from azselfplay.games import get_game
from protocol.errors import Code
from protocol.records import OF_VISITS, PER_PLY, GameRecord

Mutation = Callable[[GameRecord], GameRecord]


def with_entry(record: GameRecord, column: str, index: int, value: Any) -> GameRecord:
    """Return a copy with one entry of a column replaced."""
    values = np.array(getattr(record, column))
    values[index] = value
    return dataclasses.replace(record, **{column: values})


def with_visits(record: GameRecord, ply: int, visits: dict[int, int], flag: int) -> GameRecord:
    """Return a copy with other visits at one ply."""
    first = int(record.visited[:ply].sum())
    last = first + int(record.visited[ply])
    columns = {
        name: np.concatenate([getattr(record, name)[:first], values, getattr(record, name)[last:]])
        for name, values in (
            ("visit_actions", np.array(list(visits), np.uint16)),
            ("visits", np.array(list(visits.values()), np.uint16)),
        )
    }
    record = dataclasses.replace(record, **columns)
    return with_entry(with_entry(record, "visited", ply, len(visits)), "flags", ply, flag)


def change(**fields: Any) -> Mutation:
    return lambda record: dataclasses.replace(record, **fields)


def without_last_ply(record: GameRecord) -> GameRecord:
    entries = len(record.visits) - int(record.visited[-1])
    per_ply = {name: getattr(record, name)[:-1] for name in PER_PLY}
    of_visits = {name: getattr(record, name)[:entries] for name in OF_VISITS}
    return dataclasses.replace(record, **of_visits, **per_ply)


def with_another_ply(record: GameRecord) -> GameRecord:
    """Return the game with its last ply once more, after the end."""
    entries = len(record.visits) - int(record.visited[-1])
    columns = {name: np.append(getattr(record, name), getattr(record, name)[-1:]) for name in PER_PLY}
    for name in OF_VISITS:
        column = getattr(record, name)
        columns[name] = np.append(column, column[entries:])
    return dataclasses.replace(record, **columns)


def repeated_action(record: GameRecord) -> GameRecord:
    """Let ply 1 repeat the action of ply 0 (an occupied cell; in Connect Four a full column)."""
    return with_entry(record, "actions", 1, record.actions[0])


def more_visits(record: GameRecord) -> GameRecord:
    """Add a visit at the first ply, where nothing can have been kept."""
    at = int(record.visits[: record.visited[0]].argmin())
    return with_entry(record, "visits", at, record.visits[at] + 1)


def other_end(record: GameRecord) -> GameRecord:
    names = [reason.name for reason in get_game(record.game).end_reasons[1:] if reason.name != record.reason]
    return dataclasses.replace(record, reason=names[0])


def turned_outcome(record: GameRecord) -> GameRecord:
    return dataclasses.replace(record, outcome=-record.outcome if record.outcome else 1)


MUTATIONS: dict[str, tuple[Mutation, Code]] = {
    "another game": (change(game="go_fish"), Code.WRONG_GAME),
    "fewer simulations": (change(simulations=7), Code.WRONG_SETTINGS),
    "another cap": (change(max_plies=500), Code.WRONG_SETTINGS),
    "another start": (change(start="nonsense"), Code.WRONG_SETTINGS),
    "future weights": (lambda r: with_entry(r, "versions", 1, 10_000), Code.UNKNOWN_VERSION),
    "action out of range": (lambda r: with_entry(r, "actions", 2, 65_000), Code.ILLEGAL_ACTION),
    "visit out of range": (lambda r: with_entry(r, "visit_actions", -1, 65_000), Code.BAD_VISITS),
    "inflated visits": (more_visits, Code.BAD_VISITS),
    "last ply missing": (without_last_ply, Code.UNFINISHED),
    "played on": (with_another_ply, Code.PLAYED_ON),
    "another end": (other_end, Code.WRONG_REASON),
    "ply cap claimed": (change(reason="ply_cap"), Code.WRONG_REASON),
    "other winner": (turned_outcome, Code.WRONG_OUTCOME),
}
