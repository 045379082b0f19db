"""Attack a real azserver under load, one attack after the other, and print what each costs honest clients.

Everything stays on this machine. Each attack has turns of `--seconds`, and its connections are cut after each
turn. With fewer attacks in the same time there are more turns, and so narrower intervals.
"""

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from attacks import ATTACKS, Attack, nothing  # noqa: E402
from measure import Result, measured, middle, turns_within  # noqa: E402
from target import Target  # noqa: E402

HEAD = (
    f"{'attack':23} | {'quiet':>7} {'control':>7} {'attacked':>8} {'taken':>19} {'dearer':>19} "
    f"{'lost':>20} {'in all':>20} | "
    f"{'attacker: cores':>15} {'control':>7} {'conn/s':>6} {'msg/s':>6} {'MB/s':>6} | {'front cores':>11} "
    f"{'trainer cores':>13} | {'wait s':>6} | {'MB before':>9} {'peak':>4} {'after':>5} | verdict"
)


def line(result: Result) -> str:
    """Return one row of the table."""
    quiet, attacked = result.quiet, result.attacked
    rates = [middle(turns, "evals") for turns in (quiet, result.control, attacked)]
    sent = [middle(attacked, figure) for figure in ("other", "connections", "messages", "bytes")]
    burnt = middle(result.control, "other")
    cores = [middle(turns, part) for part in ("server", "trainer") for turns in (quiet, attacked)]
    return (
        f"{result.attack:23} | {rates[0]:>7.0f} {rates[1]:>7.0f} {rates[2]:>8.0f} "
        f"{result.taken.text():>19} {result.dearer.text():>19} {result.lost.text():>20} "
        f"{result.lost_in_all.text():>20} | "
        f"{sent[0]:>15.2f} {burnt:>7.2f} {sent[1]:>6.0f} {sent[2]:>6.0f} "
        f"{sent[3] / 1e6:>6.1f} | {cores[0]:>5.2f} {cores[1]:>5.2f} {cores[2]:>7.2f} {cores[3]:>5.2f} | "
        f"{result.longest_wait:>6.2f} | {result.before.now:>9.0f} {result.peak:>4.0f} "
        f"{result.memory_after:>5.0f} | {result.trouble or 'lives'}"
    )


def main() -> int:
    """Return 0 if the server survived all attacks."""
    by_name = {attack.name: attack for attack in (Attack(nothing), *ATTACKS)}
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {', '.join(by_name)}; all if none")
    parser.add_argument(
        "--minutes", type=float, default=20.0, help="of all attacks together, about (default 20)"
    )
    parser.add_argument(
        "--turns", type=int, default=0, help="with each attack (default: as many as --minutes has room for)"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn (default 1)")
    parser.add_argument("--game", default="connect_four", choices=("connect_four", "tic_tac_toe"))
    options = parser.parse_args()
    unknown = set(options.attacks) - set(by_name)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a SIGTERM ends the processes, too
    chosen = [by_name[name] for name in options.attacks or by_name]
    turns = options.turns or turns_within(60 * options.minutes / len(chosen), options.seconds)
    print(
        f"{turns} turns of {options.seconds:g} s with each attack. quiet, control, attacked: evaluations a "
        "second of azserver's worker and an azclient, medians. The control uses as much of the machine's "
        "cores as the attacker and sends nothing; the next three columns compare the attack with it. "
        "taken: cores that the front used more, as a share of the machine's. dearer: how many fewer "
        "evaluations there were for each second of processor time of azserver and azclient. lost: how many "
        "fewer there were for each second; this changes with whatever else the machine does. in all: lost, "
        "compared with quiet turns. Each is the median of pairs of neighbouring turns, and in brackets where "
        "it lies with 95 % certainty. Two figures side by side are quiet and attacked. MB: of the front"
    )
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
            results.append(measured(target, attack, turns, options.seconds))
            print(line(results[-1]), flush=True)
    return int(any(result.trouble for result in results))


if __name__ == "__main__":
    sys.exit(main())
