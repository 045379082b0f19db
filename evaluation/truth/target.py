"""What `azplay truth` is given: a run folder, whose newest network is meant, or a weights file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from protocol.messages import WeightsInfo
from runtime.exits import Exit, Fatal
from runtime.weights_files import weights_path


def weights_file(path: Path) -> Path:
    """The weights file that `path` names. Fatal(BAD_DATA) if there is none."""
    if not path.exists():
        raise Fatal(f"{path} does not exist; give a run folder or a .safetensors file", Exit.BAD_DATA)
    if path.is_file():
        return path
    current = path / "weights" / "current.json"
    try:
        info = msgspec.json.decode(current.read_bytes(), type=WeightsInfo)
    except (OSError, msgspec.DecodeError) as error:
        raise Fatal(
            f"{path} is no run folder with a network (cannot read {current}: {error}); give a run that "
            "azserver has made, or a .safetensors file",
            Exit.BAD_DATA,
        ) from error
    file = weights_path(current.parent, info)
    if not file.exists():
        raise Fatal(f"{current} names {file.name}, which is not there", Exit.BAD_DATA)
    return file
