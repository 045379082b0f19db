"""`python -m tests.hostile [ATTACK ...]`: each attack against a real azserver under load, and what it costs.

Bounded: each attack gets `--turns` turns of `--seconds`, and is cut between them. Loopback only.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from attacks import ATTACKS, Attack, nothing  # noqa: E402
from measure import Result, measured  # noqa: E402
from target import Target  # noqa: E402

HEAD = (
    f"{'attack':22} {'item':>4} {'strokes':>7} | {'quiet':>7} {'attacked':>8} {'after':>7} {'lost':>7} | "
    f"{'wait s':>6} | {'MB before':>9} {'peak':>6} {'after':>6} | verdict"
)


def line(result: Result) -> str:
    """One row of the table."""
    quiet = median(result.quiet) if result.quiet else 0.0
    attacked = median(result.attacked) if result.attacked else 0.0
    return (
        f"{result.attack:22} {result.item or '':>4} {result.strokes:>7} | {quiet:>7.0f} {attacked:>8.0f} "
        f"{result.after:>7.0f} {100 * result.lost:>6.1f}% | {result.longest_wait:>6.2f} | "
        f"{result.before.now:>9.0f} {result.peak:>6.0f} {result.memory_after:>6.0f} | "
        f"{result.trouble or 'lives'}"
    )


def main() -> int:
    """0 when the server lived through all attacks."""
    by_name = {attack.name: attack for attack in (Attack(0, nothing), *ATTACKS)}
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {', '.join(by_name)}; all if none")
    parser.add_argument(
        "--turns", type=int, default=3, help="with the attack, and as many without (default 3)"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn (default 5)")
    parser.add_argument("--game", default="connect_four", choices=("connect_four", "tic_tac_toe"))
    options = parser.parse_args()
    unknown = set(options.attacks) - set(by_name)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended then too
    chosen = [by_name[name] for name in options.attacks or by_name]
    print("rates are evaluations a second of azserver's worker and an azclient, medians; MB are of the front")
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, ExitStack() as stack:
        results: list[Result] = []
        target: Target | None = None
        for number, attack in enumerate(chosen):
            if target is None or not target.is_alive():
                stack.close()
                place = Path(folder) / str(number)
                place.mkdir()
                target = stack.enter_context(Target(place, game=options.game))
            results.append(measured(target, attack, options.turns, options.seconds))
            print(line(results[-1]), flush=True)
    return int(any(result.trouble for result in results))


if __name__ == "__main__":
    sys.exit(main())
