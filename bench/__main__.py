"""`python -m bench NAME [NAME ...]`: each prints a table and, as its last line, one JSON object."""

from __future__ import annotations

import argparse
import importlib
import json

BENCHMARKS = {
    "search": "leaves/s of one core with a network that costs nothing, beside python-chess",
    "inference": "positions/s per batch bucket",
    "loop": "evals/s of the running system over those of the bare network",
    "front": "processor time of a leaf outside of search and network: 64 players, 8 evaluators",
    "ingest": "games/s verified, committed and acknowledged",
    "sampler": "training samples/s from a window of 20 million positions",
    "code": "size of the code and of its parts: files, lines, importers, circles",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", epilog="\n".join(f"{name:12} {what}" for name, what in BENCHMARKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("names", metavar="NAME", nargs="+", choices=[*BENCHMARKS, "all"], help="or all")
    names = parser.parse_args().names
    for name in BENCHMARKS if "all" in names else names:
        print(f"== {name}: {BENCHMARKS[name]}", flush=True)
        figures = importlib.import_module(f"bench.{name}").run()
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
