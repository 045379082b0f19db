"""Openings: the start positions and first moves of the games in a match. Each is played twice, with colours
swapped.

From one start, two deterministic players always play the same game. Openings make the games differ, and
playing each from both sides cancels the advantage that an opening gives.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.game_texts import at_moves, form_in
from azselfplay.games.knowledge import ReadGame, knowledge_of
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.reading import read_bytes, text_in
from azselfplay.play.game_files import SUFFIXES, format_of
from azselfplay.search.settings import resolve, start_of_game
from protocol.settings import SelfPlaySettings

RANDOM_PLIES = 4
"""Number of plies for `random` without a number, and for `auto` after the book."""
RANDOM = "random-"
"""Names of random openings begin with this text."""
MISSES = 500
"""Number of random openings in a row without a new position after which we assume that there are no more."""


@dataclass(frozen=True)
class Opening:
    """A start position and the first moves."""

    id: str
    start: str = ""
    """In the game's notation; "" is the usual start."""
    actions: tuple[int, ...] = ()

    def game_history(self, game: Game, max_plies: int = 0) -> GameHistory:
        """Return the game after the opening."""
        game_history = GameHistory(game, self.start, max_plies)
        for action in self.actions:
            game_history.play(action)
        return game_history


def random_openings(
    game: Game, count: int, plies: int, seed: int, settings: SelfPlaySettings | None = None
) -> list[Opening]:
    """Return up to `count` openings of `plies` random moves that lead to distinct positions in which the game
    continues. They begin as self-play does under the resolved `settings` (None: the defaults). After a start
    that was drawn for its game alone, they are shorter by `usual_plies`.

    The same seed gives the same openings in the same order, whatever `count` is. Fewer are returned if the
    game has no more (Connect Four after one ply: 7).
    """
    # The seed does not include `count`, so that a longer match begins with the openings of a shorter one.
    rng = np.random.default_rng([seed, plies])
    seen: set[bytes] = set()
    openings: list[Opening] = []
    misses, settings = 0, settings or resolve(SelfPlaySettings(), game)
    while len(openings) < count and misses < MISSES:
        # Reset below when a new position is found.
        misses += 1
        start, is_sampled = start_of_game(game, settings, rng)
        game_history, most = GameHistory(game, start), plies - is_sampled * usual_plies(game)
        while game_history.ply < most and game_history.end_reason() is None:
            game_history.play(int(rng.choice(game_history.legal_actions())))
        if game_history.end_reason() is None and game_history.state.tobytes() not in seen:
            misses = 0
            seen.add(game_history.state.tobytes())
            moves = " ".join(game_history.moves_text())
            openings.append(
                Opening(f"{RANDOM}{len(openings) + 1}: {moves}", start, tuple(game_history.actions))
            )
    return openings


def longest_openings(
    game: Game, count: int, plies: int, seed: int, settings: SelfPlaySettings | None = None
) -> list[Opening]:
    """Return `random_openings` of `plies` moves, or of fewer if all games are over by then."""
    tries = (random_openings(game, count, fewer, seed, settings) for fewer in range(plies, -1, -1))
    return next(filter(None, tries), [])


def book_openings(game: Game) -> list[Opening]:
    """Return the built-in openings of a game; most games have none."""
    return [
        Opening(name, "", tuple(replay(game, "", moves.split()).actions))
        for name, moves in knowledge_of(game).book.items()
    ]


