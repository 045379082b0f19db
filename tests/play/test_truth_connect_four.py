"""The Connect Four solver against plain minimax, and the labelled positions."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from naive_truth import minimax

from azselfplay.games.connect_four import GAME
from azselfplay.games.connect_four import knowledge as labelled
from azselfplay.games.connect_four.knowledge import rows_in
from azselfplay.games.connect_four.solver import Solver, board_of, key_of
from azselfplay.games.game_history import replay
from azselfplay.games.knowledge import BadTruth
from azselfplay.games.spec import State
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.truth_errors import read_rows


def random_states(stones: int, count: int, seed: int) -> list[State]:
    """Return positions after `stones` random moves, none of them over."""
    rng, found = np.random.default_rng([seed, stones]), []
    while len(found) < count:
        state = np.zeros(GAME.state_words, np.uint64)
        legal = GAME.legal_list(state)
        while int(state[2]) < stones and GAME.end_value(state) is None:
            state = GAME.after(state, int(rng.choice(legal)))
            legal = GAME.legal_list(state)
        if int(state[2]) == stones and GAME.end_value(state) is None:
            found.append(state)
    return found


@pytest.mark.parametrize("stones", [30, 34, 38, 41])
def test_late_positions_have_the_result_that_plain_minimax_finds(stones: int) -> None:
    solver = Solver(16)
    for state in random_states(stones, 12, seed=1):
        assert solver.value(state) == minimax(GAME, state, {})[0]


def test_the_columns_that_keep_the_result_are_those_that_plain_minimax_finds() -> None:
    solver = Solver(16)
    for state in random_states(31, 15, seed=2):
        after = {a: -minimax(GAME, GAME.after(state, a), {})[0] for a in GAME.legal_list(state)}
        best = max(after.values())
        assert solver.verdict(state) == (best, [a for a in after if after[a] == best])


def test_a_solver_that_remembers_little_or_answers_all_orders_of_questions_says_the_same() -> None:
    states = random_states(16, 12, seed=3) + random_states(20, 12, seed=3)
    large, small = Solver(20), Solver(4)
    values = [large.value(state) for state in states]
    assert [small.value(state) for state in reversed(states)] == values[::-1]
    assert [large.value(state) for state in states] == values


def test_threads_that_ask_at_once_are_answered_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """All players of a match, and tables that end its games, have one solver, which searches in its own
    arrays."""
    met, meeting = [], threading.Barrier(2)

    class Watched:
        def verdict(self, _state: State) -> tuple[int, list[int]]:
            with suppress(threading.BrokenBarrierError):
                met.append(meeting.wait(0.1))
            return 0, [0]

    monkeypatch.setattr(labelled, "_solver", Watched)
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(labelled.probe, random_states(20, 2, 0)))
    assert not met


def test_no_position_is_taken_for_an_entry_that_was_not_written_yet() -> None:
    states = [
        np.zeros(GAME.state_words, np.uint64),
        *random_states(1, 20, seed=7),
        *random_states(6, 20, seed=7),
    ]
    keys = [int(key_of(*board_of(state))) for state in states]
    assert 0 not in keys
    assert len(set(keys)) == len({state.tobytes() for state in states})


def after(columns: str, *, mirrored: bool = False) -> State:
    """Return the position after moves, or its mirror image."""
    return replay(GAME, moves=[str(8 - int(one)) if mirrored else one for one in columns]).state


def test_finals_are_judged_on_positions_that_are_not_tuned_on() -> None:
    """They are not mirror images of those, either."""
    tuned, final = (
        {
            frozenset(after(row.moves, mirrored=one).tobytes() for one in (False, True))
            for row in labelled.read(file)
        }
        for file in (labelled.COMMITTED, labelled.FINAL)
    )
    assert (len(tuned), len(final)) == (5001, 3000)
    assert not tuned & final


@pytest.mark.parametrize(("file", "each"), [(labelled.COMMITTED, 17), (labelled.FINAL, 20)])
def test_a_set_that_comes_with_the_program_is_balanced_and_a_part_solved_anew_agrees(
    file: Path, each: int
) -> None:
    rows, solver = labelled.read(file), Solver(20)
    sizes = Counter(row.phase for row in rows)
    assert set(sizes) == set(labelled.PHASES)
    assert len(set(sizes.values())) == 1
    for number, row in enumerate(rows):
        low, high = labelled.PHASES[row.phase]
        assert low <= len(row.moves) <= high
        if len(row.moves) >= 18 and number % each == 0:
            state = after(row.moves)
            value, keeps = solver.verdict(state)
            assert (value, len(keeps) < len(row.legal)) == (row.value, row.matters)
            assert tuple(action + 1 for action in GAME.legal_list(state)) == row.legal
            assert tuple(action + 1 for action in keeps) == row.keeps


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "wrong.jsonl"
    file.write_text('{"phase": "end"}\n')
    with pytest.raises(BadTruth, match="holds no labelled positions"):
        labelled.read(file)
    with pytest.raises(Fatal, match="holds no labelled positions") as caught:
        read_rows(lambda: rows_in(file))
    assert caught.value.code == Exit.BAD_DATA
