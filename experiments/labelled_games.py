"""Positions of stored games with the truth about them, the game's outcome and the search's result.

For `experiments.on_truth`. Labelling takes long, so the labels can be kept in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from games.game_history import GameHistory
from games.knowledge import Known, Row, Solution
from games.moved_features import move_features
from games.spec import Game, outcome_for_first_player
from protocol.records import GameRecord
from runtime.exits import Exit, Fatal

Say = Callable[[str], None]
EACH = 5000
"""Positions between two lines of progress."""


class LabelledGames(NamedTuple):
    """`n` positions of finished games."""

    groups: npt.NDArray[np.str_]
    """[n] part of the game, as in `Known.group`"""
    packed_features: npt.NDArray[np.uint64]
    """[n, feature_words]"""
    legal: npt.NDArray[np.bool_]
    """[n, actions]"""
    keeps: npt.NDArray[np.bool_]
    """[n, actions] the actions that keep the result with best play"""
    values: npt.NDArray[np.int8]
    """[n] the result with best play, for the side to move"""
    visit_shares: npt.NDArray[np.float32]
    """[n, actions] shares of the search's visits; each row sums to 1"""
    outcomes: npt.NDArray[np.int8]
    """[n] how the game ended, for the side to move"""
    root_values: npt.NDArray[np.float32]
    """[n] the search's value, for the side to move"""

    @property
    def matters(self) -> npt.NDArray[np.bool_]:
        """[n] whether some legal move loses the best result."""
        return np.asarray((self.legal & ~self.keeps).any(axis=1))

    def at(self, chosen: slice | npt.NDArray[Any]) -> LabelledGames:
        """Some of the positions."""
        columns: list[Any] = [column[chosen] for column in self]
        return LabelledGames(*columns)

    def moved(self, game: Game, history: int) -> LabelledGames:
        """The positions, followed by their images under each symmetry of the board."""
        parts = [self, *(self._through(game, history, number) for number in range(len(game.symmetries)))]
        columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return LabelledGames(*columns)

    def _through(self, game: Game, history: int, number: int) -> LabelledGames:
        symmetry = game.symmetries[number]
        features = moved_rows(game, history, number, self.packed_features)
        # The inverse map: where the symmetry takes a to b, column b of the image is column a of the position.
        back = np.argsort(symmetry.actions)
        return self._replace(
            packed_features=features,
            legal=self.legal[:, back],
            keeps=self.keeps[:, back],
            visit_shares=self.visit_shares[:, back],
        )


