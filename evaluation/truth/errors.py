"""From the moves played to figures: how often a result was thrown away, by how much a mate was delayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from games.game_history import GameHistory
from games.knowledge import Row
from games.spec import Game, outcome_for_first_player


@dataclass(frozen=True)
class Errors:
    """Over the rows of one group. Shares are of the rows that they are counted over."""

    group: str
    rows: int
    errors: float
    """Rows in which the move does not keep the result."""
    matter: int
    """Rows in which some legal move does not."""
    errors_matter: float
    """Errors as a share of those."""
    longer: float | None
    """Moves by which the moves that keep a won endgame delay the mate, on average; None elsewhere."""


def groups_of(rows: Sequence[Row]) -> list[str]:
    """The groups in their order; more than one also get a sum."""
    groups = list(dict.fromkeys(row.group for row in rows))
    return [*groups, "all"] if len(groups) > 1 else groups


def count_errors(rows: Sequence[Row], played: Sequence[int], group: str) -> Errors:
    """Figures of one group (or "all") for the actions played in the rows."""
    pairs = [(row, a) for row, a in zip(rows, played, strict=True) if group in (row.group, "all")]
    wrong = [float(action not in row.keeps) for row, action in pairs]
    delays = [row.longer[action] / 2 for row, action in pairs if action in row.longer]
    return _errors(group, [row for row, _ in pairs], wrong, delays)


def expected_errors(rows: Sequence[Row], group: str) -> Errors:
    """What random moves are expected to get."""
    chosen = [row for row in rows if group in (row.group, "all")]
    wrong = [1 - len(row.keeps) / row.legal for row in chosen]
    delays = [sum(row.longer.values()) / len(row.longer) / 2 for row in chosen if row.longer]
    return _errors(group, chosen, wrong, delays)


def _errors(group: str, rows: Sequence[Row], wrong: Sequence[float], delays: Sequence[float]) -> Errors:
    matter = [share for row, share in zip(rows, wrong, strict=True) if row.matters]
    return Errors(
        group=group,
        rows=len(rows),
        errors=sum(wrong) / max(1, len(rows)),
        matter=len(matter),
        errors_matter=sum(matter) / max(1, len(matter)),
        longer=sum(delays) / len(delays) if delays else None,
    )


@dataclass(frozen=True)
class TreeResult:
    """A player who always plays the same move in a position, against every reply there is."""

    lines: int
    """Games there are."""
    won: int
    drawn: int
    lost: int


def play_whole_tree(game: Game, played: Mapping[bytes, int], *, first: bool) -> TreeResult:
    """A game of few positions from its start against all replies, the player being first or second.

    played  action in each position (the bytes of its state) in which it is the player's turn
    """
    player = 0 if first else 1
    counts: dict[bytes, tuple[int, int, int]] = {}

    def walk(game_history: GameHistory) -> tuple[int, int, int]:
        """(won, drawn, lost) for the player, over all replies from here on."""
        key = game_history.state.tobytes()
        if key not in counts:
            if game_history.end_reason() is not None:
                value = outcome_for_first_player(game_history.outcome(), player)
                counts[key] = int(value > 0), int(value == 0), int(value < 0)
            else:
                own_turn = game_history.side_to_move == player
                actions = [played[key]] if own_turn else game_history.legal_actions().tolist()
                after = [walk(_after(game_history, action)) for action in actions]
                won, drawn, lost = (sum(column) for column in zip(*after, strict=True))
                counts[key] = won, drawn, lost
        return counts[key]

    won, drawn, lost = walk(GameHistory(game))
    return TreeResult(won + drawn + lost, won, drawn, lost)


def _after(game_history: GameHistory, action: int) -> GameHistory:
    """Another line that goes on from this one's position."""
    after = GameHistory(game_history.game, game_history.game.notation.state_to_text(game_history.state))
    after.play(action)
    return after
