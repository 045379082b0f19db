"""GTP, USI and UCI engines as real processes: good ones play; bad ones lose their games and do no harm."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop
from test_match_runner import match

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.games.spec import RESIGNATION
from azselfplay.host.exits import Fatal
from azselfplay.play.engine_player import EnginePlayer, EngineSpec
from azselfplay.play.engine_protocols import go_line
from azselfplay.play.openings import Opening
from azselfplay.play.players import make_player
from azselfplay.play.runner import FAILURE, MatchSettings, PlayedGame, play_match

ENGINE = Path(__file__).with_name("scripted_engine.py")
GAMES = {"gtp": "go_5x5", "usi": "shogi", "uci": "chess"}
ALL = pytest.mark.parametrize("protocol", GAMES)
MAX_PLIES = 8


def spec(protocol: str, mode: str, query: str = "timeout=240") -> str:
    return f"{protocol}:{sys.executable} {ENGINE} {protocol} {mode}?{query}"


def played(protocol: str, a: str, b: str, *openings: Opening, at_once: int = 2) -> list[PlayedGame]:
    settings = {"concurrent": at_once, "max_plies": MAX_PLIES}
    return match(get_game(GAMES[protocol]), a, b, openings or [Opening("start")], **settings)


@pytest.mark.parametrize(
    ("protocol", "mode", "what"),
    [
        *((protocol, "crash 1", "died") for protocol in GAMES),
        *((protocol, "hang 1", "said nothing for 1 s") for protocol in GAMES),
        *((protocol, "dead", "did not start") for protocol in GAMES),
        ("gtp", "illegal", "'A99'"),
        ("usi", "illegal", "'5a5a'"),
        ("uci", "illegal", "'e1e8'"),
        ("uci", "garbage", "zz9"),
        ("gtp", "garbage 1", "which is not GTP"),
    ],
)
def test_a_bad_engine_loses_every_game_it_is_in_and_the_match_ends(
    protocol: str, mode: str, what: str
) -> None:
    timeout = "timeout=1" if mode.startswith("hang") else "timeout=240"
    games = played(protocol, spec(protocol, mode, timeout), "random")
    assert [game.outcome_for_a for game in games] == [-1] * 2
    assert {game.reason for game in games} == {FAILURE}
    assert {game.failed for game in games} == {games[0].first_side}
    assert all(what in game.detail for game in games)


def test_an_engine_that_fails_in_one_game_has_a_new_process_for_the_next() -> None:
    games = played("uci", spec("uci", "crash 2"), "random", Opening("start"), Opening("again"), at_once=1)
    assert [game.plies for game in games] == [4, 5, 4, 5]


@ALL
def test_an_engine_that_ends_while_nobody_asks_it_loses_one_game(protocol: str) -> None:
    game = get_game(GAMES[protocol])

    async def killed_twice() -> list[PlayedGame]:
        engine, other = make_player(spec(protocol, "good"), game), make_player("random", game)
        assert isinstance(engine, EnginePlayer)

        async def kill() -> None:
            process = engine._idle[0].process._process
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()

        await engine.prepare()
        await kill()
        games = await play_match(game, engine, other, [Opening("start")], MatchSettings(max_plies=4))
        await kill()
        await engine.close()
        return games

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # the loop of `azplay match`
        games = runner.run(killed_twice())
    assert [game.reason for game in games] == [FAILURE, "ply_cap"]
    assert "the engine has ended" in games[0].detail


@pytest.mark.parametrize("protocol", ["gtp", "usi"])
def test_a_game_that_is_given_up_is_lost_without_a_failure(protocol: str) -> None:
    games = played(protocol, spec(protocol, "resign 1"), spec(protocol, "good"), Opening("a"), Opening("b"))
    assert {game.reason for game in games} == {RESIGNATION}
    assert {(game.failed, game.outcome_for_a) for game in games} == {("", -1)}
    assert {game.plies for game in games} <= {0, 1, 2, 3}


@ALL
def test_a_good_engine_plays_its_moves_and_hears_the_other_sides(protocol: str) -> None:
    (first, second) = played(protocol, spec(protocol, "good", "movetime=50"), spec(protocol, "good"))
    assert (first.reason, first.plies) == ("ply_cap", MAX_PLIES)
    assert first.actions == second.actions


def test_an_engine_without_the_castling_of_chess960_loses_its_games(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GAMES, "uci", "chess960")
    assert all("UCI_Chess960" in game.detail for game in played("uci", spec("uci", "good"), "random"))


def test_an_opening_reaches_a_gtp_engine_with_its_stones_and_moves() -> None:
    start = "...../...../..x../...../..... o 0"
    (game, _) = played("gtp", spec("gtp", "good"), spec("gtp", "good"), Opening("one", start, (1,)))
    moves = [get_game("go_5x5").notation.action_to_text(None, action) for action in game.actions[:4]]
    assert moves == ["B1", "A1", "A2", "A3"]


def test_a_start_position_reaches_a_uci_engine_with_its_moves() -> None:
    start = Opening("ending", "8/8/8/8/8/3k4/3p4/3K4 b - - 0 60")
    assert all(game.reason != FAILURE for game in played("uci", spec("uci", "good"), "random", start))


@pytest.mark.parametrize(
    ("protocol", "option"),
    [
        *((one, "Dance=3") for one in ("uci", "usi", "gtp")),
        *(("usi", one) for one in ("Skill=10", "Skill=two", "Book=1", "Style=solid", "USI_Ponder=true")),
    ],
)
def test_an_engine_that_refuses_an_option_is_not_played_with(protocol: str, option: str) -> None:
    player = make_player(spec(protocol, "good", option), get_game(GAMES[protocol]))
    with pytest.raises(Fatal, match=f"(option|refuses) '{option.partition('=')[0]}"):
        asyncio.run(player.prepare())


def test_values_that_an_engine_takes_are_sent_as_its_protocol_writes_them() -> None:
    async def main() -> None:
        player = make_player(
            spec("usi", "good", "Skill=9&Book=True&Style=Wild&Clear=1&Ponder=false"), get_game("shogi")
        )
        await player.prepare()
        await player.close()

    asyncio.run(main())


def test_an_engine_is_told_its_limits() -> None:
    assert go_line(EngineSpec(()), "usi") == "go nodes 1000"
    limited = EngineSpec((), depth=3, movetime=0.25)
    assert go_line(limited, "usi") == "go btime 0 wtime 0 byoyomi 250 depth 3"
    assert go_line(limited, "uci") == "go movetime 250 depth 3"


@pytest.mark.parametrize(
    ("protocol", "before", "during"),
    [
        ("uci", ["ucinewgame", "isready"], ["position", "go"]),
        ("usi", ["usinewgame", "isready"], ["position", "go"]),
        ("gtp", ["clear_board", "time_settings"], ["genmove"]),
    ],
)
async def test_an_engine_is_ready_before_its_first_move_and_is_not_asked_again(
    protocol: str, before: list[str], during: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tee` records the engine's input: certainly every command before the final "quit". It does not end
    with the engine."""
    monkeypatch.setattr("azselfplay.play.engine_player.GRACE_SECONDS", 0.1)
    game, heard_lines = get_game(GAMES[protocol]), tmp_path / "heard"
    command = f"sh -c 'tee {heard_lines} | {sys.executable} {ENGINE} {protocol} good'"
    player = make_player(f"{protocol}:{command}?movetime=50&timeout=240", game)
    history = GameHistory(game)
    try:
        seat = await player.sit_down(0)
        await seat.be_ready(history)
        await seat.choose(history)
        await seat.close()
    finally:
        await player.close()
    words = [line.split()[0] for line in heard_lines.read_text().splitlines()]
    words = words[words.index(before[0]) :]
    assert [word for word in words if word in before + during] == before + during


