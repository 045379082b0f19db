"""Figures of ratings: Elo over training and over search, with 95 % intervals. PNG and SVG, no display."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.book import Rated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ELO = "Elo (random = 0)"
BLUE, GREY = "#1f6fb2", "#666666"
SHORT_RUN = 2.0
"""Hours; the time axis of a shorter run is in minutes."""


def new_figure(
    rows: int, columns: int, size: tuple[float, float], *, share_y: bool = False
) -> tuple[Figure, Any]:
    """Return a figure and its panels [rows, columns], on a canvas that needs no display; `size` in inches."""
    import matplotlib as mpl

    # Choose the backend before importing pyplot, which would look for a display.
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "azplay"  # the same figure gives the same file
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(
        rows, columns, figsize=size, sharey=share_y, squeeze=False, layout="constrained"
    )
    return figure, panels


def grid_of(count: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels (at least one), two in a row, and the list of panels; `size` of
    each panel in inches."""
    columns = max(1, min(2, count))
    rows = max(1, -(-count // columns))
    figure, panels = new_figure(rows, columns, (size[0] * columns, size[1] * rows))
    flat = list(panels.flat)
    for panel in flat[count:]:  # the rest of the last row
        panel.set_visible(False)
    return figure, flat


def close(figure: Figure) -> None:
    """Release the figure's memory."""
    from matplotlib import pyplot as plt

    plt.close(figure)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write `name`.png and `name`.svg, each completely or not at all, and close the figure. Raises
    Fatal(DISK)."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            # matplotlib chooses the format by the file name's ending, so the ending must stay the last part.
            partial = path.with_suffix(f".partial.{kind}")
            # Without the date, the same figure gives the same file.
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(partial, dpi=130, metadata=metadata)
            partial.replace(path)
            written.append(path)
    except OSError as error:
        raise Fatal(f"cannot write plots to {folder}: {error.strerror}", Exit.DISK) from error
    finally:
        close(figure)
    return written


def draw_ladder(folder: Path, title: str, networks: Sequence[Rated], anchors: Sequence[Rated]) -> list[Path]:
    """Draw Elo over training steps, self-play games and time, side by side."""
    figure, panels = new_figure(1, 3, (15, 5.2), share_y=True)
    figure.suptitle(title)
    axes: list[tuple[str, list[float | None]]] = [
        ("training steps", [one.entrant.step for one in networks]),
        ("self-play games", [one.entrant.games_before for one in networks]),
        time_axis([one.entrant.hours for one in networks]),
    ]
    for axis, (label, values) in zip(panels[0], axes, strict=True):
        # Without a games.db, the number of games before a network is unknown.
        known = [(x, one) for x, one in zip(values, networks, strict=True) if x is not None]
        _curve(axis, [x for x, _ in known], [one for _, one in known], "networks of the run")
        axis.set_xlabel(label)
        _levels(axis, anchors, named=axis is panels[0][-1])
    panels[0][0].set_ylabel(ELO)
    panels[0][0].legend(loc="best", fontsize=9)
    return save(figure, folder, "ladder")


def time_axis(hours: list[float | None]) -> tuple[str, list[float | None]]:
    """Return (label, values) for an axis of times since the run was made, in minutes if the run is short."""
    longest = max((one or 0.0 for one in hours), default=0.0)
    scale, unit = (60, "minutes") if longest < SHORT_RUN else (1, "hours")
    return f"{unit} since the run was made", [None if one is None else scale * one for one in hours]


def draw_scaling(
    folder: Path, name: str, title: str, searches: Sequence[Rated], anchors: Sequence[Rated]
) -> list[Path]:
    """Draw Elo over simulations per move, with a grid line at each doubling (the idea of AlphaZero's Figure
    2)."""
    figure, panels = new_figure(1, 1, (8, 5.5))
    axis = panels[0][0]
    figure.suptitle(title, wrap=True)
    simulations = [one.entrant.simulations for one in searches]
    _curve(axis, simulations, searches, "the network")
    axis.set_xscale("log", base=2)
    axis.set_xticks(simulations)
    axis.set_xticklabels(list(map(str, simulations)))
    axis.minorticks_off()
    axis.set_xlabel("simulations per move (log scale)")
    axis.set_ylabel(ELO)
    _levels(axis, anchors)
    axis.legend(loc="best", fontsize=9)
    return save(figure, folder, name)


def in_sight(anchors: Sequence[Rated], networks: Sequence[Rated]) -> list[Rated]:
    """Return the anchors between the lowest and the highest end of the networks' intervals, and the next
    anchor on either side. More anchors would squeeze the networks' curve."""
    low = min((one.elo - one.margin for _, one in networks), default=0.0)
    high = max((one.elo + one.margin for _, one in networks), default=0.0)
    below = max((one.elo for _, one in anchors if one.elo < low), default=low)
    above = min((one.elo for _, one in anchors if one.elo > high), default=high)
    return [anchor for anchor in anchors if below <= anchor.rating.elo <= above]


def _curve(axis: Axes, values: Sequence[float], rated: Sequence[Rated], label: str) -> None:
    """Draw a line through the ratings, with bars and a band for the intervals."""
    elo, margins = [one.elo for _, one in rated], [one.margin for _, one in rated]
    low, high = ([one.elo + sign * one.margin for _, one in rated] for sign in (-1, 1))
    axis.fill_between(values, low, high, color=BLUE, alpha=0.15, linewidth=0, label="95 % interval")
    style: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 4, "capsize": 2.5, "elinewidth": 1}
    axis.errorbar(values, elo, yerr=margins, label=label, **style)
    axis.grid(visible=True, color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)


def _levels(axis: Axes, anchors: Sequence[Rated], *, named: bool = True) -> None:
    """Draw a dashed line for each anchor, with its name to the right of the panel. A name that would overlap
    is moved up."""
    # Anchors may lie outside the range of the curves.
    elo = [*axis.get_ylim(), *(one.elo for _, one in anchors)]
    low, high = min(elo), max(elo)
    room = 0.04 * (high - low)
    axis.set_ylim(low - room, high + room)
    taken = float("-inf")
    for player, rating in sorted(anchors, key=lambda one: one.rating.elo):
        axis.axhline(rating.elo, color=GREY, linewidth=0.9, linestyle="--")
        taken = max(rating.elo, taken + room)
        error = f" ± {rating.margin:.0f}" if rating.margin else ""
        text = f"{player.name}: {rating.elo:.0f}{error}"
        if named:
            place = axis.get_yaxis_transform()
            axis.text(1.015, taken, text, transform=place, va="center", fontsize=8.5, color=GREY)
