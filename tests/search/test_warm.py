"""The announcement before a search is compiled or loaded."""

from pathlib import Path

from azselfplay.games import get_game
from azselfplay.search import warm
from azselfplay.search.mcts import search
from azselfplay.search.pool import SearchPool
from azselfplay.search.result import SearchResult
from azselfplay.search.tree import SearchTree
from azselfplay.search.warm import Compiled

GAME = get_game("tic_tac_toe")


def test_a_search_is_compiled_once_and_loaded_later(tmp_path: Path) -> None:
    compiled = Compiled(GAME, "puct", tmp_path)
    assert compiled.announcement().startswith("compiling search kernels for tic_tac_toe (first time")
    compiled.note()
    assert compiled.announcement() == "loading the compiled search of tic_tac_toe"
    assert not Compiled(GAME, "gumbel", tmp_path).is_ready
    assert not Compiled(GAME, "puct", tmp_path, network="sparse256-32-64").is_ready


def test_a_game_that_is_over_after_one_move_is_searched_twice_from_its_start(monkeypatch) -> None:
    class OverAtOnce(SearchTree):
        def end_reason(self) -> str | None:
            return "line" if self.ply else None

    async def searched(tree: SearchTree, pool: SearchPool) -> SearchResult:
        plies.append(tree.ply)
        return await search(tree, pool)

    plies: list[int] = []
    monkeypatch.setattr(warm, "SearchTree", OverAtOnce)
    monkeypatch.setattr(warm, "search", searched)
    warm.warm("tic_tac_toe")
    assert plies == [0, 0]
