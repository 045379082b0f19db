"""Figures with matplotlib that need no display."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def grid_of(count: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels (at least one), two in a row, and the list of panels; `size` of
    each panel in inches."""
    import matplotlib as mpl

    # Choose the backend before importing pyplot, which would look for a display.
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    columns = max(1, min(2, count))
    rows = max(1, -(-count // columns))
    whole = size[0] * columns, size[1] * rows
    figure, panels = plt.subplots(rows, columns, figsize=whole, squeeze=False, layout="constrained")
    flat = list(panels.flat)
    for panel in flat[count:]:  # the rest of the last row
        panel.set_visible(False)
    return figure, flat


def close(figure: Figure) -> None:
    """Release the figure's memory."""
    from matplotlib import pyplot as plt

    plt.close(figure)
