"""`azplay truth`: figures counted by hand, players whose errors are known, bad input."""

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import chess
import msgspec
import numpy as np
import pytest
from in_process import ends
from leaf_by_leaf import Answer, Leaf, LeafByLeaf

from azselfplay.games import get_game
from azselfplay.games.chess.knowledge import FINAL_MATES_IN_ONE, MATES_IN_ONE, mates_in
from azselfplay.games.knowledge import Row
from azselfplay.games.names import GAME_MODULES
from azselfplay.games.tic_tac_toe import knowledge as tree
from azselfplay.host.exits import Exit
from azselfplay.play import truth as command
from azselfplay.play.nets import LoadedNet
from azselfplay.play.truth_errors import (
    chosen_actions,
    count_errors,
    expected_errors,
    groups_of,
    measure,
    rows_for,
)
from azselfplay.search.evaluator import UniformEvaluator
from net.create import create
from protocol.messages import WeightsInfo

GAME = get_game("tic_tac_toe")


class Perfect(LeafByLeaf):
    """Knows tic-tac-toe: it puts all its prior on an action that keeps the result (`wrong`: on one that does
    not)."""

    def __init__(self, *, wrong: bool = False) -> None:
        super().__init__()
        self.wrong = wrong
        self.tree = tree.solve()

    def answer(self, leaf: Leaf) -> Answer:
        one = self.tree[int(leaf.features[0]), int(leaf.features[1])]
        good = [(int(action) in one.keeps) != self.wrong for action in leaf.actions]
        return np.array(good, np.float32) + np.float32(1e-6), float(one.value)


def player(evaluator: object) -> LoadedNet:
    return LoadedNet(GAME, 1, "scripted", 0, evaluator, 8)  # type: ignore[arg-type]


def row(group: str, keeps: set[int], legal: int, longer: dict[int, int] | None = None) -> Row:
    return Row(group, 1, frozenset(keeps), legal, longer=longer or {})


def test_errors_are_counted_over_all_rows_and_over_those_where_the_choice_matters() -> None:
    rows = [row("a", {0, 1}, 2), row("a", {0}, 4), row("b", {1}, 2), row("b", {2}, 2)]
    played = [1, 3, 1, 0]
    assert groups_of(rows) == ["a", "b", "all"]
    a, b, both = (count_errors(rows, played, group) for group in groups_of(rows))
    assert (a.rows, a.errors, a.matter, a.errors_matter) == (2, 0.5, 1, 1.0)
    assert (b.rows, b.errors, b.matter, b.errors_matter) == (2, 0.5, 2, 0.5)
    assert (both.rows, both.errors, both.matter) == (4, 0.5, 3)
    assert both.errors_matter == pytest.approx(2 / 3)
    by_lot = expected_errors(rows, "a")
    assert (by_lot.errors, by_lot.errors_matter) == (0.375, 0.75)


def test_the_delay_of_a_mate_is_in_moves_and_over_moves_that_keep_the_win() -> None:
    rows = [row("KQK", {0, 1}, 3, {0: 0, 1: 4}), row("KQK", {0}, 2, {0: 2}), row("KQK", {0}, 2, {0: 0})]
    assert count_errors(rows, [1, 0, 1], "KQK").longer == 1.5
    assert expected_errors(rows, "KQK").longer == pytest.approx((1 + 1 + 0) / 3)


@pytest.mark.parametrize("simulations", [0, 8])
def test_a_perfect_player_makes_no_error_and_never_loses_against_any_reply(simulations: int) -> None:
    found, _ = asyncio.run(measure([player(Perfect())], rows_for(GAME), [simulations]))
    (tree,) = found.groups
    assert (tree.rows, tree.errors, tree.errors_matter) == (4520, 0.0, 0.0)
    assert found.trees["first"].lost == found.trees["second"].lost == 0
    assert found.trees["first"].won > 0


