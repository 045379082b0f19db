"""Whether this machine has the driver of a GPU, without loading torch or any GPU library."""

from __future__ import annotations

from pathlib import Path

DRIVERS = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")
"""Device files of GPU drivers on Linux; without any of them there is no need to ask torch."""
NOT_FOUND = "this machine has the driver of a GPU, but torch finds no GPU: see what nvidia-smi says"


def may_have_gpus() -> bool:
    return any(Path(path).exists() for path in DRIVERS)
