"""The slow, obvious twin of window and sampler: a list of records, one position at a time."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from naive_verify import legal_and_end, positions_of, visits_by_ply

from azselfplay.games.spec import PLY_CAP, RECORDED, RESIGNATION, Game, Symmetry
from protocol.records import POLICY_TARGET, GameRecord
from trainer.sampler_kernel import Samples
from trainer.window import BY_CAP, BY_PLAYER, BY_RULES, Window


@dataclass
class NaiveWindow:
    """Keeps games in order; the oldest are dropped until the rest fits."""

    positions: int
    visits: int
    games: int
    records: list[GameRecord] = field(default_factory=list)

    def add(self, record: GameRecord) -> None:
        self.records.append(record)
        while (
            sum(r.plies for r in self.records) > self.positions
            or sum(len(r.visits) for r in self.records) > self.visits
            or len(self.records) > self.games
        ):
            self.records.pop(0)

    def position(self, index: int) -> tuple[GameRecord, int]:
        """Return the game and ply of the position `index`, counted from the oldest."""
        for record in self.records:
            if index < record.plies:
                return record, index
            index -= record.plies
        raise IndexError(index)


def naive_words(game: Game, record: GameRecord, ply: int, history: int) -> npt.NDArray[np.uint64]:
    packed_features = np.zeros(game.feature_words(history), dtype=np.uint64)
    positions = np.array(positions_of(game, record)[: ply + 1])
    game.rules.encode(positions, len(positions), history, packed_features)
    return packed_features


def naive_policy(game: Game, record: GameRecord, ply: int) -> dict[int, float]:
    """Return the share of the visits for each legal action; empty for a ply that is not a policy target."""
    if not record.flags[ply] & POLICY_TARGET:
        return {}
    legal, _ = legal_and_end(game, positions_of(game, record)[: ply + 1])
    visits = dict(visits_by_ply(record)[ply])
    return {action: visits.get(action, 0) / sum(visits.values()) for action in legal}


def naive_class(game: Game, record: GameRecord, ply: int) -> int:
    """Return 0 if the side to move at `ply` won the game, 2 if it lost, 1 for a draw."""
    first_player_moves = int(game.rules.side_to_move(positions_of(game, record)[ply])) == 0
    if record.outcome == 0:
        return 1
    return 0 if (record.outcome == 1) == first_player_moves else 2


def naive_end(record: GameRecord) -> tuple[int, float]:
    """Return what ended the game, and how sure its outcome was then."""
    if record.reason in (RESIGNATION, RECORDED):
        return BY_PLAYER, abs(float(record.root_values[-1]))
    return (BY_CAP if record.reason == PLY_CAP else BY_RULES), 1.0


def naive_symmetry(
    game: Game, packed_features: npt.NDArray[np.uint64], symmetry: Symmetry, history: int
) -> npt.NDArray[np.uint64]:
    """Return the features of the board after a symmetry."""
    out, size = packed_features.copy(), game.words_per_plane
    for plane in range(game.bit_planes(history)):
        position, kind = divmod(plane, game.planes_per_position)
        moved = kind if symmetry.planes is None else int(symmetry.planes[kind])
        parts = packed_features[plane * size : (plane + 1) * size].tolist()
        cells = [i for i in range(game.cells) if parts[i // 64] >> i % 64 & 1]
        turned = sum(1 << int(symmetry.cells[i]) for i in cells)
        first = (position * game.planes_per_position + moved) * size
        out[first : first + size] = _words(turned, size)
    coded, first = game.coded_cells, game.bit_planes(history) * size
    for position in range(history if coded else 0):
        assert coded is not None
        words = slice(
            first + position * coded.words(game.cells), first + (position + 1) * coded.words(game.cells)
        )
        old, new = packed_features[words].tolist(), [0] * coded.words(game.cells)
        for cell in range(game.cells):
            word, at = divmod(cell, 64 // coded.bits)
            to_word, to = divmod(int(symmetry.cells[cell]), 64 // coded.bits)
            new[to_word] |= (old[word] >> coded.bits * at & (1 << coded.bits) - 1) << coded.bits * to
        out[words] = new
    return out


def _words(number: int, count: int) -> list[int]:
    return [number >> 64 * at & (1 << 64) - 1 for at in range(count)]


def drawn(
    window: Window, records: list[GameRecord], draws: list[tuple[int, int]]
) -> tuple[list[tuple[GameRecord, int, int]], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (record, ply, symmetry) of each draw, and the window's numbers and symmetries for them. A draw
    is a place among the positions of `records` that the window still has, and a symmetry."""
    positions = [(record, ply) for record in records for ply in range(record.plies)][-window.positions :]
    chosen = [at % len(positions) for at, _ in draws]
    symmetries = [symmetry for _, symmetry in draws]
    found = [(*positions[at], symmetry) for at, symmetry in zip(chosen, symmetries, strict=True)]
    return found, window.first_position + np.array(chosen), np.array(symmetries)


def policy_of(samples: Samples, row: int) -> dict[int, float]:
    """Return the share of each action of a sample's policy target."""
    here = samples.rows == row
    return dict(zip(samples.actions[here].tolist(), samples.shares[here].tolist(), strict=True))