async def test_engines_are_killed_even_if_their_end_is_not_waited_for() -> None:
    """Pressing Ctrl-C twice does this."""
    killed = []

    class Deaf:
        def __init__(self) -> None:
            self.process = self

        async def quit(self) -> None:
            await asyncio.Event().wait()

        def kill(self) -> None:
            killed.append(self)

    player = EnginePlayer("deaf", EngineSpec(()), None)  # type: ignore[arg-type]
    player.give_back(Deaf())  # type: ignore[arg-type]
    player.give_back(Deaf())  # type: ignore[arg-type]
    task = asyncio.create_task(player.close())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(killed) == 2


def test_an_engine_inside_a_blend_is_started_before_the_first_game() -> None:
    player = make_player(f"blend:{spec('usi', 'dead')}:50", get_game("shogi"))

    async def preparing() -> None:
        try:
            await player.prepare()
        finally:
            await player.close()

    with pytest.raises(Fatal, match="try the command"):
        asyncio.run(preparing())


INTERRUPTED_GROUP = """
import asyncio, os, signal
from azselfplay.play.engine_player import LineProcess
async def main():
    echo = await LineProcess.start(["cat"])
    await echo.send("before")
    await echo.line()
    signal.signal(signal.SIGINT, lambda *_: None)
    os.killpg(0, signal.SIGINT)
    await echo.send("after")
    print(await echo.line())
    echo.kill()
asyncio.run(main())
"""


def test_ctrl_c_in_the_terminal_does_not_reach_an_engine() -> None:
    command = [sys.executable, "-c", INTERRUPTED_GROUP]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=False)
    assert (done.stdout, done.stderr) == ("after\n", "")
