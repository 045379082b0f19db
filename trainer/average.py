"""An exponential moving average of the network being trained: the average plays while the other learns.

Steps on small batches are noisy; the mean of the last few hundred networks plays better than any one of them
(KataGo averages its weights, arXiv 1902.10565; AlphaZero does not).

The running mean and variance of batch normalisation are averaged like the weights. Measuring them again on
samples would be exact, but costs samples and gains little. Held-out losses (policy, value) of a tic-tac-toe
network after 2000 steps of 64 with 0.999: newest weights 0.9946, 0.4432; average 0.9888, 0.4382; average with
normalisation measured again 0.9888, 0.4375 (after 100 steps the last two differ by 0.005 and 0.002).
"""

from __future__ import annotations

import copy

import torch

from net.architectures.network import Network


class Average:
    """Follows a network step by step.

    network: the network that is followed; the average begins at `start` (or a copy of `network`). decay:
    share of the old average kept at each step, 0..1; the mean covers about 1 / (1 - decay) steps.
    """

    def __init__(self, network: Network, decay: float, start: Network | None = None) -> None:
        self._decay = decay
        self.network = copy.deepcopy(network) if start is None else start
        self.network.requires_grad_(False).eval()
        self._pairs = list(
            zip(self.network.state_dict().values(), network.state_dict().values(), strict=True)
        )

    def follow(self, step: int) -> None:
        """Include the network after step number `step`, counted from 1.

        At first the average covers only a tenth of all steps, in order to forget the untrained network.
        """
        kept = min(self._decay, step / (10 + step))
        numbers = [(ours, theirs) for ours, theirs in self._pairs if ours.is_floating_point()]
        torch._foreach_lerp_([ours for ours, _ in numbers], [theirs for _, theirs in numbers], 1.0 - kept)
        for ours, theirs in self._pairs:
            if not ours.is_floating_point():
                ours.copy_(theirs)
