"""Checks in random games what the rest of the system assumes about any game: `azplay check-game NAME`.

Search and trainer trust a game. A wrong symmetry, or a text that names another move, causes no error, but
spoils the training data. So a new game must pass these checks before it is used. Each check is a function
whose docstring says what a game promises, and which raises `Nonconforming` with what it found instead. The
checks do not know the rules: only a game's own tests can tell whether they are right. `how_they_ended` gives
a hint, for example that one side never wins.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from azselfplay.games.knowledge import knowledge_of
from azselfplay.games.playouts import (
    Nonconforming,
    Playout,
    bits,
    codes,
    described,
    ended,
    features,
    legal,
    moved,
    must,
    replay,
    scalars,
    spread,
)
from azselfplay.games.spec import (
    LONGEST_MOVE,
    PLY_CAP,
    RECORDED,
    RESIGNATION,
    Game,
    outcome_for_first_player,
)
from azselfplay.games.stubs import Movers

HISTORIES = (1, 3)
NONSENSE = ("nonsense", "", "0", "-1")

Playouts = Sequence[Playout]
Check = Callable[[Game, Playouts], None]


def sizes_fit(game: Game, playouts: Playouts) -> None:
    """Sizes fit each other, and the end reasons have names and values."""
    must(game.end_reasons[0].value == 0, "end reason 0 stands for a game that goes on, so its value is 0")
    names = [reason.name for reason in game.end_reasons]
    must(len(set(names)) == len(names), "two end reasons have one name: {}", names)
    taken = {PLY_CAP, RESIGNATION, RECORDED} & set(names)
    must(not taken, "{} names an end that every game can have", taken)
    values = {reason.value for reason in game.end_reasons}
    must(values <= {-1, 0, 1}, "values of ends are -1, 0 or 1, not {}", values)
    mean, most = game.mean_legal, game.max_legal
    fits = 1 <= mean <= most <= game.actions <= 65535
    must(fits, "mean_legal {}, max_legal {}, actions {}", mean, most, game.actions)
    planes, extra = game.policy_planes, game.extra_actions
    fits = extra == 0 if planes is None else planes * game.cells + extra == game.actions
    must(fits, "actions {}, policy_planes {}, extra_actions {}", game.actions, planes, extra)
    for width, divisor in (*game.scalars_per_position.fields, *game.scalars_once.fields):
        fits = 1 <= width <= 16 and 1 <= divisor < 1 << width
        must(fits, "a field has {} bits, divisor {}", width, divisor)
    if (coded := game.coded_cells) is not None:
        codes = coded.planes_of
        fits = 1 <= coded.bits <= 8 and 2 <= len(codes) <= 1 << coded.bits and not codes[0]
        must(fits, "{} bits for {} codes, of which the first sets {}", coded.bits, len(codes), codes[0])
        seen = sorted(set().union(*codes))
        must(seen == list(range(len(seen))), "planes set by codes are {}: one is missing", seen)


def first_player_begins(game: Game, playouts: Playouts) -> None:
    """The usual start, by the rules and by its empty text, is not over, and the first player is to move."""
    positions = replay(game, [])
    must(game.rules.side_to_move(positions[0]) == 0, "the second player begins")
    must(ended(game, positions, 1) == 0, "the game is over at its start")
    by_text = game.notation.state_from_text("")
    must(np.array_equal(by_text, positions[0]), 'start() and state_from_text("") differ')


def legal_actions_are_distinct(game: Game, playouts: Playouts) -> None:
    """Legal actions are in range, distinct and repeatable, and there is one while the game goes on."""
    for playout in playouts:
        for n in range(1, len(playout.positions)):
            actions = legal(game, playout.positions, n)
            must(len(actions) == len(set(actions)), "ply {}: an action is listed twice: {}", n - 1, actions)
            in_range = max(actions) < game.actions
            must(in_range, "ply {}: action {} is not below {}", n - 1, max(actions), game.actions)
            again = legal(game, playout.positions, n)
            same = actions == again
            must(same, "ply {}: asked twice, other actions are legal: {}, {}", n - 1, actions, again)


def playing_leaves_the_parent(game: Game, playouts: Playouts) -> None:
    """The same move makes the same child, leaves its parent as it was, and one of two players is to move."""
    for playout in playouts:
        for ply, action in enumerate(playout.actions):
            parent = playout.positions[ply].copy()
            child = game.after(parent, action)
            must(np.array_equal(parent, playout.positions[ply]), "ply {}: play() changes the parent", ply)
            same = np.array_equal(child, playout.positions[ply + 1])
            must(same, "ply {}: action {} leads to another position than before", ply, action)
            side = game.rules.side_to_move(child)
            must(side in (0, 1), "ply {}: the side to move is {}, not 0 or 1", ply, side)


def every_game_ends(game: Game, playouts: Playouts) -> None:
    """A game ends for a known reason or at the cap on its length, and not before its last position."""
    for playout in playouts:
        must(0 <= playout.reason < len(game.end_reasons), "there is no end reason {}", playout.reason)
        at_cap = len(playout.actions) == game.max_plies
        must(bool(playout.reason) or at_cap, "a game of {} plies has no end", len(playout.actions))
        for n in range(1, len(playout.positions)):
            must(ended(game, playout.positions, n) == 0, "ply {}: asked again, the game is over", n - 1)


def searches_end_games_no_later(game: Game, playouts: Playouts) -> None:
    """Where the rules end a game, a search sees an end of the same value, whichever position is its root."""
    for playout in playouts:
        n = len(playout.positions)
        for root in range(n - 1) if playout.reason else ():
            in_search = ended(game, playout.positions, n, root)
            values = [game.end_reasons[reason].value for reason in (in_search, playout.reason)]
            must(in_search != 0 and values[0] == values[1], "root {}: a search sees {}", root, in_search)


def earlier_roots_end_games_too(game: Game, playouts: Playouts) -> None:
    """A game that ends in a search ends in one with an earlier root too."""
    for playout in playouts[:2]:
        positions = playout.positions
        # Each question may look at the whole game, so of long games only a part is asked.
        for ply in spread(len(positions), 200):
            count = len(legal(game, positions, ply + 1))
            reasons = [game.rules.end_reason(positions, ply + 1, count, root) for root in spread(ply + 1, 50)]
            ends = [reason != 0 for reason in reasons]
            must(ends == sorted(ends, reverse=True), "ply {}: with a later root the game ends", ply)


def winning_moves_are_not_ruled_out(game: Game, playouts: Playouts) -> None:
    """`maybe_wins` rules out no move that ends the game with a win, and keeps the order of the others."""
    if game.rules.maybe_wins is None:
        return
    for playout in playouts:
        for n in range(1, len(playout.positions), 3):
            positions = np.concatenate([playout.positions[:n], playout.positions[:1]])
            mover, actions = int(game.rules.side_to_move(positions[n - 1])), legal(game, positions, n)
            found = np.array(actions, np.uint16)
            possible = found[: game.rules.maybe_wins(positions, n, found, found)].tolist()
            kept = [action for action in actions if action in possible]
            must(possible == kept, "ply {}: of {}, {} are kept", n - 1, actions, possible)
            for action in set(actions) - set(possible):
                positions[n] = game.after(positions[n - 1], action)
                value = game.end_reasons[ended(game, positions, n + 1)].value
                is_won = value == (1 if game.rules.side_to_move(positions[n]) == mover else -1)
                must(not is_won, "ply {}: action {} wins and is ruled out", n - 1, action)


def cells_have_owners(game: Game, playouts: Playouts) -> None:
    """At the end of a game every cell belongs to the first player (+1), the second (-1) or nobody (0)."""
    if game.owners is None:
        return
    for playout in playouts:
        found = game.owners(playout.positions[-1])
        fits = found.shape == (game.cells,) and set(found.tolist()) <= {-1, 0, 1}
        must(fits, "owners of {} cells are {}", game.cells, found)


def outcomes_convert(game: Game, playouts: Playouts) -> None:
    """One side's win is the other side's loss, and where the game ends with a score, who has more has won."""
    for playout in playouts:
        value = game.end_reasons[playout.reason].value
        side = int(game.rules.side_to_move(playout.positions[-1]))
        outcome = outcome_for_first_player(value, side)
        must(outcome_for_first_player(outcome, side) == value, "a value of {} does not convert", value)
        if game.score is not None and playout.reason:
            score = game.score(playout.positions[-1])
            must(np.sign(score) == outcome, "the score is {}, the outcome {}", score, outcome)


def positions_survive_text(game: Game, playouts: Playouts) -> None:
    """The text of a position gives that position again."""
    for playout in playouts:
        for ply, state in enumerate(playout.positions):
            text = game.notation.state_to_text(state)
            again = game.notation.state_from_text(text)
            must(np.array_equal(again, state), "ply {}: {!r} is read as another position", ply, text)


def actions_survive_text(game: Game, playouts: Playouts) -> None:
    """Every legal action has a short text of its own without blanks, which gives that action again."""
    for playout in playouts:
        for n in range(1, len(playout.positions), 7):
            state, actions = playout.positions[n - 1], legal(game, playout.positions, n)
            texts = [game.notation.action_to_text(state, action) for action in actions]
            must(len(set(texts)) == len(texts), "ply {}: two actions have one text: {}", n - 1, texts)
            odd = [text for text in texts if text.split() != [text] or len(text) > LONGEST_MOVE]
            must(not odd, "ply {}: {} have blanks, or over {} characters", n - 1, odd, LONGEST_MOVE)
            again = [game.notation.action_from_text(state, text) for text in texts]
            must(again == actions, "ply {}: {} are read as {}, not as {}", n - 1, texts, again, actions)


def nonsense_is_refused(game: Game, playouts: Playouts) -> None:
    """Text that is no position or no move raises a ValueError with a sentence."""
    start = game.notation.state_from_text("")
    asked: list[tuple[str, Callable[[str], Any]]] = [("nonsense", game.notation.state_from_text)]
    moves = {game.notation.action_to_text(start, action) for action in legal(game, replay(game, []), 1)}
    read_move = functools.partial(game.notation.action_from_text, start)
    asked += [(text, read_move) for text in NONSENSE if text not in moves]
    for text, read in asked:
        try:
            found = read(text)
        except ValueError as error:
            must(bool(re.search(r"\w \w", str(error))), "{!r} is refused without a sentence: {}", text, error)
        else:
            raise Nonconforming(f"{text!r} is read as {found}")


def pictures_have_all_rows(game: Game, playouts: Playouts) -> None:
    """A drawn board has at least one line for each row, and what else is known of the game can be read."""
    knowledge_of(game)
    for playout in playouts[:2]:
        lines = len(game.notation.render(playout.positions[-1]).splitlines())
        must(lines >= game.rows, "{} lines for {} rows", lines, game.rows)


def features_are_written_whole(game: Game, playouts: Playouts) -> None:
    """Features do not depend on what the words held before, and lie on the board and in [0, 1]."""
    anything = False
    for playout in playouts:
        for history in HISTORIES:
            for n in {*range(1, len(playout.positions), 5), len(playout.positions)}:
                found = features(game, playout.positions, n, history)
                over = features(game, playout.positions, n, history, fill=2**64 - 1)
                must(np.array_equal(found, over), "ply {}: encode() leaves bits of what was there", n - 1)
                seen = bits(game, found, history).any() or codes(game, found, history).any()
                anything = anything or bool(seen)
                numbers = scalars(game, found, history)
                in_range = ((numbers >= 0) & (numbers <= 1)).all()
                must(in_range, "ply {}: a scalar is not in [0, 1]: {}", n - 1, numbers)
    must(anything, "all features are empty")


def history_is_behind(game: Game, playouts: Playouts) -> None:
    """A longer history adds planes behind the newest ones; positions before the start are empty."""
    each = game.scalars_per_position.planes
    for playout in playouts:
        for n in (1, 2, len(playout.positions)):
            short, long = (features(game, playout.positions, n, history) for history in (1, 4))
            known = min(n, 4)
            newest = bits(game, long, 4)[: game.planes_per_position]
            same = np.array_equal(newest, bits(game, short, 1))
            same &= np.array_equal(codes(game, long, 4)[:1], codes(game, short, 1))
            now, past = scalars(game, short, 1), scalars(game, long, 4)
            same &= np.array_equal([*past[:each], *past[4 * each :]], now)
            must(same, "ply {}: the newest position is not the first in the features", n - 1)
            before = bits(game, long, 4)[known * game.planes_per_position :].any()
            before |= codes(game, long, 4)[known:].any() | past[known * each : 4 * each].any()
            must(not before, "ply {}: there is something before the start of the game", n - 1)


def symmetries_are_permutations(game: Game, playouts: Playouts) -> None:
    """A symmetry has every cell, action and plane once, and none is the identity or a copy of another."""
    # On a small board, two symmetries may move the same cells and differ in actions or planes only.
    maps = {
        tuple(tuple(one.tolist()) for one in (symmetry.cells, symmetry.actions, game.plane_map(symmetry, 1)))
        for symmetry in game.symmetries
    }
    identity = tuple(tuple(range(size)) for size in (game.cells, game.actions, game.bit_planes(1)))
    different = len(maps | {identity}) == len(game.symmetries) + 1
    must(different, "two symmetries are one, or nothing moves")
    for symmetry in game.symmetries:
        for what, found, count in (
            ("cells", symmetry.cells, game.cells),
            ("actions", symmetry.actions, game.actions),
            ("planes", game.plane_map(symmetry, 3), game.bit_planes(3)),
        ):
            is_one = sorted(found.tolist()) == list(range(count))
            must(is_one, "{}: {} is no permutation of {} numbers", symmetry.name, what, count)


def rules_see_no_symmetry(game: Game, playouts: Playouts) -> None:
    """A mirrored game has the mirrored legal actions and features, and ends in the same way."""
    for symmetry in game.symmetries:
        for playout in playouts[:4]:
            mapped = replay(game, [int(symmetry.actions[action]) for action in playout.actions])
            for n in range(1, len(playout.positions) + 1):
                actions = legal(game, playout.positions, n)
                wanted = {int(symmetry.actions[action]) for action in actions}
                found = set(legal(game, mapped, n))
                text = "{}, ply {}: mirrored, {} are legal and should not be, {} should and are not"
                text += " (does the symmetry keep the start position?)" if n == 1 else ""
                more, fewer = sorted(found - wanted), sorted(wanted - found)
                must(not more and not fewer, text, symmetry.name, n - 1, more, fewer)
                before, after = (features(game, line, n, 2) for line in (playout.positions, mapped))
                same = np.array_equal(moved(game, symmetry, before, 2), after)
                must(same, "{}, ply {}: the features are not the mirrored ones", symmetry.name, n - 1)
            reason = ended(game, mapped, len(mapped))
            must(reason == playout.reason, "{}: ends by {}, not {}", symmetry.name, reason, playout.reason)


def movers_are_those_of_positions(game: Game, playouts: Playouts) -> None:
    """Who makes each move is known from the moves, from the start and from any position of a game."""
    movers = Movers(game)
    for playout in playouts:
        signs = [1 - 2 * int(game.rules.side_to_move(state)) for state in playout.positions]
        for ply in (0, len(playout.actions) // 2):
            start = game.notation.state_to_text(playout.positions[ply])
            found = movers(start, np.array(playout.actions[ply:], np.uint16)).tolist()
            must(found == signs[ply:-1], "from ply {}: {}, not {}", ply, found, signs[ply:-1])


def sparse_features_fit(game: Game, playouts: Playouts) -> None:
    """Sizes of the sparse features fit, and their name ends in a number, to grow with each change."""
    if (sparse := game.sparse) is None:
        return
    named = re.fullmatch(r"[^-]+(-[a-z]+)+-\d+", sparse.name)
    must(named is not None, "{!r} is not named like hex-stones-1", sparse.name)
    most, count = sparse.most_active, sparse.features
    must(1 <= most <= count, "most_active {} of {}", most, count)
    must(1 <= sparse.tables <= sparse.action_rows, "{} tables, {} rows", sparse.tables, sparse.action_rows)
    if sparse.shared is not None:
        fits = sparse.shared.dtype == np.int32 and len(sparse.shared) == sparse.features
        must(fits, "shared is {}[{}]", sparse.shared.dtype, len(sparse.shared))
        found = {*sparse.shared.ravel().tolist(), -1}
        must(found == set(range(-1, max(found) + 1)), "shared rows are not numbered from 0 on")


def sparse_features_are_repeatable(game: Game, playouts: Playouts) -> None:
    """Sparse features are in range, distinct and repeatable, and those of an action depend on no other."""
    for playout in playouts if game.sparse is not None else ():
        for history in HISTORIES:
            for n in range(1, len(playout.positions), 3):
                actions = legal(game, playout.positions, n)
                found = features(game, playout.positions, n, history)
                first = described(game, found, history, actions)
                again = described(game, found, history, actions)
                must(first == again, "ply {}: asked twice, they differ", n - 1)
                fewer = described(game, found, history, actions[1:])[1]
                must(first[1][1:] == fewer, "ply {}: rows of an action depend on other actions", n - 1)


def any_words_are_described(game: Game, playouts: Playouts) -> None:
    """Any words have sparse features in range: leaves come from other machines, and nothing checks them."""
    rng = np.random.default_rng(1)
    for trial in range(40 if game.sparse is not None else 0):
        words = rng.integers(0, 2**64, game.feature_words(2), np.uint64)
        if trial < 2:
            words[:] = (0, 2**64 - 1)[trial]
        actions = rng.choice(game.actions, min(game.actions, game.max_legal), replace=False)
        described(game, words, 2, actions.tolist())


def mirrored_positions_have_as_many(game: Game, playouts: Playouts) -> None:
    """A mirrored position has as many sparse features."""
    for symmetry in game.symmetries if game.sparse is not None else ():
        for playout in playouts[:4]:
            for n in range(1, len(playout.positions)):
                before, actions = features(game, playout.positions, n, 2), legal(game, playout.positions, n)
                images = symmetry.actions[actions].tolist()
                seen = len(described(game, before, 2, actions)[0])
                image = len(described(game, moved(game, symmetry, before, 2), 2, images)[0])
                must(seen == image, "{}, ply {}: {} and {}", symmetry.name, n - 1, seen, image)


def how_they_ended(game: Game, playouts: Playouts) -> str:
    """Return how the random games ended and who won, for people: no check can tell whether that is wrong."""
    ends = Counter(game.end_reasons[one.reason].name if one.reason else PLY_CAP for one in playouts)
    outcomes: Counter[int] = Counter()
    for one in playouts:
        side = int(game.rules.side_to_move(one.positions[-1]))
        outcomes[outcome_for_first_player(game.end_reasons[one.reason].value, side)] += 1
    by_reason = ", ".join(f"{name} {count}" for name, count in ends.most_common())
    by_outcome = f"won {outcomes[1]}, drew {outcomes[0]}, lost {outcomes[-1]}"
    return f"ended by {by_reason}; the first player {by_outcome}"


CHECKS: tuple[Check, ...] = (
    sizes_fit,
    first_player_begins,
    legal_actions_are_distinct,
    playing_leaves_the_parent,
    every_game_ends,
    searches_end_games_no_later,
    earlier_roots_end_games_too,
    winning_moves_are_not_ruled_out,
    outcomes_convert,
    cells_have_owners,
    positions_survive_text,
    actions_survive_text,
    nonsense_is_refused,
    pictures_have_all_rows,
    features_are_written_whole,
    history_is_behind,
    symmetries_are_permutations,
    rules_see_no_symmetry,
    movers_are_those_of_positions,
    sparse_features_fit,
    sparse_features_are_repeatable,
    any_words_are_described,
    mirrored_positions_have_as_many,
)
"""All checks, the simplest first: a fault that a later check finds may follow from one that an earlier check
found."""
SPARSE_CHECKS = CHECKS[CHECKS.index(sparse_features_fit) :]
"""The checks that do nothing if a game has no sparse features."""
