"""`python tests/faults/crash_lab.py ROOM [TIMES]`: SIGKILL at every crash point of a scenario, each time it
is reached.

For each point and each count a child process is forked that kills itself there. Then the check inspects the
folder, another child continues from where the killed one was, and the check inspects the folder again. Prints
JSON: kills by point, and faults. Forking avoids the imports; `AZ_CRASH_AT` does the same to a process that is
started.
"""

import json
import os
import signal
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / part) for part in ("faults", "client", "."))]

from crash_names import NAMES  # noqa: E402
from crash_rooms import ROOMS, Room  # noqa: E402

from azselfplay.host import runs  # noqa: E402

PATIENCE = 400
"""Seconds that one run of a child may take."""


def main() -> int:
    room = ROOMS[sys.argv[1]]
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    kills: Counter[str] = Counter()
    faults: list[str] = []
    for point in NAMES:
        if not point.startswith(room.points):
            continue
        for times in range(1, most + 1):
            with tempfile.TemporaryDirectory(prefix="az-crash-") as folder:
                if not _crash(room, Path(folder), point, times, faults):
                    break
                kills[point] += 1
    print(json.dumps({"kills": kills, "faults": faults}))
    return 0


def _crash(room: Room, folder: Path, point: str, times: int, faults: list[str]) -> bool:
    """Returns False if the point is not reached that often."""
    status = _life(room, folder, point, times)
    if status == 0:
        return False
    where = f"{point}:{times}"
    if status != -signal.SIGKILL:
        faults.append(f"{where}: ended with {status} and was not killed")
        return False
    faults += [f"{where}: {fault}" for fault in room.check(folder, at_end=False)]
    if (status := _life(room, folder)) != 0:
        faults.append(f"{where}: the next life ended with {status}")
    faults += [f"{where}, in the end: {fault}" for fault in room.check(folder, at_end=True)]
    return True


def _life(room: Room, folder: Path, point: str = "", times: int = 0) -> int:
    """Run one child. Returns its exit status, negative for a signal."""
    if (child := os.fork()) == 0:
        try:
            signal.alarm(PATIENCE)
            runs.watcher = runs.killing(point, times) if point else None
            room.work(folder)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
