"""A UCI engine that behaves as its mode says: `good`; `crash`, `hang`, `illegal` or `garbage` when it is
asked for a move; or `dead` from the start.

`good` plays the first legal move in UCI order. A number after the mode is the number of good moves before it.
"""

from __future__ import annotations

import os
import sys

import chess


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
        if words[:1] == ["uci"]:
            print("id name scripted\nuciok", flush=True)
        elif words[:1] == ["isready"]:
            print("readyok", flush=True)
        elif words[:1] == ["position"]:
            board = chess.Board() if words[1] == "startpos" else chess.Board(" ".join(words[2:8]))
            for move in words[words.index("moves") + 1 :] if "moves" in words else []:
                board.push_uci(move)
        elif words[:1] == ["go"]:
            moves += 1
            if mode != "good" and moves > after:
                misbehave(mode)
            else:
                first = min(move.uci() for move in board.legal_moves)
                print(f"info depth 1 nodes 7 score cp 100\nbestmove {first}", flush=True)
        elif words[:1] == ["quit"]:
            return


main()
