"""`python -m azselfplay.lab.experiments NAME`: train and judge a recipe for each seed, into results/NAME."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from azselfplay.games.names import listed
from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.host.runs import RunFolder
from azselfplay.lab.experiments import recipe as recipes
from azselfplay.lab.experiments.recipe import Recipe

EXAMPLES = """examples:
  python -m azselfplay.lab.experiments tic_tac_toe                  # both seeds, into results/tic_tac_toe
  python -m azselfplay.lab.experiments connect_four --seeds 3 --minutes 5 --out /tmp/look
  python -m azselfplay.lab.experiments connect_four --judge-only    # judge finished runs again
  python -m azselfplay.lab.experiments dots_and_boxes_2x3 --minutes 5    # without a recipe: default settings
"""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m azselfplay.lab.experiments", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("name", help=f"a recipe ({', '.join(recipes.names())}), any game ({listed()}), or a TOML file")
    add("--seeds", type=int, nargs="+", help="instead of the recipe's")
    add("--minutes", type=float, help="instead of the recipe's")
    add("--runs", type=Path, default=Path("runs"), help="folder for the runs themselves")
    add("--out", type=Path, help="folder for the results; default results/NAME")
    add("--judge-only", action="store_true", help="do not train: judge the finished runs again")
    return parser.parse_args(argv)


def prove(recipe: Recipe, seed: int, options: argparse.Namespace) -> None:
    """Train (unless `--judge-only`) and judge one seed, and write the results."""
    from azselfplay.lab.experiments.measures import judge
    from azselfplay.lab.experiments.results import write_page, write_seed
    from azselfplay.lab.experiments.training import read_trained, train

    def tell(text: str) -> None:
        print(f"{recipe.name}, seed {seed}: {text}", file=sys.stderr, flush=True)

    folder: Path = options.out or Path("results") / recipe.name
    if options.judge_only:
        trained = read_trained(RunFolder(options.runs, f"{recipe.name}-seed{seed}"))
    else:
        trained = train(recipe, seed, options.runs, options.minutes or recipe.minutes, tell=tell)
    write_seed(folder, recipe, seed, trained, judge(trained, recipe, tell))
    write_page(folder, recipe)
    tell(f"results are in {folder}")


def main() -> int:
    """Entry point of the process."""
    options = parse()
    from azselfplay.lab.experiments.measures import check_judge  # imports compiled code, so not for --help

    recipe = recipes.load(options.name)
    check_judge(recipe)
    if options.minutes is not None and options.minutes <= 0:
        raise Fatal("--minutes must be more than 0", Exit.CONFIG)
    for seed in options.seeds or recipe.seeds:
        prove(recipe, seed, options)
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(main))
