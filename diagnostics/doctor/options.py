"""Settings of the doctors."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.settings import Amount


@dataclass(frozen=True)
class DoctorOptions:
    """How a doctor checks, besides the settings of what it checks."""

    seconds: Amount = 2.0
    """Seconds for measuring evaluations through a running azserver, as one more player; 0: not measured."""
    json: bool = False
    """Print JSON, for scripts."""
