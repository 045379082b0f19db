"""The sides of `make peers`: their answers, what happens when one fails, and the tables made of them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import chess
import numpy as np
import pytest

from azselfplay.games import get_game
from azselfplay.games.spec import NO_ROOT
from bench.peers import __main__ as peers
from bench.peers import asyncio_chess, one_position_a_call
from bench.peers.__main__ import ROOT, Missing, Process, Side
from bench.peers.answering import Counts
from bench.peers.plan import (
    BEGIN,
    END,
    FREE,
    IN_PROCESS,
    OURS,
    PAGE,
    SERVED,
    Group,
    Measured,
    commands,
    groups,
    table,
    written_into,
)

GROUP = Group("connect_four", 2, True, (IN_PROCESS, SERVED))


def _counts(simulations: float | None, evaluations: float = 50.0) -> Counts:
    return Counts(1.0, simulations, evaluations)


def _commands(script: str, processes: int = 1) -> list[tuple[list[str], list[int]]]:
    core = min(os.sched_getaffinity(0))
    return [([sys.executable, "-c", script], [core])] * processes


def test_a_side_that_fails_says_why_with_the_last_line_of_its_error() -> None:
    side = Side(_commands("import not_a_package"))
    with pytest.raises(Missing, match="No module named 'not_a_package'"):
        side.ready()
    side.close()
    with pytest.raises(Missing, match="No such file"):
        Process(["/no/such/python"], [0])
    side = Side(_commands("from bench.peers.answering import *\nanswer({}, lambda seconds: 1 / 0)"))
    side.ready()
    with pytest.raises(Missing, match="ZeroDivisionError"):
        side.measure(0.1)
    side.close()


def test_the_table_has_ratios_turn_by_turn_and_names_who_is_missing() -> None:
    measured = Measured(GROUP, missing={"OpenSpiel": "ModuleNotFoundError: no such thing"})
    measured.turns = {OURS: [_counts(1000), _counts(500)], "slow": [_counts(16), _counts(8)]}
    lines = table(measured)
    assert lines[0] == "**Connect Four, 3x48 network, 2 cores**"
    assert lines[4] == "| ours | 750 (500 to 1,000) | 50 | 0.938 |  |"
    assert lines[5] == "| slow | 12 (8 to 16) | 50 | 0.015 | 62.5 (62.5 to 62.5) times |"
    assert lines[-1] == "Not measured: OpenSpiel: ModuleNotFoundError: no such thing"


def test_tables_are_written_between_the_marks_of_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    new = written_into(page, ["| new |"])
    assert new.startswith(page[: page.index(BEGIN)])
    assert new.endswith(page[page.index(END) :])
    assert "| new |" in new
    with pytest.raises(ValueError, match="has no"):
        written_into("a page without marks", [])


def test_every_side_is_a_module_and_each_core_has_its_process() -> None:
    for group in groups(2):
        for way in group.ways:
            sides = commands(group, way, Path("peers-python"), Path("cache"))
            assert [core for _, cores in sides for core in cores] == sorted(os.sched_getaffinity(0))[
                : group.cores
            ]
            assert (ROOT / "bench" / "peers" / f"{way.module}.py").exists()
            assert (sides[0][0][0] == "peers-python") == way.is_peers
    assert {group.cores for group in groups(1)} == {1}


def test_a_missing_program_is_left_out_and_the_others_are_measured(monkeypatch, capsys) -> None:
    """The side in plain Python really plays; the one that needs other packages reports that they are
    missing."""
    ways = tuple(way for way in FREE if way.module in ("one_position_a_call", "with_pgx"))
    monkeypatch.setattr(peers, "groups", lambda _cores: [Group("connect_four", 1, False, ways)])
    assert peers.main(["--seconds", "0.1", "--turns", "1", "--python", sys.executable]) == 1
    printed = capsys.readouterr().out
    assert "Not measured: pgx with mctx: ModuleNotFoundError" in printed
    assert json.loads(printed.splitlines()[-1]).popitem()[1]["one position a call"] > 0


# ---- The sides that we wrote ourselves --------------------------------------------------------------


def test_connect_four_of_one_position_a_call_has_the_rules_of_ours() -> None:
    game, rng = get_game("connect_four"), np.random.default_rng(0)
    for _ in range(40):
        state = game.notation.state_from_text("")
        board, ended = np.zeros((6, 7), np.int8), False
        search = one_position_a_call.Search(one_position_a_call.free)
        while not ended:
            legal = np.zeros(7, np.uint16)
            count = game.rules.legal_actions(state[None], 1, legal)
            assert legal[:count].tolist() == np.flatnonzero(board[0] == 0).tolist()
            column = int(rng.choice(legal[:count]))
            after = np.zeros_like(state)
            game.rules.play(state, column, after)
            state, board = after, one_position_a_call.after(board, column)
            count = game.rules.legal_actions(state[None], 1, legal)
            ended = game.rules.end_reason(state[None], 1, count, NO_ROOT) > 0
            assert (search.value_at_end(board) is not None) == ended


def test_the_search_of_one_position_a_call_finds_a_win_in_one() -> None:
    board = np.zeros((6, 7), np.int8)
    board[5, :3], board[4, :3] = 1, -1
    search = one_position_a_call.Search(one_position_a_call.free)
    assert search.visits(board, 200).argmax() == 3


def test_moves_on_python_chess_have_the_actions_of_our_notation() -> None:
    game = get_game("chess")
    for fen in (
        chess.STARTING_FEN,
        "1n2k3/P7/8/8/8/8/7p/R3K1N1 w Q - 0 1",
        "4k3/8/8/8/8/8/p6p/1N2K1N1 b - - 0 1",
    ):
        board = chess.Board(fen)
        state = game.notation.state_from_text(fen)
        legal = np.zeros(game.max_legal, np.uint16)
        count = game.rules.legal_actions(state[None], 1, legal)
        actions = [asyncio_chess.action_of(move, board.turn) for move in board.legal_moves]
        assert sorted(actions) == sorted(legal[:count].tolist())
