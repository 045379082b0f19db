"""Event files for TensorBoard: `tensorboard --logdir runs/NAME/tensorboard`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.figures import scalars


class Curves:
    """Writes the figures against the training step, once a step."""

    def __init__(self, folder: Path) -> None:
        # Imported here: it takes a second, and only a running trainer needs it.
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder))
        self._last_step = 0

    def write(self, figures: Mapping[str, Any]) -> None:
        step = figures["step"]
        if step == self._last_step:
            return
        self._last_step = step
        for name, number in scalars(figures).items():
            self._writer.add_scalar(name, number, step)

    def close(self) -> None:
        self._writer.close()
