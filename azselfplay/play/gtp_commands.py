"""GTP's commands that need no search: the board, handicaps, clocks, rules, score, `loadsgf` and `printsgf`.

Each command is a function of the `Desk` (board, clocks, the size that the network plays) and its arguments.
The decorator `command` registers the function under the first word of its usage; the usage also determines
the number of arguments. A `GtpError` becomes the answer, and the desk is unchanged. Pure, except that
`loadsgf` reads a file and `printsgf` writes one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from azselfplay.games.game_history import board_text
from azselfplay.games.go.notation import vertex_of
from azselfplay.games.go.rules import GoRules
from azselfplay.games.go.sgf import SgfGame, read, result_text, write
from azselfplay.host.runs import write_atomically
from azselfplay.play.gtp_board import (
    LEAST,
    GoBoard,
    as_json,
    change_of,
    changes_in,
    handicap_points,
    most_points,
)
from azselfplay.play.gtp_lines import GtpError, colour_of, expect, number, whole_number
from azselfplay.play.orders import SideClock, shown


@dataclass(frozen=True)
class GtpClock:
    """The clock of one player, seconds."""

    remaining: float
    """Seconds left of the main time, or of the byo-yomi period."""
    period: float = 0.0
    """Length of a byo-yomi period; 0: there is none."""
    period_stones: int = 0
    """Moves to be played in each period."""
    stones: int = 0
    """Moves still to be played in this period; 0: main time. In Japanese byo-yomi, the number of periods
    left."""
    is_japanese: bool = False
    """Whether each move has its own period (Japanese byo-yomi). `period_stones` is the number of periods; a
    move that takes longer than a period loses one."""

    def for_move(self) -> SideClock:
        """Return the clock in the form that a search uses."""
        # Plan never to lose a period: a player who has lost all periods has lost the game.
        if self.is_japanese:
            main, period = (0.0, self.remaining) if self.stones else (self.remaining, self.period)
            return SideClock(main, byoyomi=period)
        # Time left after the last move of a period is lost: the next period begins in full.
        if self.stones:
            return SideClock(self.remaining, moves_to_go=self.stones, loses_rest=self.stones == 1)
        return SideClock(
            self.remaining, byoyomi=self.period / self.period_stones if self.period_stones else 0
        )

    def after(self, seconds: float) -> GtpClock:
        """Return the clock after a move that took `seconds`. A time_left from the controller replaces this
        clock."""
        left = self.remaining - seconds
        if self.is_japanese:
            if not self.stones and left > 0:
                return replace(self, remaining=left)
            over = seconds if self.stones else -left
            lost, periods = int(over // self.period), self.stones or self.period_stones
            return replace(self, remaining=self.period, stones=max(1, periods - lost))
        if self.stones > 1:
            return replace(self, remaining=max(0.0, left), stones=self.stones - 1)
        if self.stones == 1:  # a new period begins
            return replace(self, remaining=self.period, stones=self.period_stones)
        if left <= 0 and self.period_stones:  # the main time ended during this move
            stones = self.period_stones - 1 or self.period_stones
            used = -left if self.period_stones > 1 else 0.0
            return replace(self, remaining=max(0.0, self.period - used), stones=stones)
        return replace(self, remaining=max(0.0, left))


def clock_of(main: float, period: float, stones: int) -> GtpClock | None:
    """Return the clock that `time_settings` describes; None if there is no limit."""
    # This is the specification's way to say "no limit": a period in which no move has to be played.
    if period > 0 and stones == 0:
        return None
    if main <= 0 and period > 0:
        return GtpClock(period, period, stones, stones)
    return GtpClock(main, period, stones if period > 0 else 0)


Arguments = tuple[str, ...]

Handler = Callable[["Desk", Arguments], str | None]
"""Returns the answer; None: it is empty."""

COMMANDS: dict[str, tuple[str, Handler]] = {}
"""Name: (usage, handler)."""


@dataclass
class Desk:
    """The state that the commands work on."""

    board: GoBoard
    size: int | None = None
    """The only board size that the network plays; None: any."""
    is_new_game: bool = True
    """Whether this game has not been searched yet."""
    full_clock: GtpClock | None = None
    """The clock with which each side begins a game; None: no limit."""
    clocks: list[GtpClock | None] = field(default_factory=lambda: [None, None])
    """Clocks of Black and White."""
    asks_network: bool = False
    """Whether the network can be asked who will own the points (`gtp.OF_OWNERSHIP`)."""
    ownership: tuple[float, ...] = ()
    """[points] in [-1, 1], 1 where Black will own the point; () if the network was not asked."""

    @property
    def commands(self) -> Collection[str]:
        """The names of all commands that need no search."""
        return COMMANDS.keys()

    def begin_game(self) -> None:
        self.is_new_game = True
        self.set_clocks(self.full_clock)

    def set_clocks(self, clock: GtpClock | None) -> None:
        self.full_clock, self.clocks = clock, [clock, clock]

    def answer(self, name: str, arguments: Arguments) -> str:
        """Return the text of the answer to a command. Raises GtpError if it cannot be carried out."""
        usage, handler = COMMANDS[name]
        if not usage.endswith("..."):
            expect(arguments, usage)
        return handler(self, arguments) or ""


def command(usage: str) -> Callable[[Handler], Handler]:
    """Register the handler of a command."""

    def register(handler: Handler) -> Handler:
        COMMANDS[usage.split()[0]] = (usage, handler)
        return handler

    return register


@command("boardsize SIZE")
def _boardsize(desk: Desk, arguments: Arguments) -> None:
    size = whole_number(arguments[0], "a size")
    _check_size(desk, size)
    try:
        # The specification clears the board in any case, also if the size stays the same.
        desk.board = GoBoard(replace(desk.board.rules, size=size))
    except ValueError as error:
        raise GtpError(f"unacceptable size: {error}") from error
    desk.begin_game()


def _check_size(desk: Desk, size: int) -> None:
    if desk.size not in (None, size):
        raise GtpError(
            f"unacceptable size: the network plays {desk.size} x {desk.size} only; "
            f"start the engine with one for {size} x {size}"
        )


@command("query_boardsize")
def _query_boardsize(desk: Desk, _: Arguments) -> str:
    return str(desk.board.size)


@command("clear_board")
def _clear(desk: Desk, _: Arguments) -> None:
    desk.board.clear()
    desk.begin_game()


@command("komi KOMI")
def _komi(desk: Desk, arguments: Arguments) -> None:
    desk.board.change(komi=number(arguments[0], "the komi"))


@command("get_komi")
def _get_komi(desk: Desk, _: Arguments) -> str:
    return f"{desk.board.rules.komi:g}"


@command("play COLOUR VERTEX")
def _play(desk: Desk, arguments: Arguments) -> None:
    desk.board.play(colour_of(arguments[0]), arguments[1])


@command("undo")
def _undo(desk: Desk, _: Arguments) -> None:
    desk.board.undo()


@command("fixed_handicap STONES")
def _fixed_handicap(desk: Desk, arguments: Arguments) -> str:
    count = whole_number(arguments[0], "the number of stones")
    return _place(desk, tuple(handicap_points(desk.board.size, count)))


@command("place_free_handicap STONES")
def _place_free_handicap(desk: Desk, arguments: Arguments) -> str:
    """Place handicap stones on the fixed points. If there are not enough fixed points, place fewer stones, as
    the specification allows."""
    count = whole_number(arguments[0], "the number of stones")
    most = most_points(desk.board.size)
    return _place(desk, tuple(handicap_points(desk.board.size, min(count, most) if most else count)))


@command("set_free_handicap VERTEX ...")
def _set_free_handicap(desk: Desk, arguments: Arguments) -> None:
    if len(arguments) < LEAST:
        raise GtpError(f"bad vertex list: a handicap has {LEAST} stones at least")
    _place(desk, arguments)


def _place(desk: Desk, vertices: Arguments) -> str:
    if not desk.board.is_empty or desk.board.game_history.actions:
        raise GtpError("board not empty")
    # After Black's handicap, it is White's turn.
    desk.board.set_up(vertices, (), to_move=1)
    return " ".join(vertices)


@command("time_settings MAIN BYO_YOMI STONES")
def _time_settings(desk: Desk, arguments: Arguments) -> None:
    main, period = (max(0.0, number(word, "a time")) for word in arguments[:2])
    clock = clock_of(main, period, whole_number(arguments[2], "the number of stones"))
    desk.set_clocks(clock)


@command("kgs-time_settings SYSTEM [MAIN [PERIOD NUMBER]] ...")
def _kgs_time_settings(desk: Desk, arguments: Arguments) -> None:
    """Set the clocks as on KGS (https://www.gokgs.com/gtp.html): none, absolute, canadian, or Japanese
    byoyomi."""
    system, times = arguments[0].lower() if arguments else "", arguments[1:]
    counts = {"none": 0, "absolute": 1, "canadian": 3, "byoyomi": 3}
    if counts.get(system) != len(times):
        raise GtpError(
            "syntax error: write kgs-time_settings none, absolute MAIN, byoyomi MAIN PERIOD PERIODS, or "
            "canadian MAIN PERIOD STONES"
        )
    main, period, many = (*times, "0", "0", "0")[:3]
    count = whole_number(many, "the number behind the period")
    # A count of 0 means here that there is only the main time; in time_settings it would mean no limit.
    seconds = max(0.0, number(period, "a time")) if count else 0.0
    clock = clock_of(max(0.0, number(main, "a time")), seconds, count) if times else None
    if system == "byoyomi" and clock is not None:
        clock = replace(clock, is_japanese=clock.period > 0)
    desk.set_clocks(clock)


@command("time_left COLOUR TIME STONES")
def _time_left(desk: Desk, arguments: Arguments) -> None:
    colour = colour_of(arguments[0])
    seconds, stones = number(arguments[1], "a time"), whole_number(arguments[2], "the number of stones")
    # The length of the periods stays as set by time_settings.
    clock = desk.clocks[colour] or GtpClock(0.0)
    desk.clocks[colour] = replace(clock, remaining=max(0.0, seconds), stones=stones)


@command("kata-get-rules")
def _get_rules(desk: Desk, _: Arguments) -> str:
    return as_json(desk.board.rules)


@command("kata-set-rules RULES ...")
def _set_rules(desk: Desk, arguments: Arguments) -> None:
    if not arguments:
        raise GtpError("syntax error: write kata-set-rules RULES")
    desk.board.change(**changes_in(" ".join(arguments)))


@command("kata-set-rule KEY VALUE")
def _set_rule(desk: Desk, arguments: Arguments) -> None:
    # GTP words are text; convert JSON's `true` and `false`.
    value = {"true": True, "false": False}.get(arguments[1].lower(), arguments[1])
    desk.board.change(**change_of(arguments[0], value))


@command("final_score")
def _final_score(desk: Desk, _: Arguments) -> str:
    return result_text(desk.board.without(desk.board.dead(desk.ownership)).score())


@command("final_status_list STATUS")
def _final_status_list(desk: Desk, arguments: Arguments) -> str:
    """Return the status of stones under area scoring of the present board, after removing dead stones. Stones
    in a seki count as alive. Empty points are listed as in GNU Go."""
    owners = {"black_territory": 1, "white_territory": -1, "dame": 0}
    status, board = arguments[0].lower(), desk.board
    dead = board.dead(desk.ownership)
    if status in owners:
        return " ".join(board.empty_points(owners[status], dead))
    if status not in ("alive", "seki", "dead"):
        known = ", ".join(["alive", "seki", "dead", *owners])
        raise GtpError(f"syntax error: a status is one of {known}, not {shown(status)}")
    found = {"alive": board.without(dead).stones(), "dead": dead, "seki": ()}[status]
    return "\n".join(" ".join(one) for one in found if one)


@command("showboard")
def _showboard(desk: Desk, _: Arguments) -> str:
    game_history = desk.board.game_history
    is_over = game_history.end_reason() is not None
    return f"\n{board_text(game_history.game, game_history.state, is_over=is_over)}"


@command("loadsgf FILE [MOVE]")
def _loadsgf(desk: Desk, arguments: Arguments) -> None:
    """Load an SGF file. Nothing changes if it cannot be used."""
    path, move = path_and_move(arguments[0])
    # Read the whole file before anything changes.
    board = board_from(path, desk.board.rules, whole_number(move, "a move number"))
    _check_size(desk, board.size)
    desk.board = board
    desk.begin_game()


LARGEST = 1 << 20
"""Most bytes of a file."""


def path_and_move(text: str) -> tuple[Path, str]:
    """Return the arguments of `loadsgf`: a path, maybe with blanks and quotes, and the digits after it ("0"
    if there are none)."""
    # A path may itself end with a blank and digits, so check which file exists.
    path, move, exists = text, "0", os.path.isfile  # raises nothing for a path that is too long
    head, _, last = text.rpartition(" ")
    if head and re.fullmatch("[0-9]+", last) and not exists(text):
        path, move = head.rstrip(), last
    return path_of(path), move


def path_of(text: str) -> Path:
    """Return the path in a text, maybe in quotes."""
    exists = os.path.isfile  # raises nothing for a path that is too long
    is_quoted = len(text) > 2 and text[0] == text[-1] and text[0] in "\"'" and not exists(text)
    return Path(text[1:-1] if is_quoted else text)


def board_from(path: Path, rules: GoRules, before: int = 0) -> GoBoard:
    """Return the main line of the first game in a file, up to but without the move `before` (1 is the first
    move; 0: the whole game).

    Rules that the file does not give are taken from `rules`. Raises GtpError saying why the file cannot be
    used.
    """
    try:
        if not path.is_file():  # refuses devices and pipes, which may have no end
            raise ValueError(f"there is no file {str(path)!r}")
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST} bytes")
        found = read(path.read_bytes(), rules)
        board = GoBoard(found.rules, found.start)
        for number, action in enumerate(found.actions[: before - 1] if before else found.actions, 1):
            try:
                board.play(board.to_move, vertex_of(board.size, action))
            except GtpError as error:
                raise ValueError(f"move {number}: {error}") from error
    except (OSError, ValueError) as error:
        raise GtpError(f"cannot load file: {error}") from error
    return board


@command("printsgf [FILE]")
def _printsgf(desk: Desk, arguments: Arguments) -> str:
    """Return the game so far as SGF, with the passes between two moves of one side. An existing file is
    replaced."""
    game_history = desk.board.game_history
    data = write(SgfGame(desk.board.rules, game_history.start, tuple(game_history.actions)))
    if not arguments:
        return data.decode()
    path = path_of(arguments[0])
    try:
        if path.exists() and not path.is_file():  # a device would be replaced too
            raise ValueError(f"{str(path)!r} is not a file")
        write_atomically(path, data)
    except (OSError, ValueError) as error:
        raise GtpError(f"cannot write file: {error}") from error
    return ""
