"""What a CUDA device can do: whether this torch has code for it, and in which number formats it is fast.

Its compute capability, such as (9, 0) for an H100, decides all of this. torch's own answers are no help:
`is_bf16_supported` is also true where bfloat16 is emulated, and slow. The decisions are pure functions, so
that they can be tested without a GPU. `python -m net.gpu` lists the GPUs for processes that never import
torch.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import torch

from azselfplay.host.hardware import DEVICE_FILES, Gpus, may_have_gpus

KERNELS = ("compile", "cudnn", "plain")
"""How a network runs on CUDA: with cuDNN's fused convolutions, and torch.compile for the operations between
them; with these convolutions alone; or as torch runs it. The answers differ only by rounding."""


class OnCuda(NamedTuple):
    """How a network runs on CUDA; without meaning on a CPU."""

    kernels: str
    """One of KERNELS."""
    dtype: torch.dtype | None = None
    """None: the device's best one (`inference_dtype`)."""


Capability = tuple[int, int]
WITHOUT_CUDA = f"torch {torch.__version__} is built without CUDA, and uses no GPU"


def count_found() -> int:
    """Return how many GPUs torch finds now. A torch for AMD's calls these `cuda`, too, but nothing here is
    made for them."""
    return torch.cuda.device_count() if torch.cuda.is_available() and not torch.version.hip else 0


def found_gpus() -> Gpus:
    """Return what torch finds now."""
    found, built_for = range(count_found()), torch.cuda.get_arch_list()
    usable = [at for at in found if has_code(torch.cuda.get_device_capability(at), built_for)]
    made_for, why = torch.version.cuda, ""
    if found and not usable:
        why = f"torch {torch.__version__} has code for {', '.join(built_for)} only, and for no GPU here"
    elif not usable:
        needs = f"torch finds no GPU: it needs a driver for CUDA {made_for}; see what nvidia-smi says"
        why = needs if made_for else WITHOUT_CUDA
    names = [torch.cuda.get_device_name(index) for index in found]
    may_come = bool(made_for) and not found and may_have_gpus(DEVICE_FILES)
    return Gpus(names, [f"cuda:{index}" for index in usable], why, may_come)


class NotThere(ValueError):
    """torch does not find a GPU now. Resetting the driver may bring it back, and the other GPUs go on."""


def check_device(device: str) -> None:
    """Raise ValueError unless `device` is `cpu`, or a GPU `cuda` or `cuda:N` that this torch has code for:
    without code, every batch would fail with "no kernel image", in a loop of restarts. Raises NotThere for a
    GPU that may come back."""
    named = re.fullmatch("cpu|cuda(:[0-9]+)?", device)
    if named is None:
        raise ValueError(f"there is no device {device!r}: give cpu, cuda or cuda:N")
    if device == "cpu":
        return
    found = count_found()
    if not found and torch.version.cuda is None:
        raise ValueError(WITHOUT_CUDA)
    if int((named[1] or ":0")[1:]) >= found:
        raise NotThere(
            f"{device} is not there: torch finds {found} GPUs now; see what nvidia-smi and dmesg say"
        )
    capability, built_for = torch.cuda.get_device_capability(device), torch.cuda.get_arch_list()
    if not has_code(capability, built_for):
        name = f"{torch.cuda.get_device_name(device)} (sm_{capability[0]}{capability[1]})"
        raise ValueError(
            f"{device} is a {name}, and torch {torch.__version__} has code for {', '.join(built_for)} only: "
            "install a torch built for this GPU, or use another device"
        )


def has_code(capability: Capability, built_for: Sequence[str]) -> bool:
    """Return whether code for one of the architectures `built_for` (`sm_80`, `compute_90`, `sm_90a`) runs on
    a device. Machine code runs on devices of its major number and the same or a later minor one. PTX, which
    the driver translates, runs on all later devices. Code with a letter runs on its own device only."""
    for name in built_for:
        kind, _, number = name.partition("_")
        # Such as sm_90a: not for later devices.
        if number[-1:].isalpha():
            if number[:-1] == f"{capability[0]}{capability[1]}":
                return True
            continue
        major, minor = int(number[:-1]), int(number[-1])
        if kind == "compute" and (major, minor) <= capability:
            return True
        if kind == "sm" and major == capability[0] and minor <= capability[1]:
            return True
    return False


def inference_dtype(capability: Capability) -> torch.dtype:
    """Return float16 from Volta on, float32 before. bfloat16 is as fast, but its errors are fifteen times as
    large (win/draw/loss of `medium`: 0.0030 against 0.0002); it is used where float16 overflows."""
    return torch.float16 if capability[0] >= 7 else torch.float32


def has_bfloat16(capability: Capability) -> bool:
    """Return whether a device computes in bfloat16: from Ampere on."""
    return capability[0] >= 8


def wider_dtype(device: str) -> torch.dtype:
    """Return the fastest format of a device with the range of float32."""
    return torch.bfloat16 if has_bfloat16(torch.cuda.get_device_capability(device)) else torch.float32


def chosen_kernels(usual: str) -> str:
    """Return which of `KERNELS` the variable AZ_CUDA_KERNELS names; `usual` if it is not set. Raises
    ValueError for another name."""
    name = os.environ.get("AZ_CUDA_KERNELS") or usual
    if name not in KERNELS:
        raise ValueError(f"AZ_CUDA_KERNELS is one of {', '.join(KERNELS)}, not {name!r}")
    return name


if __name__ == "__main__":
    print(json.dumps(found_gpus()))
