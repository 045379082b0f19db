"""The announcement before a search is compiled, and the times that later starts use for it."""

import json
from pathlib import Path

from azselfplay.games import get_game
from azselfplay.search import warm
from azselfplay.search.mcts import search
from azselfplay.search.pool import SearchPool
from azselfplay.search.result import SearchResult
from azselfplay.search.tree import SearchTree
from azselfplay.search.warm import USUAL_SECONDS, Compiled

GAME = get_game("tic_tac_toe")


def test_a_search_is_compiled_once_and_loaded_later(tmp_path: Path) -> None:
    compiled = Compiled(GAME, "puct", tmp_path / "sources")
    compiled.cache.mkdir()
    assert compiled.announcement() == (
        "compiling search kernels for tic_tac_toe (first time, or after a change of the code; about 20 s, "
        "more on a busy machine)"
    )
    compiled.took(31.0)
    assert compiled.announcement() == "loading the compiled search of tic_tac_toe"
    assert not Compiled(GAME, "gumbel", compiled.cache).is_ready
    assert not Compiled(GAME, "puct", compiled.cache, network="sparse256-32-64").is_ready


def test_other_sources_take_as_long_as_the_last_time_on_this_machine(tmp_path: Path) -> None:
    """The time of the same game counts before that of another, and a new time before an old one."""
    notes = {"a/compiled-chess-puct.own.json": (3, 90.0), "a/compiled-tic_tac_toe-puct.own.json": (1, 20.0)}
    notes["b/compiled-tic_tac_toe-puct.own.json"] = (2, 25.0)
    for name, (at, seconds) in notes.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"at": at, "seconds": seconds}))
    (tmp_path / "b" / "compiled-go-puct.own.json").write_text("damaged")
    assert Compiled(GAME, "puct", tmp_path / "c").expected_seconds == 25.0
    assert Compiled(get_game("connect_four"), "puct", tmp_path / "c").expected_seconds == 90.0


def test_code_from_before_there_were_notes_does_not_make_the_next_time_look_short(tmp_path: Path) -> None:
    """It is loaded in a second, and its note says so."""
    compiled = Compiled(GAME, "puct", tmp_path / "sources")
    compiled.cache.mkdir()
    compiled.took(1.0)
    assert compiled.is_ready
    assert Compiled(get_game("connect_four"), "puct", compiled.cache).expected_seconds == USUAL_SECONDS


def test_loading_does_not_replace_the_time_of_compiling(tmp_path: Path) -> None:
    compiled = Compiled(GAME, "puct", tmp_path / "sources")
    compiled.cache.mkdir()
    compiled.took(31.0)
    compiled.took(0.5)
    assert compiled.expected_seconds == 31.0


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
