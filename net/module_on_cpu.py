"""A network of any family on one CPU core, run as the torch module that it is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from net.architectures.heads import wdl_of
from net.architectures.network import Network
from net.batches import Batch
from net.number_formats import as_numpy
from net.plane_kernels import legal_priors, write_planes
from net.planes import PlaneShape

F32 = npt.NDArray[np.float32]


class ModuleOnCpu:
    """Runs up to `rows` positions at once in the calling thread. The module is shared; memory is its own."""

    def __init__(self, module: Network, shape: PlaneShape, dtype: torch.dtype, rows: int) -> None:
        self._module, self._shape, self._masks = module, shape, shape.masks()
        self._planes = torch.zeros((rows, shape.rows, shape.cols, shape.planes), dtype=dtype)
        self._one = as_numpy(torch.ones(1, dtype=dtype))[0]

    def __call__(self, batch: Batch, bucket: int, priors: F32, wdl: F32) -> None:
        """Answer `batch` into `priors [sum of counts]` and `wdl [rows, 3]`, run as `bucket` rows."""
        shape = self._shape
        scalars = torch.from_numpy(shape.scalar_values(batch.features))
        numbers = as_numpy(scalars.to(self._planes.dtype))
        planes = as_numpy(self._planes).reshape(-1, shape.cells, shape.planes)
        write_planes(shape.binary_words(batch.features), numbers, self._masks, self._one, planes)
        logits, value_logits = self._module(self._planes[:bucket].permute(0, 3, 1, 2))
        legal_priors(logits[: batch.rows].float().numpy(), batch.counts, batch.actions, priors)
        wdl[:] = wdl_of(value_logits).numpy()[: batch.rows]
