"""Parses a line of input as a position to analyse, or says why it cannot be one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from games.nearest import nearest
from protocol.messages import MAX_START
from protocol.settings import MAX_SIMULATIONS

MAX_LINE = 256 * 1024
"""Most bytes in a line."""
MAX_MOVES = 4096
"""Most moves before the position."""
MAX_MOVE, MAX_FEN, MAX_ID = 16, MAX_START, 200
"""Most characters in a move, a start position and an id: error messages repeat them."""
MAX_INTEGER_ID = 2**63

FIELDS = ("id", "fen", "moves", "simulations")

Id = str | int


@dataclass(frozen=True)
class Request:
    """A position: `fen` (empty: the usual start), then `moves`. 0 simulations: the network alone."""

    id: Id
    fen: str
    moves: tuple[str, ...]
    simulations: int


class BadRequest(ValueError):
    """The text says what is wrong with a line. `request_id` is None when the id could not be read."""

    def __init__(self, reason: str, request_id: Id | None = None) -> None:
        super().__init__(reason)
        self.request_id = request_id


def parse(line: bytes | None, simulations: int) -> Request:
    """The request in `line` (None: a line that was too long). Raises BadRequest.

    `simulations` is for lines without a number of their own.
    """
    fields = _fields(line)
    request_id = _id(fields)
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        meant = nearest(unknown[0], FIELDS)
        raise BadRequest(f"{unknown[0][:50]!r} is not a field; the nearest is {meant!r}", request_id)
    return Request(
        request_id,
        _fen(fields, request_id),
        _moves(fields, request_id),
        _simulations(fields, simulations, request_id),
    )


def _fields(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise BadRequest(f"the line is longer than {MAX_LINE} bytes")
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"not a line of JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRequest('not a JSON object; a line looks like {"id": 1, "moves": []}')
    return fields


def _id(fields: dict[str, Any]) -> Id:
    if "id" not in fields:
        raise BadRequest("no id; give each line a text or a whole number of its own")
    request_id = fields["id"]
    if isinstance(request_id, str) and len(request_id) <= MAX_ID:
        return request_id
    if type(request_id) is int and abs(request_id) < MAX_INTEGER_ID:
        return request_id
    raise BadRequest(f"the id must be a text of at most {MAX_ID} characters or a whole number of 64 bits")


def _fen(fields: dict[str, Any], request_id: Id) -> str:
    fen = fields.get("fen", "")
    if not isinstance(fen, str) or len(fen) > MAX_FEN:
        raise BadRequest(f"fen must be a text of at most {MAX_FEN} characters", request_id)
    return fen


def _moves(fields: dict[str, Any], request_id: Id) -> tuple[str, ...]:
    moves = fields.get("moves", [])
    if not isinstance(moves, list) or not all(isinstance(move, str) for move in moves):
        raise BadRequest('moves must be a list of texts, such as ["e2e4", "e7e5"]', request_id)
    if len(moves) > MAX_MOVES:
        raise BadRequest(f"{len(moves)} moves, at most {MAX_MOVES} are taken", request_id)
    for number, move in enumerate(moves, 1):
        if len(move) > MAX_MOVE:
            raise BadRequest(
                f"move {number} has {len(move)} characters, a move has at most {MAX_MOVE}", request_id
            )
    return tuple(moves)


def _simulations(fields: dict[str, Any], default: int, request_id: Id) -> int:
    simulations = fields.get("simulations", default)
    if type(simulations) is not int or not 0 <= simulations <= MAX_SIMULATIONS:
        raise BadRequest(f"simulations must be a whole number from 0 to {MAX_SIMULATIONS}", request_id)
    return simulations
