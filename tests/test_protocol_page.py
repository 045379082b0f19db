"""docs/protocol.md is true and complete: it has every code, message and figure, and its examples are
right."""

import re
from pathlib import Path

import numpy as np
import pytest
from foreign_client import mask_of, pack

from azselfplay.games import GAME_NAMES, get_game
from azselfplay.games.chess.board import DIRECTIONS, KNIGHT_JUMPS
from azselfplay.games.packed import LegalMasks
from azselfplay.store.sqlite import Totals
from net.architectures.registry import TRAINING_HEADS
from protocol.errors import Code
from protocol.messages import PROTOCOL_VERSION, TAGS, Message
from protocol.records import IMPROVED_POLICY, POLICY_TARGET, SHARES
from server.metrics import Figures as ServerFigures
from trainer.figures import Figures as TrainerFigures

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "protocol.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"## {title}")[1].split("\n## ")[0]


def test_every_code_and_the_version_are_on_the_page() -> None:
    assert f"Protocol version: **{PROTOCOL_VERSION}**" in PAGE
    assert [code for code in Code if f"`{code}`" not in PAGE] == []


def test_every_message_is_on_the_page() -> None:
    kinds: tuple[type[Message], ...] = tuple(TAGS.values())
    tags = [str(kind.__struct_config__.tag) for kind in kinds]
    assert [tag for tag in tags if f"**{tag}**" not in PAGE and f'"type": "{tag}"' not in PAGE] == []


def test_every_figure_is_on_the_page() -> None:
    """The losses of auxiliary heads share one entry."""
    text = section("Status")
    figures = [*ServerFigures(0.0).as_dict(1.0), *TrainerFigures(0.0).as_dict(Totals(), 1.0)]
    names = [re.sub(rf"({'|'.join(TRAINING_HEADS)})_loss$", "NAME_loss", name) for name in figures]
    assert [name for name in names if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", GAME_NAMES)
def test_every_end_of_a_game_and_the_size_of_a_position_are_on_the_page(name: str) -> None:
    game = get_game(name)
    assert [reason.name for reason in game.end_reasons[1:] if f"`{reason.name}`" not in PAGE] == []
    words = re.search(rf"\| `{name}` .* \| (\d+) x history(?: \+ (\d+))? \|", PAGE)
    assert words is not None
    for history in (1, 8):
        assert int(words[1]) * history + int(words[2] or 0) == game.feature_words(history)


def test_the_sum_of_shares_and_the_flags_of_improved_policies_are_on_the_page() -> None:
    text = section("Games")
    assert f"exactly **{SHARES}**" in text
    assert f"{POLICY_TARGET | IMPROVED_POLICY} when they are shares of an improved policy" in text


def test_the_packed_example_is_what_the_game_and_a_strange_client_write() -> None:
    game = get_game("tic_tac_toe")
    positions = np.zeros((3, game.state_words), np.uint64)
    for ply, action in enumerate((4, 0)):
        game.rules.play(positions[ply], action, positions[ply + 1])
    words = np.zeros(game.feature_words(2), np.uint64)
    game.rules.encode(positions, 3, 2, words)
    boards = [[0] * 9, [0, 0, 0, 0, 1, 0, 0, 0, 0], [-1, 0, 0, 0, 1, 0, 0, 0, 0]]
    assert pack(boards, 1, 2) == words.tobytes()
    legal = np.zeros(9, np.uint16)
    count = game.rules.legal_actions(positions, 3, legal)
    for name, frame in (
        ("features", words),
        ("counts", np.array([count], np.uint16)),
        ("actions", legal[:count]),
    ):
        assert f"    {name:<9} {frame.tobytes().hex(' ', -frame.itemsize)}\n" in PAGE


def test_the_mask_on_the_page_is_what_we_and_a_strange_client_write() -> None:
    """The actions are 0, 9 and 25 of 26."""
    ours = LegalMasks(4).masks(np.array([3], np.uint16), np.array([25, 0, 9], np.uint16)).tobytes()
    assert ours == mask_of([25, 0, 9], 4)
    assert f"`{ours.hex(' ')}`" in PAGE


@pytest.mark.parametrize("name", GAME_NAMES)
def test_the_page_says_how_the_legal_actions_of_a_game_travel(name: str) -> None:
    how = "mask" if get_game(name).legal_as_mask else "list"
    assert re.search(rf"\| `{name}` .* {how} \|\n", PAGE)


@pytest.mark.parametrize(
    ("name", "position", "move", "action"),
    [
        ("shogi", "", "7g7f", 60),
        ("shogi", "4k4/7r1/9/9/9/9/9/1B7/4K4 b - 1", "8h2b+", 6469),
        ("shogi", "4k4/9/9/9/9/9/9/9/4K4 w p 2", "P*5e", 10732),
        ("shogi", "lnsgkgsnl/1r5b1/ppppppppp/9/9/2P6/PP1PPPPPP/1B5R1/LNSGKGSNL w - 2", "8b3b", 4228),
        ("chess", "", "e2e4", 76),
        ("chess", "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1", "g8f6", 4038),
        ("chess", "r3k3/1P6/8/8/8/8/8/4K3 w - - 0 1", "b7a8n", 4145),
        ("chess", "r3k3/1P6/8/8/8/8/8/4K3 w - - 0 1", "b7a8q", 3185),
        ("chess", "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", "e8g8", 964),
    ],
)
def test_the_moves_on_the_page_have_these_numbers(name: str, position: str, move: str, action: int) -> None:
    notation = get_game(name).notation
    assert notation.action_from_text(notation.state_from_text(position), move) == action
    assert f"**{action}**" in section("Leaves")


def test_the_planes_of_moves_are_in_the_order_of_the_page() -> None:
    jumps = " ".join(f"({files},{ranks})" for ranks, files in KNIGHT_JUMPS)
    assert f"(files, ranks): {jumps} |" in PAGE
    letters = {(0, 1): "N", (1, 0): "E", (0, -1): "S", (-1, 0): "W"}
    names = [letters.get((0, ranks), "") + letters.get((files, 0), "") for ranks, files in DIRECTIONS]
    assert f"direction {', '.join(f'{at} {name}' for at, name in enumerate(names))}." in PAGE
