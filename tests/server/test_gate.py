"""The gate's decisions, without processes: one match at a time, then the newest candidate; crashes."""

from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import given
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from protocol.messages import WeightsInfo
from server.gate import Gate, GateReport, GateState, Judged, Play, belongs, verdict

WON, LOST, OPEN = GateReport(3, 0, 1, 4), GateReport(1, 1, 2, 4), GateReport(1, 0, 1, 4)
SHARE = 0.55


def weights(version: int) -> WeightsInfo:
    return WeightsInfo(version, 100 * version, version.to_bytes(32), 10, "tic_tac_toe")


def begun(*versions: int) -> Gate:
    """Return a gate with weights 0 as the best and these versions published."""
    gate = Gate(weights(0), SHARE)
    gate.start()
    for version in versions:
        gate.published(weights(version))
    return gate


def test_a_winner_plays_from_now_on_and_the_newest_of_those_that_waited_meets_it() -> None:
    gate = begun()
    assert gate.published(weights(1)) == [gate.state, Play(weights(0), weights(1))]
    assert gate.published(weights(2)) == [gate.state]
    gate.published(weights(3))
    gate.report(WON)
    saved, promoted, play = gate.ended()
    assert promoted == Judged(weights(1), WON, promoted=True)
    assert play == Play(weights(1), weights(3))
    assert saved == gate.state
    assert (gate.state.best, gate.state.before) == (weights(1), weights(0).sha256)
    assert (gate.state.promoted, gate.state.rejected, gate.state.passed_over) == (1, 0, 1)


def test_a_loser_changes_nothing_for_the_games() -> None:
    gate = begun(1)
    gate.report(LOST)
    saved, rejected = gate.ended()
    assert rejected == Judged(weights(1), LOST)
    assert saved == gate.state
    assert gate.state.best == weights(0)
    assert gate.figures() == {
        "best": 0, "candidate": None, "waiting": None, "games": 0, "score": None, "last_score": 0.375,
        "promoted": 0, "rejected": 1, "passed_over": 0,
    }  # fmt: skip


def test_a_gate_that_breaks_off_is_played_again_and_given_up_after_the_third_time() -> None:
    gate = begun(1)
    for _ in range(2):
        gate.report(OPEN)
        assert gate.ended("killed") == [Play(weights(0), weights(1))]
    assert gate.ended("killed")[1] == Judged(weights(1), None, reason="killed")
    assert gate.state.candidate is None


def test_a_gate_that_breaks_off_makes_room_for_newer_weights() -> None:
    gate = begun(1, 2)
    given_up = Judged(weights(1), None, reason="killed")
    assert gate.ended("killed")[1:] == [given_up, Play(weights(0), weights(2))]


def test_weights_that_evaluators_refuse_are_best_no_more_and_the_gate_is_played_again() -> None:
    gate = begun(1, 2)
    gate.report(WON)
    gate.ended()
    assert gate.refused(weights(1), weights(0)) == [gate.state]
    gate.report(WON)
    assert gate.ended() == [Play(weights(0), weights(2))]


def test_the_same_bytes_again_are_no_candidate() -> None:
    gate = begun(1)
    again = WeightsInfo(5, 500, weights(1).sha256, 10, "tic_tac_toe")
    assert gate.published(again) == [gate.state]
    assert (gate.state.newest, gate.state.candidate) == (again, weights(1))


def test_a_state_of_other_weights_is_known_by_the_hash() -> None:
    state = GateState(weights(3), weights(1).sha256, weights(4))
    assert [version for version in range(5) if belongs(state, weights(version))] == [1, 3]


class GateMachine(RuleBasedStateMachine):
    """Publishing, games, failures and crashes in any order."""

    @initialize()
    def begin(self) -> None:
        self.saved: GateState | None = None
        self.best = weights(0)
        self.playing: Play | None = None
        self.published = 0
        self.judged = 0
        self.gate = Gate(self.best, SHARE)
        self.follow(self.gate.start())

    def follow(self, instructions: list) -> None:
        for instruction in instructions:
            match instruction:
                case GateState():
                    self.saved = instruction
                case Judged(info, _, True):
                    assert self.saved is not None
                    assert self.saved.best == info  # on disk before anything plays with them
                    self.best = info
                case Play():
                    assert self.playing is None
                    assert instruction.best == self.best
                    assert instruction.candidate.version > self.best.version
                    self.playing = instruction

    @rule()
    def publish(self) -> None:
        self.published += 1
        self.follow(self.gate.published(weights(self.published)))

    @precondition(lambda self: self.playing)
    @rule(report=st.sampled_from([WON, LOST]))
    def decide(self, report: GateReport) -> None:
        play, self.playing = self.playing, None
        before = self.best
        self.gate.report(report)
        self.follow(self.gate.ended())
        self.judged = play.candidate.version
        assert self.best == (play.candidate if report == WON else before)
        newest = weights(self.published)
        if self.judged < self.published:
            assert self.playing is not None
            assert self.playing.candidate == newest

    @precondition(lambda self: self.playing)
    @rule()
    def break_off(self) -> None:
        play, self.playing = self.playing, None
        self.gate.report(OPEN)
        self.follow(self.gate.ended("killed"))
        if self.playing is None or self.playing.candidate != play.candidate:
            self.judged = play.candidate.version

    @rule()
    def crash(self) -> None:
        """Only what was saved remains; the gate that was in progress begins again, with the newest
        weights."""
        self.playing = None
        self.gate = Gate(weights(0), SHARE, self.saved)
        self.follow(self.gate.start())
        assert self.gate.state.best == self.best
        if self.judged < self.published:
            assert self.playing is not None
            assert self.playing.candidate == weights(self.published)

    @invariant()
    def newest_is_judged_or_being_tried_or_next(self) -> None:
        state = self.gate.state
        pending = [one.version for one in (state.candidate, state.waiting) if one is not None]
        assert self.judged == self.published or max(pending) == self.published == state.newest.version


TestGateMachine = GateMachine.TestCase


# ---- the verdict: exactly at the share, and never while the games left could change the result -----


@pytest.mark.parametrize(
    ("wins", "draws", "losses", "expected"),
    [
        (220, 0, 180, False),  # 55 % exactly is not more than 55 %
        (220, 1, 179, True),
        (221, 0, 0, True),  # the rest may be lost
        (0, 0, 180, False),  # the rest may be won, and is only 55 %
        (0, 0, 179, None),
        (220, 0, 0, None),
        (100, 241, 59, True),  # draws are half points
    ],
)
def test_four_hundred_games_by_hand(wins: int, draws: int, losses: int, expected: bool | None) -> None:
    assert verdict(GateReport(wins, draws, losses, 400), 0.55) is expected


@given(
    st.lists(st.sampled_from([1, 0, -1]), min_size=1, max_size=60),
    st.integers(0, 99).map(lambda percent: percent / 100),
)
def test_an_early_verdict_is_that_of_all_games(outcomes: list[int], share: float) -> None:
    """A decision never changes, and it is the one that the exact share of all points gives."""
    games = len(outcomes)
    seen = []
    for played in range(games + 1):
        part = outcomes[:played]
        report = GateReport(part.count(1), part.count(0), part.count(-1), games)
        seen.append(verdict(report, share))
    points = Fraction(sum(outcome + 1 for outcome in outcomes), 2 * games)
    final = points > Fraction(str(share))
    assert seen[-1] is final
    assert set(seen) <= {None, final}
