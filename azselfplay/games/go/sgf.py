"""Games of Go in SGF, read and written with sgfmill: the main line, its start position and its rules.

Files are written with alternative lines as variations, values as Sabaki shows them (SBKV: percent for Black),
and marks of bad moves (DO, BM).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from sgfmill import sgf, sgf_grammar

from azselfplay.games.game_history import replay
from azselfplay.games.go import game_of
from azselfplay.games.go.board import Board
from azselfplay.games.go.notation import PASS, STONES, Text, action_of, vertex_of
from azselfplay.games.go.rules import MOST_KOMI, GoRules, Superko, kernels_of
from azselfplay.games.knowledge import GameFormat, ReadGame, WrittenMove
from azselfplay.games.spec import RESIGNATION

COLOURS = "bw"
"""sgfmill's names of the first and the second player."""


@dataclass(frozen=True)
class SgfGame:
    """The contents of a game in a file."""

    rules: GoRules
    start: str = ""
    """In the game's notation; "" is the empty board with Black to move."""
    actions: tuple[int, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)
    """Further properties of the root, such as PB, PW, RE, DT."""
    said_rules: dict[str, str] = field(default_factory=dict, compare=False)
    """KM and RU as given in the file. Only read, not written."""
    other_rules: str = field(default="", compare=False)
    """Rules in the file's RU that we do not play; the moves are read all the same. Only read, not written."""


def result_text(score: float) -> str:
    """Return a score (Black's points minus White's and the komi) as SGF and GTP write results: B+3.5, W+2,
    0."""
    return "0" if score == 0 else f"{'B' if score > 0 else 'W'}+{abs(score):g}"


# ---- Reading ------------------------------------------------------------------------------------

PGN_TAGS = {"PB": "White", "PW": "Black", "EV": "Event", "PC": "Site", "DT": "Date", "AN": "Annotator"}
"""Properties of SGF by their PGN tags. PGN's White is the first player, which in Go is Black."""
TAGS = (*PGN_TAGS, "RE", "GN")
"""Properties that `read` keeps."""
WITHOUT_DOT = frozenset(
    {55, 65, 75, *(komi for komi in range(100, 1000, 25) if komi % 100 or komi > MOST_KOMI)}
)
"""Komi values that some programs write without their dot. Nobody means so many points, except whole
hundreds."""
LEAST_HANDICAP = 2
MOST_QUOTED = 60
"""Largest number of characters of a value that an error message repeats."""


@dataclass(frozen=True)
class NamedRules:
    """The rules behind a name in RU."""

    superko: Superko
    suicide: bool
    pays_handicap: bool = False
    """Whether White gets points for Black's handicap stones, which is not supported."""


CHINESE = ("chinese", "chineseogs", "chinesekgs")
RULES = {
    "tromptaylor": NamedRules("positional", suicide=True),
    **dict.fromkeys(CHINESE, NamedRules("positional", suicide=False, pays_handicap=True)),
    "nz": NamedRules("situational", suicide=True),
    "newzealand": NamedRules("situational", suicide=True),
    **dict.fromkeys(("aga", "bga", "french"), NamedRules("situational", suicide=False, pays_handicap=True)),
}
"""Rules with area scoring and superko, by the letters of their names. The text of the Chinese rules forbids
the repetition of any position, though referees often apply them otherwise."""
TERRITORY = frozenset({"japanese", "japan", "korean", "korea"})
KATAGO = re.compile(r"ko(positional|situational|simple)scoreareataxnonesui([01])")
"""What KataGo writes into RU for rules that we play, including rules without a name."""


def read(data: bytes, usual: GoRules | None = None) -> SgfGame:
    """Return the main line of the first game in a file. Rules that the file does not give (superko, suicide,
    komi) are taken from `usual`.

    Raises ValueError for what cannot be read: not SGF, another game, a board, komi or rules that we do not
    play, stones set after the first move, two moves of one side in a row. It does not check whether the
    moves are legal.
    """
    found = _read(_text_of(data), usual)
    if found.other_rules:
        raise ValueError(
            f"{found.other_rules}; to read it by other rules, remove RU, or write RU[Tromp-Taylor], RU[NZ], "
            "RU[AGA] or RU[Chinese]"
        )
    return found