def moved_rows(
    game: Game, history: int, number: int, packed_features: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """`packed_features [n, feature_words]` through symmetry `number` of the game."""
    symmetry, moved = game.symmetries[number], np.zeros_like(packed_features)
    planes = game.plane_map(symmetry, 1)
    for old, new in zip(packed_features, moved, strict=True):
        move_features(old, symmetry.cells, planes, game.code_bits, history, new)
    return moved


class Searched(NamedTuple):
    """A searched position of a finished game."""

    game_history: GameHistory
    """The game up to this position; it continues when the next one is requested."""
    visit_shares: npt.NDArray[np.float32]
    """[actions]"""
    outcome: int
    """Outcome for the side to move."""
    root_value: float


def searched(game: Game, record: GameRecord) -> Iterator[Searched]:
    """The policy targets of a game, in order. Raises ValueError if it breaks the rules."""
    game_history = GameHistory(game, record.start, record.max_plies)
    ends = np.cumsum(record.visited, dtype=np.int64)
    for ply, action in enumerate(record.actions.tolist()):
        if record.flags[ply] & 1:
            here = slice(int(ends[ply]) - int(record.visited[ply]), int(ends[ply]))
            shares = np.zeros(game.actions, np.float32)
            shares[record.visit_actions[here]] = record.visits[here] / record.visits[here].sum()
            outcome = outcome_for_first_player(record.outcome, game_history.side_to_move)
            yield Searched(game_history, shares, outcome, float(record.root_values[ply]))
        game_history.play(action)


def label(
    game: Game,
    records: Iterable[GameRecord],
    solution: Solution,
    apart_from: Sequence[Row],
    wanted: int,
    say: Say = lambda _: None,
) -> LabelledGames:
    """The first `wanted` positions of `records` with known truth, of which none is the image of another,
    excluding positions of `apart_from`, by which a network is judged, and their images. The last game may be
    used in part. Raises Fatal(BAD_DATA) if there are none."""
    history = game.history
    seen = _keys_of(game, apart_from)
    rows: list[tuple[npt.NDArray[np.uint64], Searched, Known, npt.NDArray[np.uint16]]] = []
    for record in records:
        for one in searched(game, record):
            features = _features(one.game_history, history)
            if len(rows) == wanted or features.tobytes() in seen:
                continue
            seen |= _with_images(game, features[None])
            known = solution.known(one.game_history.states)
            if known is not None:
                rows.append((features, one, known, one.game_history.legal_actions()))
                if len(rows) % EACH == 0:
                    say(f"{len(rows)} of {wanted} positions are labelled")
        if len(rows) == wanted:
            break
    if not rows:
        raise Fatal("no position of these games has a known truth; give more games", Exit.BAD_DATA)
    return _columns(game, rows)


def _columns(
    game: Game, rows: Sequence[tuple[npt.NDArray[np.uint64], Searched, Known, npt.NDArray[np.uint16]]]
) -> LabelledGames:
    legal, keeps = (np.zeros((len(rows), game.actions), np.bool_) for _ in range(2))
    for index, (_, _, known, actions) in enumerate(rows):
        legal[index, actions] = True
        keeps[index, list(known.keeps)] = True
    return LabelledGames(
        np.array([known.group for _, _, known, _ in rows]),
        np.stack([features for features, *_ in rows]),
        legal,
        keeps,
        np.array([known.value for _, _, known, _ in rows], np.int8),
        np.stack([one.visit_shares for _, one, _, _ in rows]),
        np.array([one.outcome for _, one, _, _ in rows], np.int8),
        np.array([one.root_value for _, one, _, _ in rows], np.float32),
    )


def _features(game_history: GameHistory, history: int) -> npt.NDArray[np.uint64]:
    """[feature_words] of the newest position."""
    game = game_history.game
    packed_features = np.zeros(game.feature_words(history), np.uint64)
    seen = game_history.states[-history:]
    game.rules.encode(seen, len(seen), history, packed_features)
    return packed_features


def _keys_of(game: Game, rows: Sequence[Row]) -> set[bytes]:
    """Features of the rows and of all their images."""
    features = []
    for row in rows:
        played = GameHistory(game, row.start)
        for action in row.moves:
            played.play(action)
        features.append(_features(played, game.history))
    if not features:
        return set()
    return _with_images(game, np.stack(features))


def _with_images(game: Game, packed_features: npt.NDArray[np.uint64]) -> set[bytes]:
    """The rows of `packed_features [n, feature_words]` and their images under all symmetries."""
    numbers = range(len(game.symmetries))
    images = [moved_rows(game, game.history, number, packed_features) for number in numbers]
    return {one.tobytes() for some in (packed_features, *images) for one in some}


def save(path: Path, labelled: LabelledGames) -> None:
    """Write a file that `load` reads."""
    with path.open("wb") as file:
        np.savez_compressed(file, **labelled._asdict())


def load(path: Path, game: Game) -> LabelledGames:
    """Read a file of `save`. Raises Fatal(BAD_DATA) if it is invalid, or of another game."""
    try:
        with np.load(path, allow_pickle=False) as found:
            columns: list[Any] = [found[name] for name in LabelledGames._fields]
    except (OSError, ValueError, KeyError) as error:
        what = f"{path} holds no labelled positions ({error}); delete it to make it anew"
        raise Fatal(what, Exit.BAD_DATA) from None
    labelled = LabelledGames(*columns)
    widths = labelled.packed_features.shape[1], labelled.legal.shape[1]
    if widths != (game.feature_words(game.history), game.actions):
        what = f"{path} holds positions of another game than {game.name}; name another file"
        raise Fatal(what, Exit.BAD_DATA)
    return labelled
