"""Which devices the evaluators run on. `python -m server.devices` lists the GPUs, so that the front never
imports torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from azselfplay.host.exits import Exit, Fatal


def choose_devices(gpus: str, found: Sequence[str]) -> list[str]:
    """Return `--gpus` as torch devices: `0,cpu` -> ["cuda:0", "cpu"]. `found`: names of the available GPUs.
    Empty: all GPUs but the last, which the trainer takes by default; if there is only one, that one.

    Raises Fatal(CONFIG) for a GPU that does not exist, or a word that is neither a number nor `cpu`.
    """
    words = [word.strip() for word in gpus.split(",") if word.strip()]
    if not words:
        ours = len(found) - 1 if len(found) > 1 else len(found)
        return [f"cuda:{index}" for index in range(ours)] or ["cpu"]
    devices = [_device(word, found) for word in words]
    cuda = [device for device in devices if device != "cpu"]
    if len(set(cuda)) < len(cuda):
        raise Fatal(f"--gpus {gpus} names a GPU twice: give each once", Exit.CONFIG)
    return devices


def _device(word: str, found: Sequence[str]) -> str:
    if word == "cpu":
        return "cpu"
    if not word.isdecimal():
        raise Fatal(
            f"--gpus takes GPU numbers and the word cpu, separated by commas, not {word!r}; "
            "for example --gpus 0,1 or --gpus cpu",
            Exit.CONFIG,
        )
    if int(word) >= len(found):
        names = ", ".join(f"{index} ({name})" for index, name in enumerate(found))
        there_is = f"torch finds {names}" if found else "torch finds no GPU on this machine"
        raise Fatal(f"GPU {word} does not exist: {there_is}; use one of them, or --gpus cpu", Exit.CONFIG)
    return f"cuda:{int(word)}"


def main() -> int:
    """Print the names of the GPUs that torch can use, as a JSON list."""
    import torch

    names = []
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    print(json.dumps(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
