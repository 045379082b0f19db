"""Weights files: they are read back as they were written, and unusable ones are refused with a reason."""

import dataclasses
import errno
import hashlib
import json
import re
import struct
from collections.abc import Callable
from operator import methodcaller
from pathlib import Path

import pytest
import safetensors.torch
import torch
from net_shapes import CHESS_SHAPE, FOUR_SHAPE, THREE_SHAPE

from azselfplay.games.spec import Game
from net import create
from net.architectures.network import Network, build
from net.architectures.registry import name_of, named
from net.architectures.residual import PRESETS, Residual
from net.weights import BadWeights, WeightsMeta, from_bytes, load, read_meta, save, to_bytes

SIZES = Residual(1, 8, squeeze_excitation=True, squeeze_channels=4, value_head="wdl")
META = WeightsMeta("four_shape", 2, SIZES, step=70, version=3)
Tensors = dict[str, torch.Tensor]


def a_network() -> Network:
    torch.manual_seed(5)
    return build(SIZES, FOUR_SHAPE, 2)


WHOLE = to_bytes(a_network(), META)


def changed(edit: Callable[[Tensors], object], header: Callable[[dict[str, str]], object] = len) -> bytes:
    """Return a weights file with its tensors or metadata changed."""
    tensors = safetensors.torch.load(WHOLE)
    (length,) = struct.unpack_from("<Q", WHOLE)
    metadata = json.loads(WHOLE[8 : 8 + length])["__metadata__"]
    edit(tensors)
    header(metadata)
    return safetensors.torch.save(tensors, metadata)


def refusal(data: bytes) -> str:
    with pytest.raises(BadWeights) as error:
        from_bytes(data, game=FOUR_SHAPE, history=2)
    return str(error.value)


def test_weights_come_back_as_they_were_saved(tmp_path: Path) -> None:
    """The network is in eval mode, and the file is alone in its folder."""
    network = a_network()
    digest = save(tmp_path / "net.safetensors", network, META)
    loaded, meta = load(tmp_path / "net.safetensors", game=FOUR_SHAPE, history=2)
    assert meta == META
    assert digest == hashlib.sha256((tmp_path / "net.safetensors").read_bytes()).hexdigest()
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name
    assert not any(module.training for module in loaded.modules())
    assert [path.name for path in tmp_path.iterdir()] == ["net.safetensors"]


def test_weights_in_half_the_bytes_differ_by_the_rounding_of_float16() -> None:
    """A tensor whose numbers do not fit stays as it is."""
    network = a_network()
    with torch.no_grad():
        network.start.conv.weight[0, 0, 0, 0] = 1e6
    data = to_bytes(network, META, half=True)
    assert len(data) < 0.75 * len(to_bytes(network, META))
    loaded = from_bytes(data, game=FOUR_SHAPE, history=2)[0].state_dict()
    for name, tensor in network.state_dict().items():
        assert loaded[name].dtype == tensor.dtype
        torch.testing.assert_close(loaded[name], tensor, rtol=2**-11, atol=1e-7)
    assert torch.equal(loaded["start.conv.weight"], network.start.conv.weight)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadWeights, match="cannot be read"):
        load(tmp_path / "none", game=FOUR_SHAPE, history=2)


