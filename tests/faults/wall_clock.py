"""A wall clock that can be moved, for processes of a test: a few lines of C, loaded before the C library."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from unavailable import Unavailable

SOURCE = Path(__file__).with_name("wall_clock.c")


class WallClock:
    """The clock of all programs that are begun with `prefix`."""

    def __init__(self, folder: Path) -> None:
        self._file, self._library = folder / "clock", folder / "clock.so"
        self._file.write_bytes(bytes(8))
        command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(self._library)]
        try:
            subprocess.run([*command, str(SOURCE), "-ldl"], check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise Unavailable("there is no gcc here") from error

    @property
    def prefix(self) -> list[str]:
        """What stands before a command."""
        return ["env", f"LD_PRELOAD={self._library}", f"FAULTS_CLOCK={self._file}"]

    def move(self, seconds: float) -> None:
        """So many seconds away from the right time, from now on."""
        with self._file.open("r+b") as file:  # not replaced: the programs have it mapped
            file.write(struct.pack("=q", int(seconds * 1e9)))
