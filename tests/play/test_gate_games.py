"""The games of a gate: distinct openings, both colours, no chance, and an end as soon as the result is
certain."""

import asyncio
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from changed_settings import self_play

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play import gate
from azselfplay.play.builtin_players import NetPlayer
from azselfplay.play.gate import Progress, gate_openings, play
from azselfplay.play.nets import load_net
from azselfplay.play.openings import random_openings
from azselfplay.play.players import make_player
from azselfplay.search.settings import resolve
from protocol.settings import SelfPlaySettings, StartSettings
from server.gate import GateReport, verdict

TIC, FOUR, CHESS = (get_game(name) for name in ("tic_tac_toe", "connect_four", "chess"))


def test_openings_lead_to_different_positions_and_begin_with_the_book() -> None:
    """Tic-tac-toe has fewer than 200 positions after two plies, so a third ply is played."""
    for game, count in ((TIC, 200), (FOUR, 60), (CHESS, 45)):
        openings = gate_openings(game, count, 1, resolve(SelfPlaySettings(), game))
        lines = [one.game_history(game) for one in openings]
        assert len({game_history.state.tobytes() for game_history in lines}) == len(openings) == count
        assert all(game_history.end_reason() is None for game_history in lines)
    assert openings[0].id == "Ruy Lopez"
    settings = resolve(SelfPlaySettings(), FOUR)
    assert gate_openings(FOUR, 20, 1, settings) != gate_openings(FOUR, 20, 2, settings)


def test_a_gpu_that_is_gone_may_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """azserver ends with what can never work, and it found the GPU at its start."""

    def load(*_: object, device: str, **__: object) -> None:
        raise Fatal(f"no {device}", Exit.CONFIG)

    monkeypatch.setattr(gate, "load_net", load)
    (file := tmp_path / "settings.json").write_text("{}")
    words = ["--game", "tic_tac_toe", "--best", "a", "--candidate", "b", "--self-play", str(file), "--device"]
    for device, code in (("cuda:0", Exit.TRY_AGAIN), ("cpu", Exit.CONFIG)):
        with pytest.raises(Fatal, match=f"no {device}") as caught:
            gate.run(gate.parse([*words, device]))
        assert caught.value.code == code


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_openings_from_a_start_position_begin_there(share: float) -> None:
    start = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"
    starts = StartSettings(positions=start, share=1.0) if share else StartSettings(start)
    settings = resolve(SelfPlaySettings(start=starts), CHESS)
    openings = gate_openings(CHESS, 10, 1, settings)
    assert {one.start for one in openings} == {start}
    assert openings == random_openings(CHESS, 10, 4, 1, settings)


def test_a_gate_begins_at_the_endings_that_self_play_begins_at() -> None:
    """Random moves could lose the rook; they are for a kind with fewer positions than the gate has games."""
    for game, kind, plies in ((CHESS, "KRK", {0}), (get_game("chess960"), "518", {0, 1})):
        settings = resolve(SelfPlaySettings(start=StartSettings(generator=kind, share=1.0)), game)
        openings = gate_openings(game, 20, 1, settings)
        assert len(openings) == 20
        assert {len(one.actions) for one in openings} == plies
        assert all(game.generator.matches(kind, one.start) for one in openings)


def gate_of(candidate: str, best: str, share: float, pairs: int) -> list[GateReport]:
    reports: list[GateReport] = []
    players = make_player(candidate, TIC), make_player(best, TIC)
    openings = gate_openings(TIC, pairs, 1, resolve(SelfPlaySettings(), TIC))
    last = asyncio.run(play(TIC, *players, openings, share, reports.append, concurrent=4))
    assert last == reports[-1]
    return reports


def test_a_gate_ends_as_soon_as_it_is_decided() -> None:
    """The solver against a random player needs fewer than the sixty games, whichever of them is the
    candidate."""
    reports = gate_of("solver", "random", 0.55, 30)
    assert [verdict(report, 0.55) for report in reports[:-1]] == [None] * (len(reports) - 1)
    assert verdict(reports[-1], 0.55) is True
    assert reports[-1].played < 60
    assert all(report.games == 60 for report in reports)
    last = gate_of("random", "solver", 0.55, 30)[-1]
    assert verdict(last, 0.55) is False
    assert last.played < 60


def test_a_gate_between_equals_is_played_out_and_not_won() -> None:
    """Two perfect players win each opening once each, or draw it twice: both have half of the points."""
    last = gate_of("solver", "solver", 0.5, 10)[-1]
    assert (last.score, verdict(last, 0.5)) == (0.5, False)


def test_a_player_of_the_gate_plays_the_same_whatever_the_seed() -> None:
    for root in ("puct", "gumbel"):
        settings = resolve(
            self_play(simulations=8, selection=root, root_noise=0.0, temperature=0.0, history=1), TIC
        )
        net = load_net(None, "tic_tac_toe", threads=1)
        player = NetPlayer("x", net, settings.search.simulations, net.close, settings)

        async def moves(seed: int, player: NetPlayer = player) -> list[int]:
            game_history, seat = GameHistory(TIC), await player.sit_down(seed)
            while game_history.end_reason() is None:
                game_history.play(await seat.choose(game_history))
            return game_history.actions

        games = [asyncio.run(moves(seed)) for seed in (1, 2)]
        assert games[0] == games[1]
        assert np.unique(games[0]).size == len(games[0])
        asyncio.run(player.close())


async def test_a_gate_repeats_its_report_for_as_long_as_it_computes() -> None:
    """Silence means that it hangs: while nothing is evaluated, no report is sent."""
    told: list[GateReport] = []
    none, one = GateReport(0, 0, 0, 4), GateReport(1, 0, 0, 4)
    counts = iter([10, 20, 20, 20, 30])
    progress = Progress(told.append, none)
    progress.tell(one)

    def evaluated() -> int:
        if (count := next(counts, None)) is None:
            raise asyncio.CancelledError
        return count

    with suppress(asyncio.CancelledError):
        await progress.repeat(evaluated, every=0.0)
    assert told == [one, one, one, one]
