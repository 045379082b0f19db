"""Networks trained on the truth about a run's positions, compared with those trained on the run's own
targets."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.random_games import random_game
from bench.stored_games import entry
from experiments import on_truth
from experiments.labelled_games import LabelledGames, label, load, moved_rows, save
from games import get_game
from games.game_history import GameHistory
from games.knowledge import Row, Solution, knowledge_of
from protocol.records import GameRecord
from runtime.exits import Fatal
from store.sqlite import Store

GAME = get_game("tic_tac_toe")


def games(count: int) -> list[GameRecord]:
    rng = np.random.default_rng(0)
    return [random_game(GAME, rng, simulations=20) for _ in range(count)]


def solution() -> Solution:
    found = knowledge_of(GAME).solution
    assert found is not None
    return found


def labelled(count: int = 60, apart_from: Sequence[Row] = ()) -> LabelledGames:
    return label(GAME, games(40), solution(), apart_from, count)


def after(moves: Sequence[int]) -> GameHistory:
    played = GameHistory(GAME)
    for move in moves:
        played.play(move)
    return played


def features(played: GameHistory) -> bytes:
    packed = np.zeros(GAME.feature_words(1), np.uint64)
    GAME.rules.encode(played.states[-1:], 1, 1, packed)
    return packed.tobytes()


def row_of(moves: Sequence[int]) -> Row:
    known = solution().known(after(moves).states)
    assert known is not None
    return Row(known.group, "", tuple(moves), known.value, known.keeps, known.legal, {})


def test_labels_are_those_of_the_solver_and_no_position_comes_twice() -> None:
    found = labelled()
    truth = {features(after(row.moves)): row for row in solution().rows(1, 0)}
    rows = [truth[one.tobytes()] for one in found.packed_features]
    assert len({one.tobytes() for one in found.packed_features}) == len(rows) == 60
    assert [set(np.flatnonzero(keeps)) for keeps in found.keeps] == [set(row.keeps) for row in rows]
    assert found.values.tolist() == [row.value for row in rows]
    assert found.legal.sum(axis=1).tolist() == [row.legal for row in rows]
    assert found.matters.tolist() == [row.matters for row in rows]
    assert np.allclose(found.visit_shares.sum(axis=1), 1)


def test_neither_a_position_that_judges_nor_an_image_of_it_is_taken() -> None:
    images = {features(after([corner])) for corner in (0, 2, 6, 8)}
    assert images & {one.tobytes() for one in labelled().packed_features}
    left = labelled(apart_from=[row_of([2])])
    assert not images & {one.tobytes() for one in left.packed_features}


def test_what_is_known_of_an_image_is_what_the_solver_says_of_it() -> None:
    moves = [0, 4, 1]
    row = row_of(moves)
    keeps = np.zeros((1, GAME.actions), np.bool_)
    keeps[0, list(row.keeps)] = True
    packed = np.frombuffer(features(after(moves)), np.uint64).reshape(1, -1)
    one = labelled(1)._replace(packed_features=packed, keeps=keeps)
    images = one.moved(GAME, 1)
    for number, symmetry in enumerate(GAME.symmetries, 1):
        image = [int(symmetry.actions[move]) for move in moves]
        assert images.packed_features[number].tobytes() == features(after(image))
        assert set(np.flatnonzero(images.keeps[number])) == set(row_of(image).keeps)
    assert moved_rows(GAME, 1, 0, packed).shape == packed.shape


def test_a_network_is_told_moves_that_keep_the_result_alike_or_what_the_search_visited() -> None:
    found, numbers = labelled(), np.array([3, 0])
    told = on_truth.samples_of(found, numbers, on_truth.TARGETS["truth"])
    keeps = found.keeps[numbers]
    assert told.shares.tolist() == pytest.approx(
        (keeps / keeps.sum(axis=1, keepdims=True))[told.rows, told.actions]
    )
    assert told.classes.tolist() == (1 - found.values[numbers]).tolist()
    as_run = on_truth.samples_of(found, numbers, on_truth.TARGETS["visits and outcome"])
    assert as_run.shares.tolist() == pytest.approx(found.visit_shares[numbers][as_run.rows, as_run.actions])
    assert as_run.classes.tolist() == (1 - found.outcomes[numbers]).tolist()


def test_labels_come_back_from_their_file_and_no_other_file_is_taken_for_one(tmp_path: Path) -> None:
    found = labelled()
    save(tmp_path / "labels.npz", found)
    back = load(tmp_path / "labels.npz", GAME)
    assert all((old == new).all() for old, new in zip(found, back, strict=True))
    with pytest.raises(Fatal, match="another game"):
        load(tmp_path / "labels.npz", get_game("connect_four"))
    (tmp_path / "other.npz").write_bytes(b"no labels")
    with pytest.raises(Fatal, match="delete it"):
        load(tmp_path / "other.npz", GAME)


def test_games_without_a_known_position_are_an_error() -> None:
    with pytest.raises(Fatal, match="no position"):
        label(GAME, [], solution(), [], 10)


def test_values_of_a_network_that_was_told_the_truth_are_nearer_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "games.db", GAME.name)
    store.commit([entry(record) for record in games(500)])
    store.close()
    flags = ["--games", str(tmp_path / "games.db"), "--positions", "400", "--net", "tiny", "--steps", "100"]
    told = [
        "--told",
        "truth",
        "visits and outcome",
        "--out",
        str(tmp_path),
        "--labels",
        str(tmp_path / "l.npz"),
    ]
    # Otherwise it would flush tiny numbers to 0 in everything that this process does later.
    monkeypatch.setattr(on_truth, "prepare_thread", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["on_truth", GAME.name, *flags, *told])
    assert on_truth._main() == 0
    folder = tmp_path / "on_truth-tic_tac_toe"
    truth, as_run = json.loads((folder / "found.json").read_bytes())["found"]
    assert truth["value_error"] < as_run["value_error"]
    assert truth["own_errors"]["tree"] < as_run["own_errors"]["tree"]
    assert "| tiny | visits and outcome | 200 |" in (folder / "README.md").read_text()
    assert (tmp_path / "l.npz").exists()