def openings_from_file(game: Game, path: Path, most: int | None = None) -> list[Opening]:
    """Return the openings in a file. A file of games gives its first `most` games; in any other file, each
    line is one opening: a start position (chess: FEN or EPD) or moves from the usual start.

    A line whose first word contains `/` is a position; `|` or `moves`, and moves, may follow it. Positions
    may also be written as for engines (`startpos`, `sfen ...`). Empty lines and comments (`#`) are skipped.
    Raises Fatal(BAD_DATA) naming the line or the game that cannot be read.
    """
    try:
        data = read_bytes(path)
        text = text_in(data, "latin_1")
    except (OSError, ValueError) as error:
        raise Fatal(f"the openings in {path} cannot be read: {error}", Exit.BAD_DATA) from error
    found: Iterable[ReadGame | ValueError]
    # Look at the content too, because people name such files as they like.
    if path.suffix.lower() in SUFFIXES or form_in(game, text) or text.lstrip().startswith(("[", "(;")):
        kind, found = "game", islice(format_of(game, path).read(data), most)
    else:
        kind, found = "line", map(_opening_in, text.splitlines())
    openings, number = list[Opening](), 0
    try:
        for number, one in enumerate(found, 1):
            if isinstance(one, ValueError):
                raise one
            if one.start or one.moves:
                start = knowledge_of(game).read_start(one.start)
                game_history = replay(game, start, one.moves)
                if game_history.end_reason() is not None:
                    raise ValueError(f"the game is over before it begins ({game_history.end_reason()})")
                openings.append(Opening(f"{path.name}:{number}", start, tuple(game_history.actions)))
    except ValueError as error:
        raise Fatal(f"{path} {kind} {number}: {error}", Exit.BAD_DATA) from error
    if not openings:
        raise Fatal(f"{path} has no openings; write one a line", Exit.BAD_DATA)
    return openings


def _opening_in(line: str) -> ReadGame:
    """Return what a line of a file of openings says."""
    told = re.sub(r'("[^"]*")|(?:^|\s)#.*', r"\1", line)  # but Qh7# and "no. #1" are no comments
    start, separator, moves = at_moves(told)
    if not separator:
        has_start = re.match(r"\s*(\S*/|(position|s?fen|startpos)\b)", told)
        start, _, moves = told.partition("|") if has_start else ("", "", told)
    return ReadGame(start, moves.split())


def openings_for(game: Game, source: str, count: int, seed: int) -> Sequence[Opening]:
    """Return `count` openings from `source`: auto, start, book, random[:PLIES] or a file. They are repeated
    if there are too few.

    auto: the built-in book, then random moves. Raises Fatal(CONFIG) if there are none.
    """
    kind, _, plies = source.partition(":")
    if kind == "start":
        found = [Opening("start")]
    elif kind == "book":
        found = book_openings(game)
    elif kind == "random" and (plies or str(RANDOM_PLIES)).isdecimal():
        found = random_openings(game, count, int(plies or RANDOM_PLIES), seed)
    elif kind == "auto":
        book = book_openings(game)[:count]
        found = book + longest_openings(game, count - len(book), usual_plies(game), seed)
    elif Path(source).exists():
        found = openings_from_file(game, Path(source), count)
    else:
        raise Fatal(f"openings {source!r}: give auto, start, book, random:PLIES or a file", Exit.CONFIG)
    if not found:
        raise Fatal(f"{game.name} has no openings {source!r}; give start or random:PLIES", Exit.CONFIG)
    return [found[index % len(found)] for index in range(count)]


def check_lengths(openings: Iterable[Opening], max_plies: int) -> None:
    """Raise Fatal(CONFIG) if an opening is not shorter than `max_plies`. 0 means the game's own cap; every
    opening was already read with that cap."""
    longest = max((len(opening.actions) for opening in openings), default=0)
    if max_plies and longest >= max_plies:
        raise Fatal(
            f"--max-plies {max_plies}: an opening has {longest} plies; give more plies, or shorter openings "
            "such as --openings start",
            Exit.CONFIG,
        )


def describe(pairs: Sequence[str]) -> str:
    """Return how games began, for people. `pairs`: the ids of the openings of all pairs that were played."""
    counts = Counter(pairs)
    if not counts:
        return "none was played from both sides"
    if set(counts) == {"start"}:
        return "the usual start of the game"
    drawn = sum(name.startswith(RANDOM) for name in counts)
    kinds = ((len(counts) - drawn, "from a book or file"), (drawn, "random"))
    counted = " and ".join(f"{number} {kind}" for number, kind in kinds if number)
    most = max(counts.values())
    times = "once" if most == 1 else f"up to {most} times"
    return f"{counted}, each played {times} by either side"


def usual_plies(game: Game) -> int:
    """Return the number of random plies after which the game is usually still undecided."""
    return min(RANDOM_PLIES, game.max_plies // 4)
