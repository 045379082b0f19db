"""How a line of input is read, and how a bad line is answered."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from changed_settings import self_play
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.games import get_game
from azselfplay.play.analysis import (
    MAX_MOVES,
    AnalysisRequest,
    BadRequest,
    InFlight,
    _visits,
    parse,
    trees_in_flight,
)
from azselfplay.play.driver import LineSplitter
from azselfplay.search.result import SearchResult


def test_what_a_line_leaves_out_has_a_default() -> None:
    assert parse(b'{"id": 7}', 100) == AnalysisRequest(7, "", (), 100)
    full = b'{"id": "x", "fen": "f", "moves": ["a", "b"], "simulations": 0}'
    assert parse(full, 100) == AnalysisRequest("x", "f", ("a", "b"), 0)


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"id": 1, "move": ["e2e4"]}, "'moves'"), ({"id": 1, "sims": 5}, "'simulations'"),
     ({"id": 1, "simulations": 20_001}, "20000"), ({"id": 1, "simulations": True}, "whole number"),
     ({"id": 1, "simulations": -1}, "whole number"), ({"id": 1, "moves": "e2e4"}, "list"),
     ({"id": 1, "moves": [4]}, "list of texts"), ({"id": 1, "moves": ["e2e4", "x" * 41]}, "move 2"),
     ({"id": 1, "moves": ["e2e4"] * (MAX_MOVES + 1)}, "at most 4096"),
     ({"id": 1, "fen": "x" * 4097}, "4096"), ({"id": 1, "fen": 5}, "fen")],
)  # fmt: skip
def test_a_wrong_field_is_named_with_the_id(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(BadRequest, match=word) as caught:
        parse(json.dumps(fields).encode(), 100)
    assert caught.value.request_id == 1


@pytest.mark.parametrize(
    "line",
    [None, b"x", b"[1]", b"{}", b'{"id": null}', b'{"id": 1.5}', b'{"id": true}',
     b'{"id": "\\ud800"}', b"\xff", b'{"id": 9223372036854775808}', b"[" * 100_000,
     b'{"id": "' + b"y" * 201 + b'"}'],
)  # fmt: skip
def test_a_line_whose_id_cannot_be_read_has_none(line: bytes | None) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(line, 100)
    assert caught.value.request_id is None


@given(st.binary())
def test_any_bytes_are_a_request_or_a_bad_one(line: bytes) -> None:
    try:
        request = parse(line, 1)
    except BadRequest:
        return
    assert isinstance(request, AnalysisRequest)


@given(st.lists(st.binary(max_size=12)), st.integers(1, 9))
def test_lines_are_the_same_however_the_stream_is_cut(parts: list[bytes], limit: int) -> None:
    """Lines over the limit become None, and the lines after them are whole."""
    splitter = LineSplitter(limit)
    lines = [line for part in parts for line in splitter.feed(part)] + splitter.finish()
    expected = b"".join(parts).split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert lines == [line if len(line) <= limit else None for line in expected]


def test_a_line_without_end_takes_no_memory() -> None:
    splitter = LineSplitter(100)
    for _ in range(1000):
        splitter.feed(b"x" * 90)
    assert len(splitter._partial) <= 190
    assert splitter.feed(b"\nuci\n") == [None, b"uci"]


def test_room_is_bounded_in_positions_and_in_simulations_but_takes_one_of_any_size() -> None:
    """A position that is too large to fit beside others waits until it is alone."""
    in_flight = InFlight(positions=2, simulations=100)
    assert in_flight.fits(5000)
    in_flight.enter(60)
    assert in_flight.fits(40)
    assert not in_flight.fits(41)
    in_flight.enter(10)
    assert not in_flight.fits(0)
    in_flight.leave(60)
    assert in_flight.fits(90)


def test_few_trees_are_in_flight_if_they_are_large() -> None:
    chess, go = get_game("chess"), get_game("go")
    assert (trees_in_flight(0, 64, chess, 100), trees_in_flight(5, 64, chess, 100)) == (192, 5)
    assert 1 < trees_in_flight(0, 64, go, 20_000) < trees_in_flight(0, 64, chess, 20_000) < 192
    assert trees_in_flight(0, 64, go, 10**9) == 1


@pytest.mark.parametrize("sizes", [[100], [1, 1, 100], [2, 100]])
def test_a_byte_order_mark_is_skipped_at_the_start_of_a_stream_and_nowhere_else(sizes: list[int]) -> None:
    splitter, data, found = LineSplitter(100), b"\xef\xbb\xbfuci\n\xef\xbb\xbfuci\n", []
    for size in sizes:
        found += splitter.feed(data[:size])
        data = data[size:]
    assert found == [b"uci", b"\xef\xbb\xbfuci"]


def test_shares_without_scores_are_answered_as_visits_in_the_same_proportion() -> None:
    result = SearchResult(np.array([2, 5, 7], np.uint16), np.array([7498, 2501, 1], np.int32), 0.0, True)
    tree: Any = SimpleNamespace(settings=self_play(simulations=64))
    assert _visits(tree, result) == {2: 48, 5: 16}