def _read(given: str, usual: GoRules | None) -> SgfGame:
    """Read a game as `read` does, from text. Rules that we do not play are no error."""
    tree = _tree_of(given)
    size, nodes = tree.get_size(), list(tree.main_sequence_iter())
    moves: list[tuple[int, tuple[int, int] | None]] = []  # side, and point or None for a pass
    for node in nodes:
        if sides := [side for side, colour in enumerate("BW") if node.has_property(colour)]:
            name = "BW"[sides[0]]
            values = node.get_raw_list(name)
            if len(sides) > 1 or len(values) > 1:
                raise ValueError("there are several moves in one node")
            moves.append((sides[0], _on_board(node.get_move, name, values, size)[1]))
    stones = _stones(nodes, size)
    text = _text(nodes, "HA") or "0"
    if not re.fullmatch(r"[0-9]{1,3}", text):
        raise ValueError(f"HA[{text[:MOST_QUOTED]}] is not a number of handicap stones")
    handicap = int(text)
    if handicap >= LEAST_HANDICAP and not stones:  # Black places them by moves, as under Chinese rules
        placed, moves = moves[:handicap], moves[handicap:]
        if len(placed) < handicap or any(side != 0 or point is None for side, point in placed):
            raise ValueError(
                f"HA says {handicap} handicap stones, and the file places none; write them as AB"
            )
        stones = {point: 0 for _, point in placed if point is not None}
    # Some programs omit HA, so several black stones without white ones count as a handicap too.
    has_handicap = handicap >= LEAST_HANDICAP or (len(stones) >= LEAST_HANDICAP and 1 not in stones.values())
    rules, other = _rules(nodes, replace(usual or GoRules(), size=size), has_handicap=has_handicap)
    start, mover = _start(nodes, rules, stones, moves[0][0] if moves else None)
    for number, (side, _) in enumerate(moves):
        if side != (mover + number) % 2:
            raise ValueError(f"move {number + 1} is by the same side as the move before")
    actions = [size * size if point is None else point[0] * size + point[1] for _, point in moves]
    root = nodes[0]
    tags = {name: _plain(root.get_raw(name)) for name in TAGS if root.has_property(name)}
    said_rules = {name: _plain(root.get_raw(name)) for name in ("KM", "RU") if root.has_property(name)}
    return SgfGame(rules, start, tuple(actions), tags, said_rules, other)


_IN_GAME = re.compile(r"\[(?:[^\]\\]|\\.)*\]?|[()]", re.DOTALL)
"""The tokens that matter to find the end of a game: a property value, which may contain brackets, or a
bracket."""


def read_games(rules: GoRules, data: bytes) -> Iterator[ReadGame | ValueError]:
    """Yield the games of a file for a board of `rules`, as `GameFormat.read` says. A file may have
    several."""
    text, depth, begin = _text_of(data), 0, -1
    ends = []
    for found in _IN_GAME.finditer(text):
        if found[0] == "(":
            begin = found.start() if depth == 0 else begin
            depth += 1
        elif found[0] == ")" and depth:
            depth -= 1
            if depth == 0:
                ends.append((begin, found.end()))
    # The last game may be cut off. If there is no game at all, `_read` reports that.
    if depth or not ends:
        ends.append((max(begin, 0), len(text)))
    for first, last in ends:
        try:
            game = _read(text[first:last], rules)
            if game.rules.size != rules.size:
                raise ValueError(f"the SGF is for a board of {game.rules.size}, not of {rules.size}")
            result = game.tags.get("RE", "").strip()
            drawn = 0 if result.lower() in ("0", "draw", "jigo") else None
            outcome = {"B+": 1, "W+": -1}.get(result[:2], drawn)
            # PGN calls the first player White; in Go that is Black.
            tags = {PGN_TAGS.get(name, name): said for name, said in (game.tags | game.said_rules).items()}
            komi = f"komi {game.rules.komi:g}, not {rules.komi:g}" if game.rules.komi != rules.komi else ""
            vertices = tuple(vertex_of(rules.size, action) for action in game.actions)
            passes = next((at for at, one in enumerate(reversed(vertices)) if one != PASS), len(vertices))
            yield ReadGame(game.start, vertices, outcome, tags, game.other_rules or komi, passes)
        except ValueError as error:
            yield error


