"""A worker's local network. This is the client's only module that imports torch, and only when one is
made."""

from __future__ import annotations

import threading
from pathlib import Path

from games.spec import Game
from protocol.messages import WeightsInfo
from runtime.exits import Exit, Fatal
from runtime.gpu_drivers import may_have_gpus
from search.evaluator import Evaluations, LeafBatch


class LocalNet:
    """Answers batches in one thread while another loads; weights are swapped between two batches."""

    def __init__(self, game: Game, history: int, device: str, threads: int | None = None) -> None:
        """`device`: cpu or cuda:N. `threads`: of the CPU network; None leaves it to torch.

        Raises Fatal(CONFIG) if there is no such device, Fatal(TRY_AGAIN) if its driver is there.
        """
        from net.inference import Inference

        try:
            self._inference = Inference(game, history, device, threads=threads)
        except (ValueError, RuntimeError) as error:
            may_come_back = device != "cpu" and may_have_gpus()
            code = Exit.TRY_AGAIN if may_come_back else Exit.CONFIG
            raise Fatal(f"{error}; or use --device remote", code) from error
        self._between_batches = threading.Lock()
        self._version = 0

    @property
    def max_rows(self) -> int:
        return self._inference.max_rows

    @property
    def target_rows(self) -> int:
        """Number of rows at which the device is efficient; on a CPU it is measured when the first weights are
        loaded."""
        return self._inference.target_rows

    @property
    def device_name(self) -> str:
        return self._inference.device_name

    def load(self, path: Path, info: WeightsInfo) -> str:
        """Load the weights in a file. Returns "", or why they cannot be used (then the old ones stay)."""
        from net.weights import BadWeights

        with self._between_batches:
            try:
                self._inference.load(path, info.sha256)
            except BadWeights as error:
                return str(error)
            # The announced version counts, not the file's: older weights may be announced as new ones.
            self._version = info.version
        return ""

    def infer(self, batch: LeafBatch) -> Evaluations:
        with self._between_batches:
            priors, wdl = self._inference.run(batch.features, batch.counts, batch.actions)
            return Evaluations(priors, wdl, self._version)
