"""What the rest of the system assumes about any game. A new game must pass this before it is used."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from every_game import EVERY_GAME
from hands import NAME as HANDS
from naive_games import NAIVE_NAMES, STONE_NAMES, naive_game
from naive_sampler import naive_symmetry
from playouts import bits, child_of, codes, described, features, legal, moved, playouts, replay, scalars
from twice import NAME as TWICE

from azselfplay.games import Game, get_game
from azselfplay.games.spec import NO_ROOT, PLY_CAP, outcome_for_first_player
from azselfplay.games.stubs import Movers

HISTORIES = (1, 3)


@pytest.fixture(params=[*EVERY_GAME, TWICE, HANDS])
def game(request: pytest.FixtureRequest) -> Game:
    return get_game(request.param)


def test_the_description_is_consistent(game: Game) -> None:
    """Sizes fit each other, and the end reasons have names and values."""
    assert game.end_reasons[0].value == 0
    names = [reason.name for reason in game.end_reasons]
    assert len(set(names)) == len(names)
    assert PLY_CAP not in names
    assert {reason.value for reason in game.end_reasons} <= {-1, 0, 1}
    assert game.max_legal <= game.actions <= 65535
    if game.policy_planes is not None:
        assert game.policy_planes * game.cells + game.extra_actions == game.actions
    assert 1 <= game.mean_legal <= game.max_legal


def test_unknown_games_are_named() -> None:
    """The message lists the games that there are."""
    with pytest.raises(ValueError, match="tic_tac_toe"):
        get_game("ludo")


def test_the_start_is_the_first_players_move(game: Game) -> None:
    """The usual start, by the rules and by its empty text, is not over, and the first player is to move."""
    positions = replay(game, [])
    actions = legal(game, positions, 1)
    assert game.rules.side_to_move(positions[0]) == 0
    assert game.rules.end_reason(positions, 1, len(actions), NO_ROOT) == 0
    assert np.array_equal(game.notation.state_from_text(""), positions[0])


def test_legal_actions_are_in_range_distinct_and_repeatable(game: Game) -> None:
    """They are so at every position of random games, and there is at least one while the game goes on."""
    for playout in playouts(game.name):
        for n in range(1, len(playout.positions)):
            actions = legal(game, playout.positions, n)
            assert 1 <= len(actions) == len(set(actions)) <= game.max_legal
            assert all(action < game.actions for action in actions)
            assert actions == legal(game, playout.positions, n)


def test_playing_leaves_the_parent_as_it_was(game: Game) -> None:
    """The same move makes the same child, in which one of the players is to move."""
    for playout in playouts(game.name):
        for ply, action in enumerate(playout.actions):
            parent = playout.positions[ply].copy()
            child = child_of(game, parent, action)
            assert np.array_equal(parent, playout.positions[ply])
            assert np.array_equal(child, playout.positions[ply + 1])
            assert game.rules.side_to_move(child) in (0, 1)


def test_every_game_ends(game: Game) -> None:
    """It ends for a known reason or at the cap on its length, and not before the last position."""
    for playout in playouts(game.name):
        assert 0 <= playout.reason < len(game.end_reasons)
        assert playout.reason or len(playout.actions) == game.max_plies
        for n in range(1, len(playout.positions)):
            assert (
                game.rules.end_reason(playout.positions, n, len(legal(game, playout.positions, n)), NO_ROOT)
                == 0
            )


def test_a_search_never_ends_a_game_later_than_the_rules(game: Game) -> None:
    """Where the rules end a game, a search sees an end of the same value, whichever position before is its
    root."""
    for playout in playouts(game.name):
        n = len(playout.positions)
        for root in range(n - 1) if playout.reason else ():
            in_search = game.rules.end_reason(
                playout.positions, n, len(legal(game, playout.positions, n)), root
            )
            assert game.end_reasons[in_search].value == game.end_reasons[playout.reason].value
            assert in_search != 0


def test_a_game_that_ends_in_a_search_ends_in_one_with_an_earlier_root_too(game: Game) -> None:
    for playout in playouts(game.name)[:2]:
        for n in range(1, len(playout.positions) + 1):
            count = len(legal(game, playout.positions, n))
            ends = [game.rules.end_reason(playout.positions, n, count, root) != 0 for root in range(n)]
            assert ends == sorted(ends, reverse=True)


@pytest.mark.parametrize("name", ["chess", "shogi", "go_9x9"])
def test_a_move_that_wins_is_never_ruled_out(name: str) -> None:
    """`maybe_won` rules out no winning move of random games, but most other moves."""
    game, moves, ruled_out = get_game(name), 0, 0
    assert game.rules.maybe_won is not None
    for playout in playouts(name):
        for n in range(1, len(playout.positions), 3):
            positions = np.concatenate([playout.positions[:n], playout.positions[:1]])
            mover = int(game.rules.side_to_move(positions[n - 1]))
            for action in legal(game, positions, n):
                positions[n] = child_of(game, positions[n - 1], action)
                moves += 1
                if not game.rules.maybe_won(positions, n + 1):
                    ruled_out += 1
                    replies = legal(game, positions, n + 1)
                    reason = game.rules.end_reason(positions, n + 1, len(replies), NO_ROOT)
                    value = game.end_reasons[reason].value
                    assert value != (1 if game.rules.side_to_move(positions[n]) == mover else -1)
    assert ruled_out >= 0.9 * moves


def test_values_and_outcomes_convert_both_ways(game: Game) -> None:
    """One side's win is the other side's loss."""
    for playout in playouts(game.name):
        value = game.end_reasons[playout.reason].value
        side = int(game.rules.side_to_move(playout.positions[-1]))
        outcome = outcome_for_first_player(value, side)
        assert outcome_for_first_player(outcome, side) == value
        assert outcome == (value if side == 0 else -value)


def test_who_has_more_in_the_end_has_won(game: Game) -> None:
    """This holds where a game has a score besides the outcome."""
    for playout in playouts(game.name) if game.score is not None else ():
        side = int(game.rules.side_to_move(playout.positions[-1]))
        outcome = outcome_for_first_player(game.end_reasons[playout.reason].value, side)
        assert np.sign(game.score(playout.positions[-1])) == outcome


def test_positions_survive_their_text(game: Game) -> None:
    """Text of a state gives that state again, at every position of random games."""
    for playout in playouts(game.name):
        for state in playout.positions:
            assert np.array_equal(game.notation.state_from_text(game.notation.state_to_text(state)), state)


def test_actions_survive_their_text(game: Game) -> None:
    """Every legal action has a text of its own, which gives that action again."""
    for playout in playouts(game.name):
        for n in range(1, len(playout.positions), 7):
            state, actions = playout.positions[n - 1], legal(game, playout.positions, n)
            texts = [game.notation.action_to_text(state, action) for action in actions]
            assert [game.notation.action_from_text(state, text) for text in texts] == actions
            assert len(set(texts)) == len(texts)


def test_nonsense_is_refused_with_a_sentence(game: Game) -> None:
    """Text that is no position or no move raises a ValueError with a message."""
    start = game.notation.state_from_text("")
    with pytest.raises(ValueError, match=r"\w \w"):
        game.notation.state_from_text("nonsense")
    for text in ("nonsense", "", "0", "-1"):
        with pytest.raises(ValueError, match=r"\w \w"):
            game.notation.action_from_text(start, text)


def test_the_picture_has_all_rows(game: Game) -> None:
    """A drawn board has at least one line per row."""
    for playout in playouts(game.name)[:2]:
        assert len(game.notation.render(playout.positions[-1]).splitlines()) >= game.rows


@pytest.mark.parametrize("history", HISTORIES)
def test_features_are_written_whole(game: Game, history: int) -> None:
    """They do not depend on what the words held before; nothing lies beyond the board, and scalars are in [0,
    1]."""
    for playout in playouts(game.name):
        for n in range(1, len(playout.positions) + 1, 5):
            packed_features = features(game, playout.positions, n, history)
            assert np.array_equal(
                packed_features, features(game, playout.positions, n, history, fill=2**64 - 1)
            )
            seen = bits(game, packed_features, history).any() or codes(game, packed_features, history).any()
            assert seen or n == 1
            assert (
                (scalars(game, packed_features, history) >= 0)
                & (scalars(game, packed_features, history) <= 1)
            ).all()


def test_history_adds_planes_behind_and_none_before_the_start(game: Game) -> None:
    """Longer history keeps the newer planes and scalars; positions before the start are empty."""
    for playout in playouts(game.name):
        for n in (1, 2, len(playout.positions)):
            short, long = (features(game, playout.positions, n, history) for history in (1, 4))
            known = min(n, 4)
            assert np.array_equal(bits(game, long, 4)[: game.planes_per_position], bits(game, short, 1))
            assert not bits(game, long, 4)[known * game.planes_per_position :].any()
            assert np.array_equal(codes(game, long, 4)[:1], codes(game, short, 1))
            assert not codes(game, long, 4)[known:].any()
            each = game.scalars_per_position.planes
            now, past = scalars(game, short, 1), scalars(game, long, 4)
            assert np.array_equal([*past[:each], *past[4 * each :]], now)
            assert not past[known * each : 4 * each].any()


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("name", NAIVE_NAMES)
def test_features_are_those_of_the_naive_twin(name: str, history: int) -> None:
    """They agree bit by bit, as seen by the side to move of the newest position."""
    game = get_game(name)
    for playout in playouts(name):
        twin = naive_game(name)
        for n in range(1, len(playout.positions) + 1):
            packed_features = features(game, playout.positions, n, history)
            assert bits(game, packed_features, history).tolist() == twin.planes(history)
            assert scalars(game, packed_features, history).tolist() == pytest.approx(twin.scalars())
            if n <= len(playout.actions):
                twin.play(playout.actions[n - 1])


@pytest.mark.parametrize("name", NAIVE_NAMES)
def test_a_line_may_begin_in_the_middle_of_a_game(name: str) -> None:
    """The first position of a line is in the features, and earlier ones are not."""
    game = get_game(name)
    planes = game.planes_per_position
    for playout in playouts(name):
        whole = features(game, playout.positions, len(playout.positions), 2)
        assert np.array_equal(features(game, playout.positions[-2:], 2, 2), whole)
        late = features(game, playout.positions[-1:], 1, 2)
        assert np.array_equal(bits(game, late, 2)[:planes], bits(game, whole, 2)[:planes])
        assert not bits(game, late, 2)[planes:].any()


@pytest.mark.parametrize("name", STONE_NAMES)
def test_the_board_is_turned_to_the_side_to_move(name: str) -> None:
    """The side to move sees its own stones first: after a move that changes sides, own stones become the
    other's. One stone is new, and it is the mover's."""
    game = get_game(name)
    for playout in playouts(name):
        for n in range(1, len(playout.positions)):
            own, other = bits(game, features(game, playout.positions, n, 1), 1)[:2]
            after = bits(game, features(game, playout.positions, n + 1, 1), 1)[:2]
            turned = game.rules.side_to_move(playout.positions[n]) != game.rules.side_to_move(
                playout.positions[n - 1]
            )
            next_own, next_other = after[::-1] if turned else after
            assert np.array_equal(next_other, other)
            assert (next_own >= own).all()
            assert next_own.sum() == own.sum() + 1


def test_symmetries_are_permutations(game: Game) -> None:
    """Each contains every cell, action and plane once, and none is the identity or a copy of another."""
    maps = [tuple(symmetry.cells) for symmetry in game.symmetries]
    assert len({*maps, tuple(range(game.cells))}) == len(maps) + 1
    for symmetry in game.symmetries:
        assert sorted(symmetry.cells.tolist()) == list(range(game.cells))
        assert sorted(symmetry.actions.tolist()) == list(range(game.actions))
        assert sorted(game.plane_map(symmetry, 3).tolist()) == list(range(game.bit_planes(3)))


def test_the_rules_do_not_see_symmetries(game: Game) -> None:
    """A mirrored game has the mirrored legal actions and features, and ends in the same way."""
    for symmetry in game.symmetries:
        for playout in playouts(game.name)[:4]:
            mapped = replay(game, [int(symmetry.actions[action]) for action in playout.actions])
            for n in range(1, len(playout.positions) + 1):
                actions, mapped_actions = legal(game, playout.positions, n), legal(game, mapped, n)
                assert {int(symmetry.actions[action]) for action in actions} == set(mapped_actions)
                before, after = (features(game, line, n, 2) for line in (playout.positions, mapped))
                assert np.array_equal(naive_symmetry(game, before, symmetry, 2), after)
                assert np.array_equal(moved(game, symmetry, before, 2), after)
            assert game.rules.end_reason(mapped, n, len(mapped_actions), NO_ROOT) == playout.reason


def test_the_description_of_sparse_features_is_consistent(game: Game) -> None:
    """The name ends in a number, which is to grow with each change of the set."""
    if (sparse := game.sparse) is not None:
        assert re.fullmatch(r"[^-]+(-[a-z]+)+-\d+", sparse.name)
        assert 1 <= sparse.most_active <= sparse.features
        assert 1 <= sparse.tables <= sparse.action_rows
        if sparse.shared is not None:
            assert sparse.shared.dtype == np.int32
            assert len(sparse.shared) == sparse.features
            assert {*sparse.shared.ravel().tolist(), -1} == set(range(-1, sparse.shared.max() + 1))


@pytest.mark.parametrize("history", HISTORIES)
def test_sparse_features_are_in_range_distinct_and_repeatable(game: Game, history: int) -> None:
    """So are the rows of the legal actions, and nothing is written behind them (`playouts.described`)."""
    for playout in playouts(game.name) if game.sparse is not None else ():
        for n in range(1, len(playout.positions), 3):
            actions, packed_features = (
                legal(game, playout.positions, n),
                features(game, playout.positions, n, history),
            )
            first = described(game, packed_features, history, actions)
            assert first == described(game, packed_features, history, actions)
            assert first[1][1:] == described(game, packed_features, history, actions[1:])[1]


def test_any_words_have_sparse_features_in_range(game: Game) -> None:
    """Leaves come from other machines: a kernel that trusts their bits would write into foreign memory."""
    rng = np.random.default_rng(1)
    for trial in range(40 if game.sparse is not None else 0):
        words = rng.integers(0, 2**64, game.feature_words(2), np.uint64)
        if trial < 2:
            words[:] = (0, 2**64 - 1)[trial]
        actions = rng.choice(game.actions, min(game.actions, game.max_legal), replace=False)
        described(game, words, 2, actions.tolist())


def test_sparse_features_are_as_many_in_a_mirrored_position(game: Game) -> None:
    for symmetry in game.symmetries if game.sparse is not None else ():
        for playout in playouts(game.name)[:4]:
            for n in range(1, len(playout.positions)):
                before, actions = features(game, playout.positions, n, 2), legal(game, playout.positions, n)
                after = moved(game, symmetry, before, 2)
                seen, image = (
                    described(game, packed_features, 2, some)
                    for packed_features, some in (
                        (before, actions),
                        (after, symmetry.actions[actions].tolist()),
                    )
                )
                assert len(seen[0]) == len(image[0])


def test_movers_are_those_of_the_positions(game: Game) -> None:
    """They agree from the usual start, and from any position that a game reaches."""
    movers = Movers(game)
    for playout in playouts(game.name):
        signs = [1 - 2 * int(game.rules.side_to_move(state)) for state in playout.positions]
        for ply in (0, len(playout.actions) // 2):
            start = game.notation.state_to_text(playout.positions[ply])
            actions = np.array(playout.actions[ply:], np.uint16)
            assert movers(start, actions).tolist() == signs[ply:-1]
    with pytest.raises(ValueError, match=r"\w \w"):
        movers("nonsense", actions)


def test_in_the_game_of_tests_players_move_twice() -> None:
    """Otherwise the game would test nothing. Both players do, and after the last move it is sometimes the
    winner's turn."""
    found, again = get_game(TWICE), Movers(get_game(TWICE))
    rows = [again("", np.array(playout.actions, np.uint16)).tolist() for playout in playouts(TWICE)]
    pairs = {pair for row in rows for pair in itertools.pairwise(row)}
    assert pairs == {(1, 1), (1, -1), (-1, 1), (-1, -1)}
    assert {found.end_reasons[playout.reason].value for playout in playouts(TWICE)} == {1, 0, -1}
