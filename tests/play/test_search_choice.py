"""The search that a network plays with: read from a text or from its run, named, and really used."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from changed_settings import self_play, varied
from in_process import ends

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.host.config import to_toml
from azselfplay.host.exits import Exit
from azselfplay.play.analysis import AnalysisRequest, Analyst
from azselfplay.play.builtin_players import NetPlayer
from azselfplay.play.nets import LoadedNet, search_name, settings_for_search, settings_of_run, word_of
from azselfplay.play.truth_errors import chosen_actions, rows_for
from azselfplay.search.evaluator import UniformEvaluator
from azselfplay.search.settings import FOR_EVALUATION, FOR_PLAY
from protocol.settings import SelfPlaySettings
from server.config import ServerConfig

GAME = get_game("tic_tac_toe")
GUMBEL = varied(FOR_EVALUATION, selection="gumbel")


def run_of(folder: Path, settings: SelfPlaySettings) -> Path:
    """Return weights of a run with these settings; only their name is used."""
    (folder / "config.toml").write_text(to_toml(ServerConfig(self_play=settings)))
    (folder / "weights").mkdir()
    return folder / "weights" / "0.safetensors"


def untrained() -> LoadedNet:
    return LoadedNet(GAME, 1, "knows nothing", 0, UniformEvaluator(), 8)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        FOR_EVALUATION,
        GUMBEL,
        varied(GUMBEL, c_scale=0.1, considered=4),
        varied(FOR_EVALUATION, c_init=2.5, fpu_reduction=0.5),
    ],
)
def test_the_name_of_a_search_makes_that_search_again(settings: SelfPlaySettings) -> None:
    assert settings_for_search(search_name(settings), GAME) == settings


def test_a_name_says_only_what_is_not_as_usual_and_is_used() -> None:
    assert search_name(FOR_EVALUATION) == "puct"
    assert search_name(varied(GUMBEL, c_scale=0.1, c_init=3.0)) == "gumbel?gumbel_c_scale=0.1"


def test_a_setting_of_a_selection_of_its_own_takes_no_word_of_another() -> None:
    paths = ("search.c_init", "moves.final_move", "gumbel.c_scale", "mypuct.c_init")
    assert [word_of(path) for path in paths] == ["c_init", "final_move", "gumbel_c_scale", "mypuct_c_init"]


def test_without_a_word_a_network_that_explored_with_gumbel_plays_with_puct(tmp_path: Path) -> None:
    trained = self_play(selection="gumbel", c_scale=0.3, solver=True, root_noise=0.25, temperature=1.0)
    weights = run_of(tmp_path, trained)
    assert settings_for_search("", GAME, weights) == varied(FOR_PLAY, solver=True)
    assert settings_of_run(weights) == varied(GUMBEL, c_scale=0.3, solver=True)
    assert settings_for_search("puct", GAME, weights) == FOR_EVALUATION
    assert settings_for_search("gumbel", GAME, weights) == GUMBEL
    assert settings_for_search("", GAME, tmp_path / "snapshots" / "any") == varied(FOR_PLAY, solver=True)


def test_weights_of_no_run_are_searched_as_all_that_play(tmp_path: Path) -> None:
    assert settings_for_search("", GAME, tmp_path / "net.safetensors") == FOR_PLAY
    assert settings_for_search("", GAME) == FOR_PLAY


@pytest.mark.parametrize(
    "text", ["negamax", "puct?c_init", "puct?simulations=5", "gumbel?gumbel_c_scale=x", "puct?c_init=-1"]
)
def test_a_search_that_means_nothing_is_refused(text: str) -> None:
    with ends(Exit.CONFIG):
        settings_for_search(text, GAME)


def test_a_game_with_more_moves_than_shares_is_searched_without_shares() -> None:
    wide = replace(GAME, max_legal=10_001)
    with ends(Exit.CONFIG, "choose puct"):
        settings_for_search("gumbel", wide)
    assert settings_for_search("puct", wide) == FOR_EVALUATION


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("gumble", "gumbel"),
        ("thompson?final_mov=secure", "final_move"),
        ("gumbel?c_scale=1", "gumbel_c_scale"),
        ("thompson?c_init=2", "final_"),
    ],
)
def test_a_selection_that_is_not_there_or_does_not_read_a_setting_names_the_nearest(
    text: str, nearest: str
) -> None:
    with ends(Exit.CONFIG, f"the nearest is {nearest}"):
        settings_for_search(text, GAME)


@pytest.mark.parametrize("content", ["self_play = 3\n", "[self_play.search]\nc_init = 'a'\n", "= = ="])
def test_a_run_whose_settings_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    weights = run_of(tmp_path, SelfPlaySettings())
    (tmp_path / "config.toml").write_text(content)
    with ends(Exit.BAD_DATA, r"config\.toml"):
        settings_for_search("", GAME, weights)


def test_players_truth_and_analysis_make_the_search_that_is_named() -> None:
    rows, net = rows_for(GAME, limit=120), untrained()
    analyst = Analyst(GAME, UniformEvaluator(), 1, GUMBEL)

    async def seat_choice(search: SelfPlaySettings, moves: tuple[int, ...]) -> int:
        seat = await NetPlayer("one", net, 12, settings=search).sit_down(0)
        game_history = GameHistory(GAME)
        for move in moves:
            game_history.play(move)
        return await seat.choose(game_history)

    async def analysed(moves: tuple[int, ...]) -> int:
        answer = await analyst.answer(AnalysisRequest(1, "", tuple(str(move + 1) for move in moves), 12))
        assert answer["pv"][0] == answer["best"]
        assert sum(answer["visits"].values()) == 12
        return int(answer["best"]) - 1

    async def all_choices() -> dict[str, list[int]]:
        return {
            "puct": await chosen_actions(net, rows, 12),
            "gumbel": await chosen_actions(net, rows, 12, GUMBEL),
            "puct seat": [await seat_choice(FOR_EVALUATION, one.moves) for one in rows],
            "gumbel seat": [await seat_choice(GUMBEL, one.moves) for one in rows],
            "gumbel analysed": [await analysed(one.moves) for one in rows],
        }

    found = asyncio.run(all_choices())
    assert found["puct"] == found["puct seat"] != found["gumbel"]
    assert found["gumbel"] == found["gumbel seat"] == found["gumbel analysed"]