def test_a_player_who_always_errs_is_counted_so_wherever_the_choice_matters() -> None:
    found, by_lot = asyncio.run(measure([player(Perfect(wrong=True))], rows_for(GAME), [0]))
    (tree,) = found.groups
    assert tree.errors_matter == 1.0
    assert tree.errors == tree.matter / tree.rows
    assert found.trees["second"].lost > 0
    assert by_lot.simulations is None
    assert 0 < by_lot.groups[0].errors < by_lot.groups[0].errors_matter < 1


def test_search_alone_finds_much_without_any_knowledge() -> None:
    rows = rows_for(GAME, limit=300)
    net = player(UniformEvaluator())
    few, many = (asyncio.run(chosen_actions(net, rows, count)) for count in (1, 200))
    assert count_errors(rows, many, "tree").errors < count_errors(rows, few, "tree").errors / 2


def test_chess_rows_are_the_same_for_a_seed_and_different_positions() -> None:
    chess = get_game("chess")
    rows = rows_for(chess, seed=3, limit=20)
    assert rows == rows_for(chess, seed=3, limit=20)
    assert len({one.start for one in rows}) == 80
    assert {one.value for one in rows} == {1}
    assert {" w " in one.start for one in rows} == {True, False}


def test_mates_in_one_are_those_of_python_chess() -> None:
    """There is one position from each of 1,000 games; half are for final judgements only. Only moves that
    mate count."""
    rows = [*mates_in(MATES_IN_ONE), *mates_in(FINAL_MATES_IN_ONE)]
    assert len({row.start for row in rows}) == 2 * 500
    for row in rows:
        board, notation = chess.Board(row.start), get_game("chess").notation
        found = {move.uci() for move in board.legal_moves if board.san(move).endswith("#")}
        state = notation.state_from_text(row.start)
        assert found
        assert {notation.action_to_text(state, action) for action in row.keeps} == found
        assert row.legal == board.legal_moves.count()


def test_the_command_measures_the_newest_network_of_a_run(tmp_path, monkeypatch, capsys) -> None:
    folder = tmp_path / "run" / "weights"
    folder.mkdir(parents=True)
    digest = create("tic_tac_toe", 0, "tiny", 1, folder / "new.safetensors")
    (folder / "new.safetensors").rename(folder / f"000000-{digest[:8]}.safetensors")
    info = WeightsInfo(0, 0, bytes.fromhex(digest), 1, "tic_tac_toe", "2x32")
    (folder / "current.json").write_bytes(msgspec.json.encode(info))
    out = tmp_path / "truth.json"
    flags = ["--simulations", "0,2", "--limit", "40", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", ["azplay truth", str(tmp_path / "run"), *flags])
    assert command.main() == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in table[1::2]] == [
        f"000000-{digest[:8]} (step 0)",
        "untrained tiny",
        "random moves",
    ]
    figures = json.loads(out.read_text())
    assert figures["game"] == "tic_tac_toe"
    assert [one["simulations"] for one in figures["players"]] == [0, 2, 0, 2, None]
    assert all(one["groups"]["tree"]["rows"] == 40 for one in figures["players"])


def test_a_game_without_known_truth_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not show the endings of another game instead."""
    fresh = replace(GAME, name="fresh", knowledge="")
    monkeypatch.setitem(GAME_MODULES, "fresh", "games.fresh")
    monkeypatch.setitem(sys.modules, "games.fresh", SimpleNamespace(GAME=fresh))
    create("fresh", 0, "tiny", 1, tmp_path / "net.safetensors")
    monkeypatch.setattr(sys, "argv", ["azplay truth", str(tmp_path / "net.safetensors"), "--no-untrained"])
    with ends(Exit.CONFIG, "no truth is known for the game fresh"):
        command.main()


def test_one_signal_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def for_ever(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    (tmp_path / "net.safetensors").touch()
    monkeypatch.setattr(command, "measure_network", for_ever)
    monkeypatch.setattr(sys, "argv", ["azplay truth", str(tmp_path / "net.safetensors")])
    assert command.main() == Exit.INTERRUPTED


@pytest.mark.parametrize("text", ["", "a", "1,,2", "-1", "30000", "1.5"])
def test_simulations_that_make_no_sense_are_refused(text: str) -> None:
    with ends(Exit.CONFIG, "--simulations"):
        command.simulations_from(text)
