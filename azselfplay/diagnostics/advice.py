"""What to do about each alert: the first thing to do, the likely cause, and what else to change.

Many commands show alerts, but few of them take the flags of azserver or of the trainer. So advice names
settings as they are written in files. docs/troubleshooting.md says how to give these settings to each
command; it has a heading for each alert, to which `Advice` and the pages of a run link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PAGE = "docs/troubleshooting.md"


@dataclass(frozen=True)
class Advice:
    """Advice on one alert. Texts begin with a small letter and have no full stop at the end."""

    first: str
    """What to do next, in one short sentence."""
    cause: str
    """The likely cause."""
    change: str
    """Everything to try, the most useful first."""
    is_warning: bool = False
    """Whether the alert is mostly harmless and ends by itself. `azplay status` does not exit with 3 for such
    an alert."""


ADVICE: Mapping[str, Advice] = {
    "draw collapse": Advice(
        "halve samples.per_position of the trainer",
        "the network learns that everything is drawn, so nobody tries to win; it seldom recovers by itself",
        "first look for a bug in values or rules; then fewer steps a game (samples.per_position), "
        "a longer self_play.moves.temperature_plies, a lower optimizer.lr; do not raise the simulations "
        "before less than 70 % are draws; or begin a new run from a network of before it",
    ),
    "value says draw": Advice(
        "begin games from varied openings: self_play.opening.random_share 0.5 of azserver",
        "calling every position a draw is nearly always right, so results teach little",
        "more decisive games first: varied openings (self_play.opening.random_share), "
        "loss.capped_value_weight 0.1, a share of won endgames (self_play.start.generator and .share)",
    ),
    "search without effect": Advice(
        "double self_play.search.simulations of azserver",
        "too few simulations for so many moves, so the search follows the network, and the network learns "
        "what it knows already",
        "more self_play.search.simulations or self_play.search.selection gumbel; with puct, more "
        "self_play.noise.root_noise",
    ),
    "repetitions": Advice(
        "double self_play.moves.temperature_plies of azserver",
        "neither side makes progress, and moving to and fro looks as good as anything else",
        "a longer self_play.moves.temperature_plies; with puct, more self_play.noise.root_noise",
    ),
    "short draws": Advice(
        "begin games from varied openings: self_play.opening.random_share 0.5 of azserver",
        "games end as draws before anything has happened",
        "as for draw collapse; many different openings help most",
    ),
    "games cut off": Advice(
        "set loss.capped_value_weight 0.1 of the trainer",
        "won positions are not converted; each such game labels very many positions as draws",
        "loss.capped_value_weight 0.1 (trainer), so that they say little about values; a smaller "
        "self_play.max_plies while the network is weak, so that they fill less of the window",
    ),
    "values too sure": Advice(
        "halve samples.per_position of the trainer",
        "the value head has memorised results: too many steps on too few games, or too high a rate",
        "a smaller samples.per_position, a larger window.positions, a lower optimizer.lr",
    ),
    "old weights": Advice(
        "this is harmless if many finished games wait to be stored: wait, play fewer games at once, or "
        "double self_play.search.simulations of azserver",
        "games are played faster than the trainer stores them, and grow old while they wait in the spool; "
        "seldom, players do not get new weights",
        "if no games wait, look for weights that were refused or not delivered in the logs of azserver, "
        "trainer and clients; a larger publishing.steps makes versions rarer",
        # Every backlog after an outage raises this alert; as an error, it would hide real faults in the exit
        # status.
        is_warning=True,
    ),
    "disk fills": Advice(
        "set keep_games of the trainer, or free some space",
        "games.db grows with each game; when the disk is full, no game is stored and play stops",
        "keep_games of the trainer, so that old games keep only their results; more "
        "self_play.search.simulations, which make fewer games; a larger disk",
    ),
    "training too slow": Advice(
        "give training a GPU of its own, or double optimizer.batch of the trainer",
        "games come faster than the trainer learns from them, so much of them is never seen; on a GPU that "
        "also evaluates, each of its steps waits for the evaluators",
        "a larger optimizer.batch (4096), a GPU that the evaluators leave out, more "
        "self_play.search.simulations, which make fewer and better games, or a smaller samples.per_position",
        is_warning=True,
    ),
    "memorising": Advice(
        "halve samples.per_position of the trainer",
        "the network has memorised the games in the window; new games will surprise it",
        "a smaller samples.per_position (1 to 2), a larger window.positions, or a smaller network",
    ),
}
"""Advice by the name of the alert; covers all alerts of this version."""


def link_to(name: str) -> str:
    """Return a link to the explanation of the alert called `name`: the page and its heading."""
    # Markdown pages name the anchors of their headings like this.
    return f"{PAGE}#{name.replace(' ', '-')}"


def is_warning(alert: str) -> bool:
    """Return whether an alert, as the trainer sends it, is only a warning. An unknown alert, from a newer
    trainer, is not."""
    advice = ADVICE.get(alert.partition(":")[0])
    return advice is not None and advice.is_warning


def with_advice(alert: str) -> str:
    """Return an alert as the trainer sends it (`NAME: what was seen`), followed by what to do next and where
    to read more."""
    name = alert.partition(":")[0]
    # A newer trainer may send alerts that we do not know.
    advice = ADVICE.get(name)
    return alert if advice is None else f"{alert}. What to do: {advice.first}. More: {link_to(name)}"
