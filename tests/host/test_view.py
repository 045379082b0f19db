"""The view of a run, made from the figures of STATUS."""

import errno
import io
import re
import sys

import pytest

from azselfplay.host.view import PLAIN_EVERY, View, line, rows

FIGURES = {
    "evals_per_s": 12345.6, "mean_batch": 96.25, "target_rows": 128, "queue_wait_ms": 1.234,
    "weights_version": 3, "sessions": {"workers": 1, "clients": 2, "trainer": 1},
    "trainer": {
        "games": 1200, "games_per_h": 3400.4, "outcomes": {"first": 5, "draw": 6, "second": 7},
        "reasons": {"checkmate": 12, "ply_cap": 20}, "window_positions": 98765, "step": 42,
        "policy_loss": 3.21, "value_loss": 0.98, "samples_per_position": 1.5, "waiting_for": "",
        "resignation": {"threshold": -0.9, "played_on": 500, "would_resign": 50, "mistakes": 0.04},
    },
}  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_table_has_all_figures_with_their_names() -> None:
    shown = dict(rows(FIGURES))
    assert shown["games"] == "1,200  (3,400/h)"
    assert shown["won, drawn, lost"] == "5 / 6 / 7"
    assert shown["ended by"] == "ply cap 20, checkmate 12"
    assert shown["mean batch"] == "96.2 of 128"
    assert shown["loss"] == "policy 3.210, value 0.980"
    assert shown["trainer"] == "training"
    assert shown["resignation"] == "from -0.900, mistakes 4.0 % of 50 that would resign, 500 played on"


def test_alerts_are_shown_as_long_as_they_hold() -> None:
    alerts = ["old weights: 5 behind", "repetitions: 40%"]
    figures = {**FIGURES, "trainer": {**FIGURES["trainer"], "alerts": alerts}}  # type: ignore[dict-item]
    assert [text for name, text in rows(figures) if name == "alert"] == alerts
    assert line(figures).endswith("training, ALERT old weights: 5 behind, ALERT repetitions: 40%")
    assert "alert" not in dict(rows(FIGURES))


def test_a_trainer_that_has_left_says_nothing_about_the_present() -> None:
    trainer = {"games": 1200, "games_per_h": 3400.0, "alerts": ["repetitions: 40%"]}
    left = {"sessions": {"workers": 1, "trainer": 0}, "trainer": trainer}
    assert dict(rows(left))["games"] == "1,200  (-/h)"
    assert "alert" not in dict(rows(left))
    assert line(left).startswith("games 1,200 (-/h)")
    assert "ALERT" not in line(left)


def test_without_a_terminal_there_is_one_line_every_30_seconds() -> None:
    """Logs of a batch job stay readable."""
    stream = io.StringIO()
    with View("run-1", stream) as view:
        for now in (0.0, 1.0, PLAIN_EVERY - 0.1, PLAIN_EVERY, PLAIN_EVERY + 1):
            view.update(FIGURES, now)
    assert stream.getvalue().splitlines() == [f"run-1: {line(FIGURES)}"] * 2


def test_a_terminal_gets_a_table_without_colours(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with View("run-1", stream) as view:
        view.update(FIGURES, 0.0)
        view.note("worker-0 ended (killed by SIGKILL)")
    assert "evaluations/s" in stream.getvalue()
    assert "killed by SIGKILL" in stream.getvalue()
    assert re.search(r"\x1b\[3[0-7]m", stream.getvalue()) is None


def test_a_terminal_shows_brackets_as_they_are(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    stream, alerts = Terminal(), ["[archive] is full", "an end [/b]"]
    with View("run-1, [fd00::1]", stream) as view:
        view.update({"trainer": {"alerts": alerts}}, 0.0)
    assert all(text in stream.getvalue() for text in ("[fd00::1]", *alerts))


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
@pytest.mark.parametrize("trainer", [{"games": "many"}, {"outcomes": 5}, {"games": float("nan")}])
def test_figures_of_a_wrong_kind_do_not_end_the_program(trainer, kind, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = kind()
    with View("run-1", stream) as view:
        view.update({"trainer": trainer}, 0.0)
        view.update(FIGURES, PLAIN_EVERY)
    assert "1,200" in stream.getvalue()


class GoneTerminal(Terminal):
    """Whoever started the program has logged out: nothing can be written any more."""

    gone = False

    def write(self, text: str) -> int:
        if self.gone:
            raise OSError(errno.EIO, "Input/output error")
        return super().write(text)


def test_a_terminal_that_goes_away_neither_fills_the_memory_nor_ends_the_program(monkeypatch) -> None:
    """What could not be drawn is not kept, and stderr is what it was."""
    monkeypatch.setenv("TERM", "xterm")
    terminal, stderr = GoneTerminal(), sys.stderr
    with View("run", terminal) as view:
        view.update(FIGURES, 0.0)
        terminal.gone = True
        for number in range(100):
            view.note(f"event {number}")
            view.update(FIGURES, float(number))
        assert len(view._console._buffer) < 1000
        assert sys.stderr is stderr
