"""Signs that a run does not learn, with the figures behind each sign (`diagnostics.advice` says what to do).

`find_alerts` is pure. The trainer calls it through a `Watch`, which remembers recent games and training
figures, and records what is found; `azplay report` shows that. The limits come from published accounts of
failed projects (docs/web.md).
"""

from __future__ import annotations

import logging
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from azselfplay.diagnostics.advice import ADVICE, with_advice
from azselfplay.diagnostics.stretches import Stretch
from azselfplay.games.spec import PLY_CAP, Game
from azselfplay.games.stubs import Movers
from protocol.records import GameRecord

log = logging.getLogger(__name__)

SMALLEST_STRETCH = 30
"""Least number of games in a stretch; with fewer, chance alone may explain anything."""

LEAST_STEPS = 1000
"""No alert is raised before this training step: 10 publications by default. The first games of a run are few
and played by networks that know nothing, so any network memorises them, and their endings mean nothing."""

# One bad stretch may be chance, three in a row hardly are.
IN_A_ROW = 3
"""Number of consecutive stretches that must all show a collapse, and of training figures that must all show
memorising."""

DRAWS = 0.60
"""Share of draws above which a stretch counts as collapsed."""

DRAWN_LOSS = 0.5
"""Value loss below which, with a share of draws above DRAWS, the value head predicts hardly anything but
draws."""

REPEATED = 0.30
"""Share of games that end by repetition above which there is an alert."""

SATURATED_VALUES = 0.10
"""Share of root values that may call the result certain (beyond SATURATED)."""

WRONG_VALUES = 0.05
"""Share of the certain values that may be wrong; at |value| > 0.99 a calibrated network has under 0.01."""

CAPPED = 0.25
"""Share of games that may be cut off by the cap on their length."""

DISK_HOURS = 24.0
"""Hours until the disk is full below which there is an alert."""

BEHIND = 0.7
"""Part of the allowed samples below which the trainer cannot keep up with the games."""

LAG = 3.0
"""Number of weights versions that games may be behind."""

GAP = 0.02
"""Policy loss minus the entropy of its targets, nats: what is still to be learned from the window."""

VALUE_FELL = 0.8
"""Memorising: the value loss is below this part of its former value ..."""

HELD_OUT_ROSE = 1.05
"""... while on held-out games it is above this part of its former value, and above the loss in training."""

HELD_OUT_GAP = 0.20
"""Also a sign of memorising: nats by which the value loss on held-out games exceeds the value loss in
training. (We measured 0.25 in Connect Four at 4 samples a position, 0.05 at 2.)"""

NO_EFFECT = 0.05
"""KL of visits and priors, in nats, below which a search teaches the network nothing new."""

STRETCH = 256
"""Games in a stretch."""

STRETCHES = 20
"""Stretches remembered: the recent ones that alerts judge, and older ones for comparison."""

LESSONS = 10 * IN_A_ROW
"""Number of training figures that are compared."""

LESSON_STEPS = 20
"""Steps between two training figures that are compared."""

NEWEST_GAMES = 100
"""Number of newest games whose weights version is compared with the current one."""


@dataclass(frozen=True)
class Lesson:
    """Training figures at some step."""

    step: int
    policy_loss: float
    policy_entropy: float
    """Entropy of the targets: no network has a smaller policy loss on them."""
    value_loss: float
    held_out_value_loss: float | None = None
    """Value loss on games that were never trained on; None: unknown."""


@dataclass(frozen=True)
class Evidence:
    """The data in which alerts are found."""

    game: Game
    """In a game with few positions many alerts make no sense: all positions can be memorised, and perfect
    play may be a draw."""
    stretches: Sequence[Stretch]
    """Oldest first."""
    lessons: Sequence[Lesson] = ()
    """From the last part of training, oldest first."""
    lag: float | None = None
    """Weights versions that the newest games are behind (median); None: unknown."""
    samples_per_position: float | None = None
    training_share: float | None = None
    """Samples trained on in the last hour as a share of those that its games allowed; None: unknown, or
    training waits for games."""
    disk_hours: float | None = None
    """Hours until the run's disk is full, if games go on to come as they do; None: unknown or never."""
    step: float | None = None
    """The present step of training; None: unknown."""
    network: str = ""
    """Name of the network (`Architecture.name`); empty: unknown."""

    @property
    def newest(self) -> Stretch:
        """The newest stretch; before the first one, an empty one, whose shares are all 0."""
        return self.stretches[-1] if self.stretches else Stretch()


Check = Callable[[Evidence], str]
"""What was seen, with numbers; "" if there is nothing to report."""
CHECKS: dict[str, Check] = {}
"""Checks by the name of their alert, in the order of their definitions below: the most serious first."""


def alert(name: str) -> Callable[[Check], Check]:
    """Register the decorated function as the check for the alert `name`."""

    def register(check: Check) -> Check:
        assert name in ADVICE, "every alert must come with advice"
        CHECKS[name] = check
        return check

    return register