BEGINNING = 4096
"""Bytes of a file in which CA is looked for."""
LARGER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "ascii": "utf_8"}
"""Supersets: files that name the first encoding often have characters of the second, which contains the
first."""


def _text_of(data: bytes) -> str:
    """Return the text of a file, decoded with UTF-8 if it can be, else with the encoding in the first CA at
    its beginning if that is known, else with Latin-1. Invalid bytes become replacement characters, so that
    names and comments do not prevent reading the moves."""
    # Programs save games again without changing CA. Text in another encoding is hardly ever valid UTF-8; one
    # that writes everything in ASCII (ISO-2022-JP) needs CA.
    if not data.isascii():
        with suppress(UnicodeDecodeError):
            return data.decode()
    given = re.search(rb"[\s;\]]CA\s*\[\s*(?i:x-)?([A-Za-z0-9][\w.: -]*?)\s*\]", data[:BEGINNING])
    if given:
        # A name without a text encoding raises LookupError, or another ValueError while decoding.
        with suppress(LookupError, ValueError):
            name = codecs.lookup(given[1].decode()).name
            return data.decode(LARGER.get(name, name), "replace")
    return data.decode("latin_1")


def _tree_of(text: str) -> sgf.Sgf_game:
    """Return the first game in a text. Raises ValueError if there is none, or if it is not Go on a supported
    board."""
    try:
        coarse = sgf_grammar.parse_sgf_game(text.encode())
    # RecursionError: the parser is recursive, and a file may have any number of nested brackets.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no SGF of Go that can be read: {error or type(error).__name__}") from error
    root = coarse.sequence[0]
    game, size = (root.get(name, [b""])[0].decode().strip() for name in ("GM", "SZ"))
    if game not in ("", "1"):
        raise ValueError(f"GM[{game[:MOST_QUOTED]}] is not Go, which is GM[1]")
    # SGF may write the size as `19:19`, columns and rows.
    sizes = [word.strip() for word in (size or "19").split(":")]
    if len(sizes) > 2 or not all(re.fullmatch(r"[0-9]{1,3}", word) for word in sizes):
        raise ValueError(f"SZ[{size[:MOST_QUOTED]}] is not the size of a board: write SZ[19]")
    if int(sizes[0]) != int(sizes[-1]):
        raise ValueError(f"SZ[{size}] is not square, and Go is played on square boards only")
    # Write the size as one number; GoRules refuses sizes that we do not play.
    root["SZ"] = [str(GoRules(int(sizes[0])).size).encode()]
    return sgf.Sgf_game.from_coarse_game_tree(coarse, override_encoding="UTF-8")


def _text(nodes: Sequence[sgf.Node], name: str) -> str:
    """Return the value of a property in the first node that has it; "" if none has.

    Raises ValueError if it has several.
    """
    for node in nodes:
        if node.has_property(name):
            values = node.get_raw_list(name)
            if len(values) > 1:
                raise ValueError(f"{name} has {len(values)} values")
            return _plain(values[0]).strip()
    return ""


def _plain(value: bytes) -> str:
    """Return a value without SGF's escapes."""
    return str(sgf_grammar.simpletext_value(value).decode())


def _stones(nodes: Sequence[sgf.Node], size: int) -> dict[tuple[int, int], int]:
    """Return the stones set up before the first move: side by point. Raises ValueError."""
    stones: dict[tuple[int, int], int] = {}
    has_begun = False
    for node in nodes:
        if has_begun and node.has_setup_stones():
            raise ValueError("stones are set up in the middle of the game, which is not supported")
        has_begun = has_begun or node.get_raw_move()[0] is not None
        given = [
            _on_board(partial(node.get, name), name, node.get_raw_list(name), size)
            if node.has_property(name)
            else set()
            for name in ("AB", "AW", "AE")
        ]
        if given[0] & given[1]:
            raise ValueError("a point is set up with stones of both sides")
        # Later nodes may set up more, or take stones away (AE).
        stones.update((point, side) for side, points in enumerate(given[:2]) for point in points)
        for point in given[2]:
            stones.pop(point, None)
    return stones


