"""Prepares a trained network for play: batch normalisation folded into the convolutions.

In eval mode batch normalisation is a fixed scale and shift of each channel, so it can be merged into the
weights and bias of the convolution before it.
"""

from __future__ import annotations

import copy
import itertools

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from net.architectures.network import Network


@torch.no_grad()
def fold(network: Network) -> Network:
    """A copy for play: eval mode, float32, on the CPU, without training heads and with folded normalisation.

    In every module, a normalisation that follows a convolution is assumed to be applied to its output.
    """
    folded = copy.deepcopy(network).cpu().double().eval()
    folded.drop_training_heads()
    for module in list(folded.modules()):
        for (conv_name, conv), (norm_name, norm) in itertools.pairwise(module.named_children()):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, conv_name, fuse_conv_bn_eval(conv, norm))
                setattr(module, norm_name, nn.Identity())
    return folded.float().requires_grad_(False)