def find_alerts(evidence: Evidence) -> dict[str, str]:
    """Return what was seen, with numbers, by the name of the alert; the most serious first."""
    if evidence.step is not None and evidence.step < LEAST_STEPS:
        return {}
    # Untrained weights play at random: their games show every sign of a run that does not learn.
    judged = replace(evidence, stretches=[one for one in evidence.stretches if is_judged(one)])
    return {name: seen for name, check in CHECKS.items() if (seen := check(judged))}


def is_judged(stretch: Stretch) -> bool:
    """Return whether alerts are looked for in `stretch`: it has enough games, and most of them began with
    trained weights."""
    return stretch.games >= SMALLEST_STRETCH and 2 * stretch.untrained < stretch.games


@alert("draw collapse")
def draw_collapse(evidence: Evidence) -> str:
    recent = evidence.stretches[-IN_A_ROW:]
    collapsed = len(recent) == IN_A_ROW and all(stretch.draw_share > DRAWS for stretch in recent)
    if evidence.game.few_positions or not collapsed:
        return ""
    # The least share so far shows whether the run was ever better.
    least = min(stretch.draw_share for stretch in evidence.stretches)
    draws = ", ".join(f"{stretch.draw_share:.0%}" for stretch in recent)
    return f"{draws} draws in the last {IN_A_ROW} stretches (least so far {least:.0%}; limit {DRAWS:.0%})"


@alert("value says draw")
def says_draw(evidence: Evidence) -> str:
    losses = [lesson.value_loss for lesson in evidence.lessons[-IN_A_ROW:]]
    too_good = len(losses) == IN_A_ROW and max(losses) < DRAWN_LOSS
    draws = evidence.newest.draw_share
    # The loss of a tanh head is a mean square, and small wherever most games are drawn.
    if evidence.game.few_positions or draws <= DRAWS or not too_good or evidence.network.endswith("tanh"):
        return ""
    return f"value loss {max(losses):.2f} (limit {DRAWN_LOSS}; a guess: 1.10), {draws:.0%} draws"


@alert("search without effect")
def no_effect(evidence: Evidence) -> str:
    recent = evidence.stretches[-IN_A_ROW:]
    # Clients of other projects may not report the KL divergence.
    known = [kl for stretch in recent if (kl := stretch.roots.means()["kl"]) is not None]
    if evidence.game.few_positions or len(known) < IN_A_ROW or max(known) >= NO_EFFECT:
        return ""
    kls, newest = ", ".join(f"{kl:.3f}" for kl in known), recent[-1].roots.means()
    moves, differs = newest["moves"] or 0.0, newest["differs"] or 0.0
    return (
        f"KL of visits and priors {kls} nats in the last {IN_A_ROW} stretches (limit {NO_EFFECT}); "
        f"{moves:.1f} moves in a policy target, another first choice than the network's in {differs:.0%}"
    )


@alert("repetitions")
def repetitions(evidence: Evidence) -> str:
    # The reasons of chess and shogi.
    share = evidence.newest.share("threefold_repetition") + evidence.newest.share("repetition")
    if share <= REPEATED:
        return ""
    return f"{share:.0%} of the newest games end by repetition (limit {REPEATED:.0%})"


@alert("short draws")
def short_draws(evidence: Evidence) -> str:
    # 0 if the game defines no limit; then no game is shorter.
    limit, newest = evidence.game.played_out_plies, evidence.newest
    if newest.mean_plies >= limit or newest.draw_share <= DRAWS:
        return ""
    return f"newest games: {newest.mean_plies:.0f} plies on average, {newest.draw_share:.0%} draws"


@alert("games cut off")
def capped(evidence: Evidence) -> str:
    share = evidence.newest.share(PLY_CAP)
    if share <= CAPPED:
        return ""
    return f"{share:.0%} of the newest games reach the cap on their length (limit {CAPPED:.0%})"


@alert("values too sure")
def saturated(evidence: Evidence) -> str:
    newest = evidence.newest
    # Certain values alone are no fault: a good network is certain about decided games.
    if newest.saturated_share <= SATURATED_VALUES or newest.wrong_share <= WRONG_VALUES:
        return ""
    return (
        f"{newest.saturated_share:.0%} of the newest root values are beyond 0.99, and "
        f"{newest.wrong_share:.0%} of these are wrong (limits {SATURATED_VALUES:.0%}, {WRONG_VALUES:.0%})"
    )


@alert("old weights")
def stale(evidence: Evidence) -> str:
    if evidence.lag is None or evidence.lag <= LAG:
        return ""
    return f"newest games are {evidence.lag:.0f} weights versions behind (limit {LAG:.0f})"


@alert("disk fills")
def disk_fills(evidence: Evidence) -> str:
    if evidence.disk_hours is None or evidence.disk_hours >= DISK_HOURS:
        return ""
    return f"the games that come now fill the disk in {evidence.disk_hours:.1f} hours"


@alert("training too slow")
def too_slow(evidence: Evidence) -> str:
    if evidence.training_share is None or evidence.training_share >= BEHIND:
        return ""
    share = f"{evidence.training_share:.0%} of the samples for the last hour's games were made"
    return f"{share} (limit {BEHIND:.0%})"


