"""The timer that repeats the search of some positions: how many, and what happens with the result."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import pytest

from trainer.config import PlayersSettings
from trainer.player_check import Due, PlayerCheck


def test_a_share_of_the_new_positions_is_due_and_few_wait_for_more() -> None:
    due = Due(0.01, games=100, positions=5000)
    assert due.take(150, 14_900) is None
    assert due.take(160, 15_000) == (100, 60)
    assert due.take(161, 15_100) is None
    assert due.take(360, 35_000) == (200, 200)


class Recorded(PlayerCheck):
    """Records what would be checked; the second check ends it."""

    def __init__(self, settings: PlayersSettings, folder: Path) -> None:
        super().__init__(settings, folder)
        self.asked: list[tuple[int, int]] = []

    async def check(self, positions: int, newest: int) -> None:
        self.asked.append((positions, newest))
        if len(self.asked) == 2:
            raise EOFError


def test_it_checks_what_came_since_the_last_time_and_nothing_when_off(tmp_path: Path) -> None:
    stored = iter([(10, 1000), (20, 2000), (25, 2100), (40, 4000), *[(0, 0)] * 9])
    check = Recorded(PlayersSettings(check_share=0.5, check_seconds=0.001), tmp_path)
    with pytest.raises(EOFError):
        asyncio.run(check.run(lambda: next(stored)))
    assert check.asked == [(500, 10), (1000, 20)]
    asyncio.run(Recorded(PlayersSettings(), tmp_path).run(lambda: (0, 0)))


def answering(check: PlayerCheck, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let a check run this program."""
    monkeypatch.setattr(check, "_command", lambda *_: [sys.executable, "-c", program])


def test_who_makes_visits_up_is_named_unless_it_is_in_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    check = PlayerCheck(PlayersSettings(), tmp_path)
    odd = '"searched": 40, "excess": 0.5, "z": null, "made_up": true, "in_quarantine": '
    told = f'{{"players": {{"keys/a": {{{odd}false}}, "keys/b": {{{odd}true}}, "keys/c": {{"games": 3}}}}}}'
    answering(check, monkeypatch, f"print({told!r}); raise SystemExit(3)")
    asyncio.run(check.check(80, 10))
    assert (check.searched, check.made_up, check.failed) == (80, 1, 0)
    (line,) = caplog.messages
    assert line.startswith("keys/a has visits that no search gives (excess 0.50 in 40 positions)")
    assert f"azplay players {tmp_path.name} --quarantine keys/a" in line
    caplog.clear()
    answering(check, monkeypatch, """print('{"players": {"keys/a": {"searched": 7}}}')""")
    with caplog.at_level(logging.INFO):
        asyncio.run(check.check(80, 10))
    assert (check.searched, check.made_up) == (87, 0)
    assert caplog.messages == ["7 positions of 1 players were searched again: no visits are made up"]


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; sys.exit('azplay: there are no weights')", "there are no weights"),
        ("print('nonsense')", "malformed"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    ],
)
def test_a_check_that_fails_is_said_and_counted_and_ends_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    program: str,
    why: str,
) -> None:
    check = PlayerCheck(PlayersSettings(), tmp_path, made_up=1)
    answering(check, monkeypatch, program)
    asyncio.run(check.check(80, 10))
    assert (check.searched, check.made_up, check.failed) == (0, 1, 1)
    assert "could not be searched again" in caplog.text
    assert why in caplog.text