def _on_board(found: Callable[[], Any], name: str, values: Sequence[bytes], size: int) -> Any:
    """Return found(), in which sgfmill reads the points of the property `name`. Raises ValueError naming the
    property and its `values`."""
    try:
        return found()
    except ValueError:
        text = "".join(f"[{value.decode()}]" for value in values)
        quoted = f"{name}{text[:MOST_QUOTED]}"
        raise ValueError(f"{quoted}: not all of it is on a board of {size} x {size}") from None


def _rules(nodes: Sequence[sgf.Node], usual: GoRules, *, has_handicap: bool) -> tuple[GoRules, str]:
    """Return (the rules by RU and KM, or else those of `usual`; the rules in RU that we do not play). Raises
    ValueError for an impossible komi."""
    komi, text = _text(nodes, "KM"), _text(nodes, "RU")
    rules = replace(usual, komi=_komi_of(komi)) if komi else usual
    if not text:
        return rules, ""
    # Only letters and digits count: people write `Tromp-Taylor` and `tromp taylor`.
    name = re.sub(r"[^a-z0-9]", "", text.lower()).removesuffix("rules").removesuffix("rule")
    # `whb0`: no points for handicap stones, as we play.
    if katago := KATAGO.fullmatch(name.removesuffix("whb0")):
        return replace(rules, superko=cast(Superko, katago[1]), suicide=katago[2] == "1"), ""
    found, other = RULES.get(name), f"RU[{text[:MOST_QUOTED]}]"
    if found is None:
        kind = "territory" if name in TERRITORY else "other rules"
        return rules, f"{other}: {kind}, and only area scoring is played"
    pays = found.pays_handicap and has_handicap
    other += ", which gives White points for handicap stones, and that is not played (add them to KM)"
    return replace(rules, superko=found.superko, suicide=found.suicide), other if pays else ""


def _komi_of(text: str) -> float:
    """Return the komi in points. Raises ValueError if it is not a number.

    65 and 375 are 6.5 and 3.75 (`WITHOUT_DOT`), but 65.0 is 65. A komi with a quarter counts stones, as in
    China. A stone is worth two points, so 3.75 is 7.5 points.
    """
    number = r"([+-]?)([0-9]{1,9}([.,][0-9]{0,9})?)"
    found = re.fullmatch(rf"{number}\s*(points?|pts?|moku|目)?", text.lower().replace("½", ".5"))
    if found is None:
        raise ValueError(f"KM[{text[:MOST_QUOTED]}] is not a komi: write the points, as in KM[6.5]")
    komi = float(found[2].replace(",", "."))
    if found[3] is None and komi in WITHOUT_DOT:
        komi /= 10 if komi < 100 else 100
    komi *= 2 if (4 * komi) % 2 == 1 else 1
    return -komi if found[1] == "-" else komi


def _start(
    nodes: Sequence[sgf.Node],
    rules: GoRules,
    stones: Mapping[tuple[int, int], int],
    first_to_move: int | None,
) -> tuple[str, int]:
    """Return (start position, side to move first). Raises ValueError for an impossible position."""
    mover = 1 if stones and 1 not in stones.values() else 0  # handicap stones are Black's move
    if first_to_move is not None:
        mover = first_to_move
    elif player := _text(nodes, "PL"):
        sides = {"b": 0, "black": 0, "w": 1, "white": 1}
        if player.lower() not in sides:
            raise ValueError(f"PL[{player[:MOST_QUOTED]}] is not a side: write PL[B] or PL[W]")
        mover = sides[player.lower()]
    # The text of the usual start is empty.
    if not stones and mover == 0:
        return "", 0
    text, letters = Text(Board(rules.size), kernels_of(rules)), ["."] * rules.size**2
    for (row, col), side in stones.items():
        letters[row * rules.size + col] = STONES[side]
    return text.text_of(text.state_of("".join(letters), mover)), mover


# ---- Writing ------------------------------------------------------------------------------------


MARKS = {"?!": ("DO", b""), "?": ("BM", b"1"), "??": ("BM", b"2")}
"""Property and value for doubtful and bad moves."""