@alert("memorising")
def memorising(evidence: Evidence) -> str:
    lessons = list(evidence.lessons)
    if evidence.game.few_positions or len(lessons) < 2 * IN_A_ROW:
        return ""
    # Compare the newest figures with all earlier ones.
    before, now = lessons[:-IN_A_ROW], lessons[-IN_A_ROW:]
    value_was = sum(lesson.value_loss for lesson in before) / len(before)
    # Take the largest loss, because all of them must have fallen.
    value_is = max(lesson.value_loss for lesson in now)
    was = [one.held_out_value_loss for one in before if one.held_out_value_loss is not None]
    is_now = [one.held_out_value_loss for one in now if one.held_out_value_loss is not None]
    seen = ""
    if value_is < VALUE_FELL * value_was:
        # Memorising shows if the value loss rose on held-out games, or if the policy has nothing left to
        # learn.
        policy_gap = max(lesson.policy_loss - lesson.policy_entropy for lesson in now)
        # Without held-out games, only the policy can show memorising.
        if min(len(was), len(is_now)) >= IN_A_ROW:
            mean, least = sum(was) / len(was), min(is_now)
            if least > HELD_OUT_ROSE * max(mean, *(lesson.value_loss for lesson in now)):
                seen = f"value loss on games never trained on {mean:.2f} -> {least:.2f}"
        if not seen and policy_gap < GAP:
            seen = f"policy loss only {policy_gap:.3f} above the entropy of its targets"
    if not seen and len(is_now) == IN_A_ROW:
        # Both losses may have been stable for long; then only the gap between them shows memorising.
        gap = min(held_out - lesson.value_loss for held_out, lesson in zip(is_now, now, strict=True))
        if gap > HELD_OUT_GAP:
            seen = f"value loss {gap:.2f} higher on games never trained on"
    if not seen:
        return ""
    often = evidence.samples_per_position
    reuse = "" if often is None else f", {often:.1f} samples a position"
    return f"{seen}, value loss {value_was:.2f} -> {value_is:.2f}{reuse}"


# ---- During training ----------------------------------------------------------------------------


class Watch:
    """Recent games and training figures."""

    def __init__(self, game: Game, games_per_stretch: int = STRETCH, network: str = "") -> None:
        """`network`: see `Evidence`."""
        self._game, self._network = game, network
        self._size = games_per_stretch
        self._movers = Movers(game)
        self._open = Stretch()
        self._stretches: deque[Stretch] = deque(maxlen=STRETCHES)
        self._lessons: deque[Lesson] = deque(maxlen=LESSONS)
        self._lags: deque[int] = deque(maxlen=NEWEST_GAMES)
        self._active: dict[str, str] = {}

    def on_games(self, records: Iterable[GameRecord], newest_version: int) -> None:
        """Count games that were just stored, while the server had weights `newest_version`."""
        for record in records:
            self._open.add(record, self._movers(record.start, record.actions))
            # The newest weights in a game count, because the game was finished with them.
            self._lags.append(max(0, newest_version - int(record.versions.max())))
            if self._open.games == self._size:
                self._stretches.append(self._open)
                self._open = Stretch()

    def figures(self) -> dict[str, Any]:
        """Return the figures of the newest full stretch of games, or of the unfinished one before there is a
        full one."""
        # A full stretch is preferred, because figures of few games fluctuate.
        return (self._stretches[-1] if self._stretches else self._open).figures(self.lag)

    @property
    def lag(self) -> int | None:
        """Weights versions that the newest games are behind (median); None before there are enough games."""
        return statistics.median_low(self._lags) if len(self._lags) == NEWEST_GAMES else None

    def alerts(
        self,
        figures: Mapping[str, Any],
        disk_hours: float | None = None,
        training_share: float | None = None,
    ) -> list[str]:
        """Return short texts of all present alerts. Alerts that began or ended since the last call are
        logged.

        figures: the trainer's figures, with the keys of docs/protocol.md. disk_hours, training_share: see
        `Evidence`.
        """
        last = self._lessons[-1].step if self._lessons else -LESSON_STEPS
        if not figures["samples_per_position"]:
            # All steps were of imported games. The games held out are of self-play, so their loss differs.
            self._lessons.clear()
        # Keep one lesson per LESSON_STEPS steps, so that the lessons span enough of the training to be
        # compared.
        elif figures["policy_loss"] is not None and figures["step"] - last >= LESSON_STEPS:
            policy, entropy, value = (figures[n] for n in ("policy_loss", "policy_entropy", "value_loss"))
            held_out = figures.get("held_out_value_loss")
            self._lessons.append(Lesson(figures["step"], policy, entropy, value, held_out))
        evidence = Evidence(
            self._game, list(self._stretches), list(self._lessons), self.lag,
            figures["samples_per_position"], training_share, disk_hours, figures["step"], self._network,
        )  # fmt: skip
        found = {name: f"{name}: {seen}" for name, seen in find_alerts(evidence).items()}
        for name, text in found.items():
            # An alert is logged once, not at each call.
            if name not in self._active:
                log.warning("ALERT %s", with_advice(text))
        for name in self._active.keys() - found.keys():
            log.info("alert over: %s", name)
        self._active = found
        return list(found.values())
