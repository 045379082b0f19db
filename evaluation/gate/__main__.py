"""`python -m evaluation.gate`: plays the games of a gate and reports on stdout, one JSON line a pair.

Started by azserver with `mode = alphago_zero`; the last line decides. Low priority: self-play goes on.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from runtime.exits import Exit, guarded

NICE = 10
"""Added to this process's niceness: on a CPU the games of self-play go before those of the gate."""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evaluation.gate", description=__doc__)
    parser.add_argument("--game", required=True)
    parser.add_argument("--best", required=True, help="weights file of the best player")
    parser.add_argument("--candidate", required=True, help="weights file of the candidate")
    parser.add_argument("--games", type=int, default=400, help="rounded up to pairs")
    parser.add_argument("--share", type=float, default=0.55, help="of the points that are not enough")
    parser.add_argument("--seed", type=int, default=0, help="of the openings")
    parser.add_argument("--self-play", required=True, help="protocol.settings.SelfPlaySettings as JSON")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: all")
    return parser.parse_args(argv)


def main() -> int:
    """Entry point of the process."""
    options = parse()
    os.nice(NICE)
    from evaluation.gate.match import run

    run(options)
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(main))
