"""Shared by all tests: nothing is patched here, only paths and determinism."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).resolve().parent
for folder in (ROOT, *(path for path in ROOT.iterdir() if path.is_dir())):
    sys.path.append(str(folder))

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
