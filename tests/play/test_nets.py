"""Networks are loaded only from files whose contents are what their names say."""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from in_process import ends

from azselfplay.games import get_game
from azselfplay.host.exits import Exit
from azselfplay.link.weights_files import read_weights, short_hash
from azselfplay.play.nets import load_net, meta_of
from net.architectures.network import build
from net.architectures.registry import named
from net.inference import Inference
from net.planes import PlaneShape, features_tensor, unpack
from net.weights import WeightsMeta, save


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Save an untrained network, with its hash in the name."""
    game, architecture = get_game("tic_tac_toe"), named("1x8")
    module = build(architecture, game, game.history)
    digits = save(tmp_path / "new", module, WeightsMeta(game.name, game.history, architecture))
    return (tmp_path / "new").rename(tmp_path / f"000038-{short_hash(digits)}.safetensors")


def change_last_number(file: Path) -> None:
    """Replace it by 1, which is as plausible, so that only the hash shows the change."""
    file.write_bytes(file.read_bytes()[:-4] + struct.pack("<f", 1.0))


@pytest.mark.parametrize("load", [load_net, meta_of, read_weights])
def test_a_file_that_changed_after_it_was_named_is_refused(load, file: Path) -> None:
    """A link is followed."""
    file.with_name("newest").symlink_to(file.name)
    change_last_number(file)
    for path in (file, file.with_name("newest")):
        with ends(Exit.BAD_DATA, "is damaged: its sha256 begins with"):
            load(path)


def test_a_network_with_that_head_tells_who_will_own_the_cells(tmp_path: Path) -> None:
    """It tells what its head says in training; a network without the head tells nothing."""
    game = get_game("go_3x3")
    module = build(named("1x8").with_heads(["ownership"]), game, 1).eval()
    save(tmp_path / "new", module, WeightsMeta(game.name, 1, module.architecture))
    loaded = load_net(tmp_path / "new")
    words = np.zeros((2, game.feature_words(1)), np.uint64)
    words[:, 0] = 5, 16
    assert loaded.ownership is not None
    planes = unpack(features_tensor(words), PlaneShape.of(game, 1))
    wanted = 2 * module.all_heads(planes).training["ownership"].sigmoid() - 1
    np.testing.assert_allclose(loaded.ownership(words), wanted.detach(), atol=1e-6)
    loaded.close()
    plain = load_net(None, game.name, preset="1x8")
    assert plain.ownership is None
    plain.close()


def test_a_whole_file_is_loaded_and_a_name_without_a_hash_says_nothing(file: Path) -> None:
    load_net(file).close()
    change_last_number(file)
    load_net(file.rename(file.with_name("my-net"))).close()


def test_a_device_without_memory_left_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB")

    monkeypatch.setattr(Inference, "use", full)
    with ends(Exit.TRY_AGAIN, "has no memory left"):
        load_net(None, "tic_tac_toe", preset="1x8")
