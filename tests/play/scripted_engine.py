"""A UCI engine that behaves as its mode says: `good`; `crash`, `hang`, `illegal` or `garbage` when it is
asked for a move; or `dead` from the start. `options` announces odd options, and ends when one is set wrongly.

`good` plays the first legal move in UCI order. A number after the mode is the number of good moves before it.
"""

from __future__ import annotations

import os
import sys

import chess

ODD_OPTIONS = [
    "option name max depth type type spin default 1 min 0 max 9",
    "option name min var default type string default max 3 min var",
    "option name Style type combo default Very Short var Solid var Very Short",
    "option name MultiPV type spin default many min 1 max 5",
    "option name Threads type spin default 99 min 1 max 8",
    "option name Level type spin default 1 min x max",
    "option name Mode type combo default none var some",
    "option name Ponder type combo default odd var odd",
    *("option name", "option", "option name type spin", "option name X type dance default 1", "option type"),
    "option name Clear Hash type button",
]


def misbehave(mode: str) -> None:
    if mode == "crash":
        os._exit(9)
    if mode == "hang":
        for _ in sys.stdin:
            pass
    elif mode == "illegal":
        print("bestmove e1e8", flush=True)
    elif mode == "garbage":
        print("\x00\xff bestmove\nbestmove zz9", flush=True)


def main() -> None:
    mode, after = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if mode == "dead":
        raise SystemExit(1)
    board, moves = chess.Board(), 0
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["uci"] and mode == "options":
            print("\n".join(["id name scripted", *ODD_OPTIONS, "uciok"]), flush=True)
        elif words[:1] == ["setoption"] and line.strip() != "setoption name max depth type value 3":
            return
        elif words[:1] == ["uci"]:
            print("id name scripted\nuciok", flush=True)
        elif words[:1] == ["isready"]:
            print("readyok", flush=True)
        elif words[:1] == ["position"]:
            board = chess.Board() if words[1] == "startpos" else chess.Board(" ".join(words[2:8]))
            for move in words[words.index("moves") + 1 :] if "moves" in words else []:
                board.push_uci(move)
        elif words[:1] == ["go"]:
            moves += 1
            if mode not in ("good", "options") and moves > after:
                misbehave(mode)
            else:
                first = min(move.uci() for move in board.legal_moves)
                print(f"info depth 1 nodes 7 score cp 100\nbestmove {first}", flush=True)
        elif words[:1] == ["quit"]:
            return


main()
