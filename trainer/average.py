"""An exponential moving average of the network being trained: what plays, while the other learns.

The steps of a small batch point here and there; their mean over the last some hundred steps plays better
than any of them (KataGo averages its weights, arXiv 1902.10565; AlphaZero does not).

The running mean and variance of batch normalisation are averaged like the weights. Measured anew on samples
they would be exact, but that costs samples and gains little. Held-out losses (policy, value) of a tic-tac-toe
network after 2000 steps of 64 with 0.999: newest weights 0.9946, 0.4432; average 0.9888, 0.4382; average with
normalisation measured anew 0.9888, 0.4375 (after 100 steps the last two are 0.005 and 0.002 apart).
"""

from __future__ import annotations

import copy

import torch

from net.architectures.network import Network


class Average:
    """Follows a network step by step.

    network  what is followed; `start` (or a copy of `network`) is where the average stands now
    decay    share of the old average kept at each step, 0..1: the mean goes back about 1 / (1 - decay) steps
    """

    def __init__(self, network: Network, decay: float, start: Network | None = None) -> None:
        self._decay = decay
        self.network = copy.deepcopy(network) if start is None else start
        self.network.requires_grad_(False).eval()
        self._pairs = list(
            zip(self.network.state_dict().values(), network.state_dict().values(), strict=True)
        )

    def follow(self, step: int) -> None:
        """Take the network in after step number `step`, counted from 1.

        At first the average goes back a tenth of all steps only, so as to forget the untrained network.
        """
        kept = min(self._decay, step / (10 + step))
        numbers = [(ours, theirs) for ours, theirs in self._pairs if ours.is_floating_point()]
        torch._foreach_lerp_([ours for ours, _ in numbers], [theirs for _, theirs in numbers], 1.0 - kept)
        for ours, theirs in self._pairs:
            if not ours.is_floating_point():
                ours.copy_(theirs)
