"""Syzygy tables are imitated by our own endgame tables, because none of their files are here."""

import asyncio
import struct
from pathlib import Path
from typing import Any, cast

import chess
import chess.syzygy
import numpy as np
import pytest
from in_process import ends

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.games.knowledge import knowledge_of
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.analysis import AnalysisRequest, Analyst
from azselfplay.play.nets import load_net
from azselfplay.play.orders import Request
from azselfplay.play.syzygy import Tables, open_tables
from azselfplay.play.thinker import Thinker, Thinking

GAME = get_game("chess")
LADDER = "8/8/8/4k3/8/8/8/R3K3 w - - 0 1"


class MadeUp:
    """Knows KQK and KRK. Its distances are those to mate: without pawns, no zeroing move is nearer."""

    def probe_wdl(self, board: chess.Board) -> int:
        return 2 * self._known(board).value

    def probe_dtz(self, board: chess.Board) -> int:
        known = self._known(board)
        return known.value * (known.plies or 0)

    def _known(self, board: chess.Board) -> Any:
        solution = knowledge_of(GAME).solution
        assert solution is not None
        known = solution.probe(GAME.notation.state_from_text(board.fen()))
        if known is None:
            raise chess.syzygy.MissingTableError(board.fen())
        return known


TABLES = Tables(cast("chess.syzygy.Tablebase", MadeUp()), 3)


async def test_an_engine_whose_network_knows_nothing_mates_with_a_rook_against_any_defence() -> None:
    net = load_net(None, "chess", threads=1)
    thinker = Thinker(net, 1, 8, 0, tables=TABLES)
    rng, history = np.random.default_rng(1), GameHistory(GAME, LADDER)
    known = MadeUp()._known(chess.Board(LADDER)).plies
    while history.end_reason() is None:
        if history.side_to_move == 0:
            request = Request(LADDER, tuple(history.actions), 0.0, simulations=2)
            history.play((await thinker.think(Thinking(request), lambda _: None)).action)
        else:
            history.play(int(rng.choice(history.legal_actions())))
    thinker.close()
    assert history.end_reason() == "checkmate"
    assert history.ply <= known


@pytest.mark.parametrize("simulations", [0, 4])
def test_the_best_move_of_an_analysis_is_one_that_the_tables_know(simulations: int) -> None:
    net = load_net(None, "chess", threads=1)
    analyst = Analyst(GAME, net.evaluator, net.history, tables=TABLES)
    found = asyncio.run(analyst.answer(AnalysisRequest("a", LADDER, (), simulations)))
    net.close()
    history = GameHistory(GAME, LADDER)
    known = TABLES.best(history)
    assert len(known) < len(found["policy"])
    assert GAME.notation.action_from_text(history.state, found["best"]) in known
    assert found["pv"][0] == found["best"]


def test_searched_moves_are_of_those_that_the_gui_allows_and_a_win_is_kept_from_repeating() -> None:
    history = GameHistory(GAME, LADDER)
    allowed = history.legal_actions()[:3].tolist()
    assert set(TABLES.best(history, allowed)) <= {*allowed}
    for move in ("e1e2", "e5e6", "e2e1", "e6e5"):
        history.play_text(move)
    again = GAME.notation.action_from_text(history.state, "e1e2")
    assert again in TABLES.best(GameHistory(GAME, LADDER))
    assert again not in TABLES.best(history)


@pytest.mark.parametrize(
    ("fen", "result"),
    [
        (LADDER, 1),
        ("8/8/8/4k3/8/8/8/R3K3 b - - 0 1", -1),
        ("8/8/8/8/8/8/4k3/K3R3 b - - 0 1", 0),
        ("8/8/8/4k3/8/8/8/R3K3 w - - 1 1", None),
        ("8/8/8/4k3/8/8/8/R3K2R w - - 0 1", None),
        ("8/8/8/4k3/8/8/8/4K2N w - - 0 1", None),
    ],
    ids=["won", "lost", "drawn", "counts moves", "more men", "no table"],
)
def test_results_are_known_where_a_table_counts_no_earlier_moves(fen: str, result: int | None) -> None:
    assert TABLES.result(GameHistory(GAME, fen)) == result


@pytest.mark.parametrize(
    "error", [OSError, ValueError, IndexError, RecursionError, AssertionError, struct.error]
)
def test_a_damaged_table_knows_nothing(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """These are what python-chess raised for 1,500 files that were cut or overwritten at random."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(MadeUp, "_known", fail)
    assert TABLES.result(GameHistory(GAME, LADDER)) is None
    assert TABLES.best(GameHistory(GAME, LADDER)) == ()


def test_a_path_without_tables_and_another_game_are_refused_in_a_sentence(tmp_path: Path) -> None:
    for game, folder, said in (
        ("chess", str(tmp_path), "no Syzygy tables"),
        ("chess", f"{tmp_path}/nowhere", "which is no folder"),
        ("shogi", str(tmp_path), "are of chess, not of shogi"),
    ):
        with ends(Exit.CONFIG, said):
            open_tables(get_game(game), folder)


def test_tables_that_cannot_serve_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody plays by results without distances, nor by distances without results."""
    (tmp_path / "KQvK.rtbz").touch()
    with pytest.raises(Fatal, match="no Syzygy tables"):
        open_tables(GAME, str(tmp_path))
    (tmp_path / "KQvK.rtbz").rename(tmp_path / "KQvK.rtbw")
    with pytest.raises(Fatal, match=r"needs KQvK\.rtbz"):
        open_tables(GAME, str(tmp_path))
    assert open_tables(GAME, str(tmp_path), only_results=True).result(GameHistory(GAME, LADDER)) is None

    def unreadable(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(chess.syzygy.Tablebase, "add_directory", unreadable)
    with ends(Exit.CONFIG, r"cannot read Syzygy tables in .*Permission denied"):
        open_tables(GAME, str(tmp_path))