def test_a_disk_that_fails_says_nothing_about_the_file(tmp_path, monkeypatch) -> None:
    """Otherwise a good network would be refused for ever, and its file deleted."""

    def fail(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(OSError, match="Input/output"):
        load(tmp_path / "good", game=FOUR_SHAPE, history=2)


def test_a_file_that_the_disk_changed_is_refused(tmp_path: Path) -> None:
    """The flipped bit changes a number of the last tensor into another valid one."""
    damaged = bytearray(WHOLE)
    damaged[-4] ^= 0x10
    (tmp_path / "net").write_bytes(damaged)
    with pytest.raises(BadWeights, match="is damaged: its sha256 is"):
        load(tmp_path / "net", game=FOUR_SHAPE, history=2, sha256=hashlib.sha256(WHOLE).digest())


@pytest.mark.parametrize(
    ("game", "history", "says"),
    [
        (CHESS_SHAPE, 2, "for the game four_shape, this run plays chess_shape"),
        (FOUR_SHAPE, 8, "history of 2 positions, this run sends 8"),
    ],
)
def test_weights_of_another_game_or_history_are_refused(game: Game, history: int, says: str) -> None:
    with pytest.raises(BadWeights, match=says):
        from_bytes(WHOLE, game=game, history=history)


def with_metadata(name: str, value: object) -> bytes:
    """Return a weights file whose metadata hold a value that need not be text."""
    (length,) = struct.unpack_from("<Q", WHOLE)
    header = json.loads(WHOLE[8 : 8 + length])
    header["__metadata__"][name] = value
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + WHOLE[8 + length :]


CONV = "blocks.0.first.conv.weight"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        *((data, "not a") for data in (b"", b"PK\x03\x04 a pickle in a zip file", b"\xff" * 64, bytes(16))),
        *((WHOLE[:kept], "fetch it again") for kept in (4, 40, 1000, -1)),
        (
            with_metadata("architecture", SIZES.to_json().replace('"blocks": 1', '"blocks": 0')),
            "unknown architecture",
        ),
        (with_metadata("architecture", "[1, 2"), "unknown architecture"),
        # Python's JSON reader accepts infinity; found by tests/faults/fuzz.py.
        *((with_metadata(name, float("inf")), "malformed") for name in ("history", "step", "version")),
        *((with_metadata("history", value), "malformed") for value in ("-1", "0", "1000000000")),
        *((with_metadata("game", value), "malformed") for value in (7, None)),
        (with_metadata("step", "-1"), "malformed"),
        *(
            (changed(len, methodcaller("pop", name)), "metadata missing")
            for name in ("history", "step", "version", "game")
        ),
        (safetensors.torch.save({"x": torch.zeros(2)}), "not a weights file of this program"),
        (changed(lambda tensors: tensors.pop(CONV)), f"missing, the first is {CONV}"),
        (changed(lambda tensors: tensors.update(extra=torch.zeros(1))), "the first is extra"),
        (changed(lambda tensors: tensors.update({CONV: torch.zeros(2)})), f"{CONV} has the shape [2]"),
        (changed(lambda tensors: tensors.update({CONV: tensors[CONV].double()})), f"{CONV} holds float64"),
        (with_metadata("architecture", named("tf2x16").to_json()), "of another network"),
        (changed(lambda tensors: tensors["start.norm.running_var"].fill_(-1)), "variance"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_usable_file_is_refused_with_the_reason(data: bytes, says: str) -> None:
    assert says in refusal(data)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    assert "not finite" in refusal(
        changed(lambda tensors: tensors["value.out.weight"].view(-1)[1:2].fill_(number))
    )


@pytest.mark.parametrize(
    ("name", "sizes", "like"),
    [
        ("4x64", (4, 64, False, "wdl"), "small"),
        ("6x96se", (6, 96, True, "wdl"), "small"),
        ("1x8tanh", (1, 8, False, "tanh"), "tiny"),
        ("20x256se", (20, 256, True, "wdl"), "medium"),
    ],
)
def test_sizes_are_a_name(name: str, sizes: tuple[int, int, bool, str], like: str) -> None:
    """What the name leaves open is taken from the preset next in size; presets can be written as sizes,
    too."""
    blocks, channels, se, head = sizes
    assert named(name) == dataclasses.replace(
        PRESETS[like], blocks=blocks, channels=channels, squeeze_excitation=se, value_head=head
    )
    assert named(name_of(named(name))) == named(name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("smal", "no network 'smal' (the nearest name is small)"),
        ("huge", "tiny, small, medium, alphazero"),
        ("", "BLOCKSxCHANNELS"),
        ("6x64es", "`se`"),
        ("0x64", "1 to 100 blocks of 1 to 2048"),
        ("6x4096", "1 to 100 blocks of 1 to 2048"),
        ("6x64 ", "BLOCKSxCHANNELS"),
        ("tf-smal", "nearest name is tf-small"),
        ("tf0x96", "1 to 100 blocks of 1 to 2048"),
        ("tf7x96se", "or tfBLOCKSxWIDTH"),
    ],
)
def test_a_name_of_no_network_is_explained(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        named(name)


def test_created_weights_depend_on_the_seed_and_on_nothing_else(tmp_path: Path) -> None:
    arguments = ["--game", "tic_tac_toe", "--preset", "tiny", "--out"]
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert create.main([*arguments, str(tmp_path / name), "--seed", seed]) == 0
        torch.rand(3)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c
    assert dataclasses.replace(read_meta(a), architecture=SIZES) == WeightsMeta("tic_tac_toe", 1, SIZES)


def test_an_untrained_network_answers_near_uniform() -> None:
    torch.manual_seed(0)
    network = build(PRESETS["small"], THREE_SHAPE, 1).eval()
    with torch.no_grad():
        policy, value = network(torch.rand(16, 2, 3, 3).round())
    assert (policy.softmax(1) - 1 / 9).abs().max() < 0.05
    assert (value.softmax(1) - 1 / 3).abs().max() < 0.05
