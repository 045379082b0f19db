"""The names of all crash points (`host.runs.reach`), as they are in the source."""

import re
from pathlib import Path

ROOMS = ("azselfplay", "client", "protocol", "server", "trainer")
_SOURCES = [path for room in ROOMS for path in (Path(__file__).resolve().parents[2] / room).rglob("*.py")]
NAMES = sorted({name for path in _SOURCES for name in re.findall(r'\breach\("([^"]+)"\)', path.read_text())})