def write(game: SgfGame, moves: Sequence[WrittenMove] = (), ending: str = "") -> bytes:
    """Return the game as an SGF file. Raises ValueError if its start position cannot be read.

    moves: the moves of the game again, with comments and so on. ending: comment after the last move.
    """
    rules, size = game.rules, game.rules.size
    text = Text(Board(size), kernels_of(rules))
    start = text.state_from(game.start)
    tree = sgf.Sgf_game(size=size)
    root = tree.get_root()
    # `+ 0` makes a zero of a negative one.
    komi = rules.komi + 0
    # Write a dot if a reader could otherwise insert one (`WITHOUT_DOT`).
    root.set_raw("KM", (f"{komi:.1f}" if abs(komi) in WITHOUT_DOT else f"{komi:g}").encode())
    # Write a name that programs know, or else the single rules, as KataGo writes them.
    named = {"positional": "Tromp-Taylor", "situational": "NZ"}.get(rules.superko if rules.suicide else "")
    root.set("RU", named or f"ko{rules.superko.upper()}scoreAREAtaxNONEsui{int(rules.suicide)}")
    for name, value in game.tags.items():
        if name == "KM":  # as it was read, which may be no number
            root.set_raw(name, sgf_grammar.escape_text(value.encode()))
        else:
            root.set(name, value)
    mover = int(text.kernels.side_to_move(start))
    if game.start:
        rows = list(reversed(text.rows(start)))
        points = [(row, col) for row in range(size) for col in range(size)]
        root.set_setup_stones(*([at for at in points if rows[at[0]][at[1]] == stone] for stone in STONES))
        root.set("PL", COLOURS[mover])

    def set_move(node: sgf.Tree_node, number: int, action: int) -> None:
        point = None if action == size * size else divmod(action, size)
        node.set_move(COLOURS[(mover + number) % 2], point)

    for number, action in enumerate(game.actions):
        set_move(tree.extend_main_sequence(), number, action)
    nodes = tree.get_main_sequence()
    for number, move in enumerate(moves):
        node = nodes[number + 1]
        if move.value is not None:
            percent = f"{50 * (1 + move.value):.1f}"
            node.set_raw("SBKV", percent.encode())
            # For programs that do not know SBKV.
            _comment(node, f"Black {percent} %")
        _comment(node, move.comment)
        if move.mark:
            node.set_raw(*MARKS[move.mark])
        for line, comment in move.others:
            node = nodes[number]
            for further, vertex in enumerate(line, number):
                node = node.new_child()  # becomes a variation: the main line exists already
                set_move(node, further, action_of(size, vertex))
                _comment(node, "" if further > number else comment)
    _comment(nodes[-1], ending)
    data: bytes = tree.serialise()
    return data


def _comment(node: sgf.Tree_node, text: str) -> None:
    """Add a comment to a node, which may already have one."""
    if text:
        node.set("C", f"{node.get('C')}\n{text}" if node.has_property("C") else text)


def sgf_format(rules: GoRules) -> GameFormat:
    """Return the SGF format for games under these rules."""

    def written(tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str) -> str:
        actions = tuple(action_of(rules.size, one.move) for one in moves)
        root = {name: tags[tag] for name, tag in PGN_TAGS.items() if tags.get(tag, "").strip("?.")}
        game = SgfGame(rules, start, actions, root)
        reasons = (tags.get("Termination", ""), ending.partition(":")[0])
        # After a resignation the score on the board does not count.
        is_resigned = RESIGNATION in reasons
        # People may have gone on after a draw that nobody claimed.
        history = replay(game_of(rules), start, [one.move for one in moves], draws_end=False)
        score = None if is_resigned else history.score()
        if score is not None:  # the rules ended the game
            root["RE"] = result_text(score)
        else:
            winner = {"1-0": "B+", "0-1": "W+", "1/2-1/2": "0"}.get(tags.get("Result", "*"), "?")
            root["RE"] = f"{winner}R" if is_resigned and winner.endswith("+") else winner
        # A game that was read keeps its own values.
        root |= {name: tags[name] for name in ("RE", "KM", "RU") if name in tags}
        return write(game, moves, ending).decode()

    return GameFormat("SGF", (".sgf",), re.compile(r"\(\s*;"), written, partial(read_games, rules))
