"""An engine for GTP, USI or UCI that behaves as its mode says: `good`; `crash`, `hang`, `illegal`, `garbage`
or `resign` when it is asked for a move; or `dead` from the start. A number after the mode is the number of
good moves before it.

The good moves of GTP are points column by column; those of USI push the edge pawns, then the lances' pawns;
those of UCI are the first legal ones in alphabetical order.
"""

import os
import sys

USI_MOVES = {
    0: ["1g1f", "9g9f", "2g2f", "8g8f", "1i1h", "1h1i"],
    1: ["1c1d", "9c9d", "2c2d", "8c8d", "1a1b", "1b1a"],
}
ILLEGAL = {"gtp": "A99", "usi": "5a5a", "uci": "e1e8"}
GARBAGE = {"gtp": "\x00\xff what?", "usi": "\x00\xff what?", "uci": "\x00\xff bestmove\nbestmove zz9"}


def misbehave(protocol: str, mode: str) -> None:
    if mode == "crash":
        os._exit(9)
    if mode == "hang":
        for _ in sys.stdin:
            pass
    before = "= " if protocol == "gtp" else "bestmove "
    words = {"illegal": before + ILLEGAL[protocol], "resign": before + "resign", "garbage": GARBAGE[protocol]}
    print(words[mode] + "\n" * (protocol == "gtp"), flush=True)


def gtp(mode: str, after: int) -> None:
    stones, moves, size, seeds = set(), 0, 19, []
    for line in sys.stdin:
        words, text, failed = line.split(), "", False
        if words[0] == "protocol_version":
            text = "2"
        elif words[0] == "known_command":
            text = str(words[1] == "set_random_seed").lower()
        elif words[0] == "set_random_seed" and int(words[1]) < 2**31:
            seeds.append(words[1])
        elif words[0] == "boardsize":
            size, stones = int(words[1]), set()
        elif words[0] == "clear_board":
            stones, seeds = set(), []
        elif words[0] == "play":
            stones.add(words[2])
        elif words[0] == "genmove":
            moves += 1
            assert len(seeds) == 1, "each game has its seed"
            if mode != "good" and moves > after:
                misbehave("gtp", mode)
                continue
            points = (f"{column}{row}" for column in "ABCDEFGHJ"[:size] for row in range(1, size + 1))
            text = next((point for point in points if point not in stones), "pass")
            stones.add(text)
        elif words[0] not in ("komi", "time_settings", "time_left", "level", "quit"):
            failed, text = True, "unknown command"
        print(f"{'?' if failed else '='} {text}\n", flush=True)
        if words[0] == "quit":
            return


def usi(mode: str, after: int) -> None:
    played: list[str] = []
    moves = 0
    for line in sys.stdin:
        words = line.split()
        if words[0] == "usi":
            print("id name scripted\noption name Skill type spin default 1 min 0 max 9")
            print("option name Book type check default true\noption name USI_Ponder type check")
            print(
                "option name Style type combo var wild var safe default safe\noption name Ponder type check"
            )
            print("option name Clear type button\nusiok", flush=True)
        elif words[0] == "setoption":
            assert " ".join(words[2:]) in (
                "Skill value 9",
                "Book value true",
                "Style value Wild",
                "Clear",
                "Ponder value false",
            )
        elif words[0] == "isready":
            print("readyok", flush=True)
        elif words[0] == "position":
            played = words[words.index("moves") + 1 :] if "moves" in words else []
        elif words[0] == "go":
            moves += 1
            if mode != "good" and moves > after:
                misbehave("usi", mode)
                continue
            mine = played[len(played) % 2 :: 2]
            move = USI_MOVES[len(played) % 2][min(len(mine), 4 + len(mine) % 2)]
            print(f"info depth 1 nodes 7 score cp 100\nbestmove {move}", flush=True)
        elif words[0] == "quit":
            return


def uci(mode: str, after: int) -> None:
    import chess

    board, moves = chess.Board(), 0
    for line in sys.stdin:
        words = line.split()
        if words[0] == "setoption":
            return
        if words[0] == "uci":
            print("id name scripted\nuciok", flush=True)
        elif words[0] == "isready":
            print("readyok", flush=True)
        elif words[0] == "position":
            board = chess.Board() if words[1] == "startpos" else chess.Board(" ".join(words[2:8]))
            for move in words[words.index("moves") + 1 :] if "moves" in words else []:
                board.push_uci(move)
        elif words[0] == "go":
            moves += 1
            if mode != "good" and moves > after:
                misbehave("uci", mode)
                continue
            first = min(move.uci() for move in board.legal_moves)
            print(f"info depth 1 nodes 7 score cp 100\nbestmove {first}", flush=True)
        elif words[0] == "quit":
            return


def main() -> None:
    protocol, mode, after = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0
    if mode == "dead":
        raise SystemExit(1)
    {"gtp": gtp, "usi": usi, "uci": uci}[protocol](mode, after)


main()
