"""Honest games are accepted; every kind of dishonest game is refused with its own code."""

import dataclasses

import numpy as np
import pytest
from changed_settings import self_play, varied
from hypothesis import given
from hypothesis import strategies as st
from mutations import MUTATIONS, Mutation, with_entry, with_visits
from naive_verify import naive_verdict

from azselfplay.games import get_game
from bench.random_games import random_game
from protocol.errors import Code
from protocol.records import BadRecord, GameRecord, from_bytes, to_bytes
from trainer.verify import Rejection, Verifier

SETTINGS = self_play(simulations=100)
NEWEST = 5

GAMES = {name: get_game(name) for name in ("tic_tac_toe", "connect_four", "dots_and_boxes_2x2")}


def verdict(
    record: GameRecord, name: str = "connect_four", run: bytes = b"", **settings: object
) -> Rejection | None:
    return Verifier(GAMES[name], varied(SETTINGS, **settings), run).check(record, NEWEST)


def code_of(rejection: Rejection | None) -> Code | None:
    return None if rejection is None else rejection.code


@pytest.fixture(params=sorted(GAMES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_honest_games_are_taken(name: str) -> None:
    rng = np.random.default_rng(1)
    for targets in [1.0] * 100 + [0.5] * 100:
        record = random_game(GAMES[name], rng, targets=targets)
        assert verdict(record, name) is None


@pytest.mark.parametrize(("mutation", "code"), MUTATIONS.values(), ids=MUTATIONS)
def test_dishonest_games_are_refused(name: str, mutation: Mutation, code: Code) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        record = mutation(random_game(GAMES[name], rng, max_plies=50))
        rejection = verdict(record, name, max_plies=50)
        assert rejection is not None
        assert rejection.code == code, str(rejection)


def test_games_of_another_run_are_refused(name: str) -> None:
    """Games of the run itself pass, and so do those that do not name a run: older formats, or foreign
    clients."""
    game = random_game(GAMES[name], np.random.default_rng(4))
    here, elsewhere = b"i" * 16, b"j" * 16
    for run, asked, taken in ((here, here, 1), (b"", here, 1), (elsewhere, here, 0), (here, b"", 1)):
        rejection = verdict(dataclasses.replace(game, run=run), name, asked)
        assert (rejection is None) == taken
        assert taken or rejection.code == Code.WRONG_RUN


@pytest.mark.parametrize("flag", [0, 1])
def test_a_policy_target_played_an_action_that_it_visited(flag: int) -> None:
    """A ply that is no target may be played without a search."""
    game = GAMES["connect_four"]
    record = random_game(game, np.random.default_rng(8))
    last, action = record.plies - 1, int(record.actions[-1])
    others = [a for a in record.visit_actions[-int(record.visited[-1]) :] if a != action]
    changed = with_visits(record, last, {int(others[0]): 100}, flag)
    rejection = verdict(changed)
    assert code_of(rejection) == naive_verdict(game, changed)
    reason = f"bad_visits: ply {last}: action {action} was played without a visit, in a policy target"
    assert (rejection and str(rejection)) == (reason if flag else None)


@pytest.mark.parametrize(
    ("flag", "wanted"), [(1, "expected 100"), (0, "expected at most 100, this being no policy target")]
)
def test_a_wrong_sum_of_visits_is_told_with_the_sums_that_are_right(flag: int, wanted: str) -> None:
    """At the first ply there is no subtree to keep."""
    record = random_game(GAMES["connect_four"], np.random.default_rng(9))
    action = int(record.actions[0])
    changed = with_visits(record, 0, {action: 101}, flag)
    rejection = verdict(changed)
    assert str(rejection) == f"bad_visits: ply 0: 101 visits in all; {wanted}"


def test_a_wrong_sum_after_a_search_names_both_sums() -> None:
    """They include the visits that the action played had at the ply before."""
    record = random_game(GAMES["connect_four"], np.random.default_rng(9))
    kept = int(record.visits[list(record.visit_actions[: record.visited[0]]).index(record.actions[0])]) - 1
    assert kept > 0
    changed = with_entry(record, "visits", int(record.visited[0]), 2000)
    total = int(changed.visits[record.visited[0] :][: record.visited[1]].sum())
    rejection = verdict(changed)
    sums = f"expected 100, and at most {100 + kept} with the subtree kept"
    assert str(rejection) == f"bad_visits: ply 1: {total} visits in all; {sums}"


@pytest.mark.parametrize(
    ("total", "taken"), [(99, False), (100, True), (130, True), (159, True), (160, False)]
)
def test_a_search_may_have_taken_back_visits_of_the_subtree_that_it_kept(total: int, taken: bool) -> None:
    """They repeat a position that is now before the root (`search.tree_kernel.take_back`)."""
    record = random_game(GAMES["connect_four"], np.random.default_rng(9))
    first, second = (int(action) for action in record.actions[:2])
    record = with_visits(record, 0, dict(sorted({first: 60, (first + 1) % 7: 40}.items())), flag=1)
    record = with_visits(record, 1, {second: total}, flag=1)
    record = with_visits(record, 2, {int(record.actions[2]): 100}, flag=1)
    rejection = verdict(record)
    assert (rejection is None) == taken
    assert naive_verdict(GAMES["connect_four"], record) == (None if taken else "bad_visits")


def improved(shares: dict[int, int], next_visits: int = 100) -> GameRecord:
    """Return a game of Connect Four whose first ply has these shares, and each other ply 100 visits of its
    move."""
    record = random_game(GAMES["connect_four"], np.random.default_rng(9))
    for ply in range(1, record.plies):
        record = with_visits(record, ply, {int(record.actions[ply]): 100}, flag=1)
    record = with_visits(record, 1, {int(record.actions[1]): next_visits}, flag=0)
    return with_visits(record, 0, shares, flag=3)


@pytest.mark.parametrize(
    "first", [{0: 9_000, 6: 1_000}, {0: 10_000}, {3: 10_000}, {0: 60, 6: 40}, {2: 10_001}]
)
def test_shares_of_an_improved_policy_have_a_sum_of_their_own(first: dict[int, int]) -> None:
    """It does not matter whether the action played has a share."""
    record, total = improved(first), sum(first.values())
    rejection = verdict(record, selection="gumbel")
    assert code_of(rejection) == naive_verdict(GAMES["connect_four"], record)
    reason = f"bad_visits: ply 0: {total} visits in all; expected 10000 shares of an improved policy"
    assert (rejection and str(rejection)) == (None if total == 10_000 else reason)


def test_nothing_is_kept_of_shares() -> None:
    """Shares are not visits: the next ply has the same limit as the first one."""
    record = improved({int(improved({0: 10_000}).actions[0]): 10_000}, next_visits=101)
    rejection = verdict(record, selection="gumbel")
    assert naive_verdict(GAMES["connect_four"], record) == "bad_visits"
    assert "ply 1: 101 visits in all; expected at most 100" in str(rejection)


def pruned(sums: dict[int, int]) -> GameRecord:
    """Return a game of Connect Four with a pruned target at the first ply; `sums`: visits of the move, by
    ply."""
    record = random_game(GAMES["connect_four"], np.random.default_rng(9))
    for ply in range(record.plies):
        record = with_visits(record, ply, {int(record.actions[ply]): sums.get(ply, 100)}, 1 if ply else 5)
    return record


@pytest.mark.parametrize(
    ("sums", "wanted"),
    [
        ({0: 40, 1: 150, 2: 249}, None),
        ({0: 100, 1: 199, 2: 298}, None),
        ({0: 101}, "ply 0: 101 visits in all; expected at most 100, this being a pruned target"),
        ({0: 40, 1: 200}, "ply 1: 200 visits in all; expected 100, and at most 199 with the subtree kept"),
        ({0: 40, 1: 99}, "ply 1: 99 visits in all; expected 100, and at most 199 with the subtree kept"),
        (
            {0: 40, 1: 150, 2: 250},
            "ply 2: 250 visits in all; expected 100, and at most 249 with the subtree kept",
        ),
    ],
)
def test_the_sum_of_a_pruned_target_and_the_one_after_it_are_bounded(
    sums: dict[int, int], wanted: str | None
) -> None:
    """How many visits the played action lost is unknown; one ply later, the number is known again."""
    record = pruned(sums)
    rejection = verdict(record, solver=True)
    assert (rejection and str(rejection)) == (wanted and f"bad_visits: {wanted}")
    assert naive_verdict(GAMES["connect_four"], record) == (wanted and "bad_visits")


@pytest.mark.parametrize(
    ("flag", "visits", "settings"),
    [(3, 10_000, {"selection": "gumbel"}), (5, 100, {"solver": True})],
    ids=["improved", "pruned"],
)
def test_improved_and_pruned_targets_belong_to_runs_that_ask_for_them(
    flag: int, visits: int, settings: dict[str, object]
) -> None:
    """Such a run accepts plain visit counts, too."""
    record = random_game(GAMES["connect_four"], np.random.default_rng(9))
    assert verdict(record, **settings) is None
    changed = with_visits(record, 0, {int(record.actions[0]): visits}, flag)
    assert code_of(verdict(changed)) == Code.WRONG_SETTINGS


def test_start_that_cannot_be_read(name: str) -> None:
    record = dataclasses.replace(random_game(GAMES[name], np.random.default_rng(4)), start="?!")
    rejection = verdict(record, name, position="?!")
    assert code_of(rejection) == Code.BAD_START


def test_game_cut_at_the_cap_is_a_draw(name: str) -> None:
    record = random_game(GAMES[name], np.random.default_rng(5), max_plies=4)
    assert (record.reason, record.outcome) == ("ply_cap", 0)
    assert verdict(record, name, max_plies=4) is None
    won = dataclasses.replace(record, outcome=1)
    rejection = verdict(won, name, max_plies=4)
    assert code_of(rejection) == Code.WRONG_OUTCOME


@given(
    seed=st.integers(0, 10**6), column=st.sampled_from(["actions", "visit_actions", "visits"]), data=st.data()
)
def test_agrees_with_the_slow_twin(seed: int, column: str, data: st.DataObject) -> None:
    """Whatever entry is changed, and to whatever value, the plain twin finds the same fault as the kernel, or
    the codec before it."""
    game = GAMES["connect_four"]
    record = random_game(game, np.random.default_rng(seed), simulations=20)
    index = data.draw(st.integers(0, len(getattr(record, column)) - 1))
    limit = 25 if column == "visits" else game.actions
    record = with_entry(record, column, index, data.draw(st.integers(0, limit)))
    try:
        found = code_of(verdict(from_bytes(to_bytes(record)), simulations=20))
    except BadRecord as error:
        found = error.code
    assert found == naive_verdict(game, record)
