"""`python -m bench NAME [NAME ...]`: each prints a table and, as its last line, one JSON object."""

from __future__ import annotations

import importlib
import json
import sys

BENCHMARKS = {
    "search": "leaves/s of one core with a network that costs nothing, beside python-chess",
    "inference": "positions/s per batch bucket",
    "loop": "evals/s of the running system over those of the bare network",
    "front": "processor time of a leaf outside of search and network: 64 players, 8 evaluators",
    "hub": "what boxes lose while azserver is away for a minute, with keys",
    "volunteers": "how fast 5,000 players with keys join, and games/s stored with a slow archive; needs root",
    "ingest": "games/s verified, committed and acknowledged",
    "sampler": "training samples/s from a window of 20 million positions",
    "code": "size of the code and of its parts: files, lines, importers, circles",
}


def usage() -> str:
    lines = ["usage: python -m bench NAME [NAME ...]   (or: all)", ""]
    return "\n".join(lines + [f"  {name:12} {what}" for name, what in BENCHMARKS.items()])


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in (*BENCHMARKS, "all")]
    if not names or unknown or "--help" in names:
        problem = f"unknown benchmark: {', '.join(unknown)}\n\n" if unknown and "--help" not in names else ""
        print(problem + usage(), file=sys.stderr if problem else sys.stdout)
        return 0 if "--help" in names else 2
    for name in BENCHMARKS if "all" in names else names:
        print(f"== {name}: {BENCHMARKS[name]}", flush=True)
        figures = importlib.import_module(f"bench.{name}").run()
        print(json.dumps(figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
