"""How often moves lose a known result, and by how much they delay a mate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from games.game_history import GameHistory
from games.knowledge import Row
from games.spec import Game, outcome_for_first_player


@dataclass(frozen=True)
class Errors:
    """Figures of the rows of one group."""

    group: str
    rows: int
    errors: float
    """Share of the rows in which the move does not keep the result."""
    matter: int
    """Rows in which some legal move does not keep the result."""
    errors_matter: float
    """Share of errors in these rows."""
    longer: float | None
    """Average number of moves by which a move that keeps a won endgame delays the mate; None elsewhere."""


def groups_of(rows: Sequence[Row]) -> list[str]:
    """The groups in their order, and "all" if there is more than one."""
    groups = list(dict.fromkeys(row.group for row in rows))
    return [*groups, "all"] if len(groups) > 1 else groups


def count_errors(rows: Sequence[Row], played: Sequence[int], group: str) -> Errors:
    """Figures of one group (or "all"). `played` has an action for each row."""
    pairs = [(row, a) for row, a in zip(rows, played, strict=True) if group in (row.group, "all")]
    wrong = [float(action not in row.keeps) for row, action in pairs]
    delays = [row.longer[action] / 2 for row, action in pairs if action in row.longer]
    return _errors(group, [row for row, _ in pairs], wrong, delays)


def expected_errors(rows: Sequence[Row], group: str) -> Errors:
    """Expected figures of random moves."""
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
    """All games of a player that always plays the same move in a position, against every reply."""

    lines: int
    """Total number of games."""
    won: int
    drawn: int
    lost: int


def play_whole_tree(game: Game, played: Mapping[bytes, int], *, first: bool) -> TreeResult:
    """Play a game of few positions from its start against all replies.

    `played`: the player's action in each position (the bytes of its state) of its turn. `first`: whether the
    player moves first.
    """
    player = 0 if first else 1
    counts: dict[bytes, tuple[int, int, int]] = {}

    def walk(game_history: GameHistory) -> tuple[int, int, int]:
        """(won, drawn, lost) games of the player from here on."""
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
    """A game that begins at this position with `action`."""
    after = GameHistory(game_history.game, game_history.game.notation.state_to_text(game_history.state))
    after.play(action)
    return after
