"""The moves that compile a search."""

from azselfplay.search import warm
from azselfplay.search.mcts import search
from azselfplay.search.pool import SearchPool
from azselfplay.search.result import SearchResult
from azselfplay.search.tree import SearchTree


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
