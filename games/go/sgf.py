"""Games of Go in SGF, read and written with sgfmill: the main line, its start position and its rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sgfmill import sgf

from games.game_history import GameHistory
from games.go import game_of
from games.go.board import Board
from games.go.kernels import kernels_of
from games.go.notation import STONES, Text
from games.go.rules import GoRules
from games.go.vertices import action_of, vertex_of
from games.knowledge import PgnWriter, WrittenMove
from games.spec import RESIGNATION

COLOURS = "bw"
"""sgfmill's names of the first player and the second."""


@dataclass(frozen=True)
class SgfGame:
    """A game as it is in a file."""

    rules: GoRules
    start: str = ""
    """In the game's notation; "" is the empty board with Black to move."""
    actions: tuple[int, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)
    """Further properties of the root, such as PB, PW, RE, DT."""
    comments: dict[int, str] = field(default_factory=dict)
    """Comments by the number of moves before them. Only written, not read."""
    others: dict[int, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    """(action, comment) of moves that could have been played instead, by the number of moves before them.
    Only written (as variations), not read."""

    def game_history(self) -> GameHistory:
        """Replay the game. Raises ValueError naming the first move that is not legal."""
        game_history = GameHistory(game_of(self.rules), self.start)
        for number, action in enumerate(self.actions, 1):
            try:
                game_history.play(action)
            except ValueError as error:
                vertex = vertex_of(self.rules.size, action)
                raise ValueError(f"move {number} ({vertex}): {error}") from error
        return game_history


def result_text(score: float) -> str:
    """A score (Black's points minus White's and the komi), as SGF and GTP write results: B+3.5, W+R, 0."""
    return "0" if score == 0 else f"{'B' if score > 0 else 'W'}+{abs(score):g}"


# ---- Reading ------------------------------------------------------------------------------------

TAGS = ("PB", "PW", "RE", "DT", "EV", "GN")
"""Properties that `read` keeps."""
RULES_NAMES = {("positional", True): "Tromp-Taylor", ("situational", True): "NZ"}
"""What RU says, by (superko, suicide); other rules have no name there."""


def read(data: bytes, usual: GoRules | None = None) -> SgfGame:
    """The main line of the first game in a file. Rules that the file does not give are as in `usual` (superko
    and suicide, and the komi if it has none).

    Raises ValueError for what cannot be read: not SGF, an unavailable board or komi, stones set after the
    first node, two moves of one side in a row. `SgfGame.game_history` checks whether the moves are legal.
    """
    try:
        tree = sgf.Sgf_game.from_bytes(data)
        size, root = tree.get_size(), tree.get_root()
        komi = float(tree.get_komi()) if root.has_property("KM") else None
        nodes = [(node, node.get_move()) for node in tree.get_main_sequence()]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no SGF of Go that can be read: {error}") from error
    rules = replace(usual or GoRules(), size=size)
    if komi is not None:
        rules = replace(rules, komi=komi)
    moves = [(COLOURS.index(colour), point) for _, (colour, point) in nodes if colour is not None]
    for number, (node, _) in enumerate(nodes):
        if number > 0 and node.has_setup_stones():
            raise ValueError("stones are set up in the middle of the game, which is not supported")
    start, mover = _start(root, rules, moves[0][0] if moves else None)
    for number, (side, _) in enumerate(moves):
        if side != (mover + number) % 2:
            raise ValueError(f"move {number + 1} is by the same side as the move before")
    actions = [size * size if point is None else point[0] * size + point[1] for _, point in moves]
    tags = {name: str(root.get(name)) for name in TAGS if root.has_property(name)}
    return SgfGame(rules, start, tuple(actions), tags)


def _start(root: sgf.Tree_node, rules: GoRules, first_to_move: int | None) -> tuple[str, int]:
    """(start position, side to move first). Raises ValueError for stones that cannot stand there."""
    black, white, _ = root.get_setup_stones()
    mover = 1 if black and not white else 0  # handicap stones are Black's move
    if first_to_move is not None:
        mover = first_to_move
    elif root.has_property("PL"):
        mover = COLOURS.index(root.get("PL"))
    if not black and not white and mover == 0:
        return "", 0
    text, letters = Text(Board(rules.size), kernels_of(rules)), ["."] * rules.size**2
    for stones, letter in zip((black, white), STONES, strict=True):
        for row, col in stones:
            letters[row * rules.size + col] = letter
    return text.text_of(text.state_of("".join(letters), mover)), mover


# ---- Writing ------------------------------------------------------------------------------------


def write(game: SgfGame) -> bytes:
    """The game as an SGF file. ValueError if its start position cannot be read."""
    rules, size = game.rules, game.rules.size
    text = Text(Board(size), kernels_of(rules))
    start = text.state_from(game.start)
    tree = sgf.Sgf_game(size=size)
    root = tree.get_root()
    root.set("KM", rules.komi)
    if name := RULES_NAMES.get((rules.superko, rules.suicide)):
        root.set("RU", name)
    for name, value in game.tags.items():
        root.set(name, value)
    mover = int(text.kernels.side_to_move(start))
    if game.start:
        rows = list(reversed(text.rows(start)))
        points = [(row, col) for row in range(size) for col in range(size)]
        root.set_setup_stones(*([at for at in points if rows[at[0]][at[1]] == stone] for stone in STONES))
        root.set("PL", COLOURS[mover])

    def point_of(action: int) -> tuple[int, int] | None:
        return None if action == size * size else divmod(action, size)

    for number, action in enumerate(game.actions):
        tree.extend_main_sequence().set_move(COLOURS[(mover + number) % 2], point_of(action))
    for number, node in enumerate(tree.get_main_sequence()):
        _note(node, game.comments.get(number, ""))
        for action, comment in game.others.get(number, ()):
            other = node.new_child()  # after the main line, which is there already
            other.set_move(COLOURS[(mover + number) % 2], point_of(action))
            _note(other, comment)
    data: bytes = tree.serialise()
    return data


def _note(node: sgf.Tree_node, comment: str) -> None:
    if comment:
        node.set("C", comment)


def sgf_writer(rules: GoRules) -> PgnWriter:
    """A writer of games under these rules as SGF, from the tags of PGN, whose White is the first player."""

    def written(tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str) -> str:
        actions = tuple(action_of(rules.size, one.move) for one in moves)
        comments = {number: one.comment for number, one in enumerate(moves, 1)}
        others = {
            number: tuple((action_of(rules.size, move), comment) for move, comment in one.others)
            for number, one in enumerate(moves)
        }
        if ending:
            comments[len(moves)] = "\n".join(filter(None, [comments.get(len(moves), ""), ending]))
        names = {"PB": "White", "PW": "Black", "EV": "Event", "PC": "Site", "DT": "Date"}
        root = {name: tags[tag] for name, tag in names.items() if tags.get(tag, "").strip("?.")}
        game = SgfGame(rules, start, actions, root, comments, others)
        reasons = (tags.get("Termination", ""), ending.partition(":")[0])
        root["RE"] = _result(game, tags.get("Result", "*"), RESIGNATION in reasons)
        return write(game).decode()

    return written


def _result(game: SgfGame, result: str, is_resigned: bool) -> str:
    """The property RE: by points if the rules ended the game, else from PGN's `result`."""
    score = None if is_resigned else game.game_history().score()
    if score is not None:
        return result_text(score)
    winner = {"1-0": "B+", "0-1": "W+", "1/2-1/2": "0"}.get(result, "?")
    return f"{winner}R" if is_resigned and winner.endswith("+") else winner
