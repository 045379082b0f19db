"""Training goes on after a restart as if nothing had happened."""

import dataclasses
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from training_runs import GAME, fill, games, stored, tensors, to_the_end, training

from azselfplay.host.exits import Fatal
from azselfplay.store.sqlite import Store
from bench.random_games import entry
from protocol.messages import MAX_RECORD
from trainer import checkpoint
from trainer.validation import HeldOut
from trainer.window import Window

SETTINGS: dict[str, dict[str, object]] = {
    "as published": {},
    "everything": {
        "ema": 0.9, "held_out": 0.1, "growth": True, "growth_min": 60, "cosine_steps": 8,
        "value_q_share": 0.3, "capped_value_weight": 0.25, "win_discount": 0.98, "surprise_share": 0.5,
        "heads": "ownership:0.5",
    },
}  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_resumed_training_makes_the_same_steps(tmp_path: Path, settings: dict[str, object]) -> None:
    """Ten steps with a stop and a restart after 5 give the same bits as ten without, in the network that is
    trained and in the one that plays, although games had left the window."""
    path = stored(tmp_path, games(60))
    straight, first = training(tmp_path / "a", **settings), training(tmp_path / "b", **settings)
    for one in (straight, first):
        fill(one, path, 60)
        for _ in range(5):
            one.make_step()
    first.save()
    resumed = fill(training(tmp_path / "b", seed=99, **settings), path, 60)
    for one in (straight, resumed):
        for _ in range(5):
            one.make_step()
    assert (resumed.step, resumed.budget.samples) == (10, 320)
    expected = tensors(straight)
    for name, tensor in tensors(resumed).items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0)
    ours, theirs = resumed._train_step.network.state_dict(), straight._train_step.network.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in expected.items()) != ("ema" in settings)
    assert resumed.held_out() == straight.held_out()


def test_a_rate_that_falls_with_time_goes_on_falling_after_a_restart(tmp_path: Path) -> None:
    """The minutes of earlier trainers count; those between stop and restart do not."""
    path = stored(tmp_path, games(60))
    first = training(tmp_path / "a", cosine_minutes=60.0, lr=1e-3, warmup_steps=0)
    first._began = time.monotonic() - 60 * 60
    first.save()
    resumed = fill(training(tmp_path / "a", cosine_minutes=60.0, lr=1e-3, warmup_steps=0), path, 60)
    resumed.make_step()
    assert resumed._train_step.optimizer.param_groups[0]["lr"] == pytest.approx(1e-4)


def test_a_window_whose_games_the_store_no_longer_keeps_is_told(tmp_path: Path, caplog) -> None:
    path = stored(tmp_path, games(60))
    for keep, told in ((40, False), (10, True)):
        store = Store(path, GAME.name, keep)
        store.commit([])
        store.close()
        fill(training(tmp_path / "a"), path, 60)
        assert ("set a larger --keep-games" in caplog.text) == told


def test_an_optimizer_that_begins_in_mid_run_warms_up(tmp_path: Path) -> None:
    """Also with a restart within these steps."""
    path, rates = stored(tmp_path, games(60)), []
    for kind, steps in (("alphazero", 3), ("adamw", 2), ("adamw", 1)):
        one = training(tmp_path / "a", kind=kind, lr=1e-3, warmup_steps=4 if kind == "adamw" else 0)
        fill(one, path, 60)
        for _ in range(steps):
            one.make_step()
            rates.append(one._train_step.optimizer.param_groups[0]["lr"])
        one.save()
    assert rates == pytest.approx([1e-3] * 3 + [0.25e-3, 0.5e-3, 0.75e-3])


def test_average_may_be_taken_up_and_given_up_in_a_run(tmp_path: Path) -> None:
    """With `ema` set later, a run goes on from its weights; without it, from the trained weights."""
    path = stored(tmp_path, games(60))
    one = fill(training(tmp_path / "a"), path, 60)
    one.make_step()
    one.save()
    averaging = training(tmp_path / "a", ema=0.9)
    assert all(torch.equal(tensor, tensors(one)[name]) for name, tensor in tensors(averaging).items())
    fill(averaging, path, 60)
    averaging.make_step()
    averaging.save()
    without = tensors(training(tmp_path / "a"))
    trained = averaging._train_step.network.state_dict()
    assert all(torch.equal(tensor, trained[name]) for name, tensor in without.items())


def test_torn_checkpoint_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = fill(training(tmp_path / "a"), stored(tmp_path, games(40)), 40)
    for _ in range(2):
        one.make_step()
        one.save()
    newest = tmp_path / "a" / "step-000000002.state"
    whole = newest.read_bytes()
    for damaged in (whole[:-1], b"", whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]):
        newest.write_bytes(damaged)
        assert training(tmp_path / "a").step == 1
    newest.write_bytes(whole)
    newest.with_suffix(".safetensors").write_bytes(b"not these")
    assert training(tmp_path / "a").step == 1
    assert "skipped the checkpoint" in caplog.text


def test_a_run_that_begins_beside_damaged_checkpoints_keeps_its_own(tmp_path: Path) -> None:
    """The damaged ones have later steps and would be the newest for weeks. They stay under other names."""
    path, folder = stored(tmp_path, games(40)), tmp_path / "a"
    one = fill(training(folder), path, 40)
    for _ in range(5):
        one.make_step()
        one.save()
    damaged = sorted(folder.glob("*.state"))
    assert len(damaged) == 3
    for state in damaged:
        state.write_bytes(b"damaged")
    again = training(folder)
    assert again.step == 0
    fill(again, path, 40)
    for _ in range(2):
        again.make_step()
        again.save()
    assert training(folder).step == 2
    kept = sorted(state.name for state in folder.glob("*.state"))
    assert kept == ["step-000000001.state", "step-000000002.state"]
    assert len(list(folder.glob("*.state.skipped"))) == 3


def test_a_continued_run_has_the_present_weight_decay(tmp_path: Path) -> None:
    path = stored(tmp_path, games(40))
    one = fill(training(tmp_path / "a", weight_decay=0.01), path, 40)
    one.make_step()
    one.save()
    again = training(tmp_path / "a", weight_decay=0.5)
    assert again.step == 1
    assert [group["weight_decay"] for group in again._train_step.optimizer.param_groups] == [0.5, 0.0]


def test_a_second_checkpoint_of_a_step_that_fails_leaves_the_first(tmp_path, monkeypatch) -> None:
    """Weights were published in between, so the second one has another version."""
    path = stored(tmp_path, games(60))
    one = fill(training(tmp_path / "a"), path, 60)
    one.make_step()
    one.save()
    one.export_weights(0)
    write = checkpoint.write_atomically

    def full(path: Path, data: bytes) -> None:
        if path.suffix == ".state":
            raise OSError(28, "no space left on device")
        write(path, data)

    monkeypatch.setattr(checkpoint, "write_atomically", full)
    with pytest.raises(Fatal, match="cannot write the checkpoint"):
        one.save()
    assert training(tmp_path / "a").step == 1


def test_loss_that_is_no_number_ends_the_trainer(tmp_path: Path) -> None:
    """Diverged training ends with a message that says what to change, before weights are published."""
    one = training(tmp_path / "a")
    torch.nn.init.constant_(one._train_step.network.value.out.bias, float("nan"))
    with pytest.raises(Fatal, match=r"smaller --optimizer\.lr"):
        one.turn(games(55), 55, 400)
    with pytest.raises(Fatal, match="not finite"):
        one.export_weights(0)


def test_held_out_games_are_never_trained_on(tmp_path: Path) -> None:
    path = stored(tmp_path, games(400))
    shares = (("a", 0.25), ("b", 0.25), ("c", 0.0))
    one, again, none = (training(tmp_path / name, held_out=held, positions=5000) for name, held in shares)
    for each in (one, again, none):
        fill(each, path, 400)
    assert 60 < 400 - one.window.games < 140
    assert again.window.games == one.window.games
    assert (none.window.games, none.held_out()) == (400, None)
    first, second = one.held_out(), one.held_out()
    assert first is not None
    assert first == second
    for each in (one, again):
        each.make_step()
    expected = tensors(again)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in tensors(one).items())


def test_any_game_that_can_be_trained_on_can_be_held_out() -> None:
    """A record may have far more visited actions for each position than is usual in its game."""
    held_out = HeldOut(dataclasses.replace(GAME, mean_legal=8.0, max_legal=300), 0.5, positions=10**6)
    assert len(held_out.window.rings.visit_count) >= MAX_RECORD // 4


def test_a_window_that_is_full_of_fewer_positions_than_asked_for_is_trained_on(tmp_path: Path) -> None:
    """Its table of games may be full first, as with games of four moves."""
    one = training(tmp_path / "run", min_positions=150)
    one.window = Window(GAME, 200, plies_per_game=20.0)
    assert one.turn(games(10), 10, 100).waiting_for.endswith("positions before the first step")
    assert one.turn(games(10), 20, 200).step > 0
    assert one.window.positions < 150


def test_growing_window_draws_from_the_newest(tmp_path: Path) -> None:
    grown = {"growth": True, "growth_min": 50, "held_out": 0.0, "positions": 1000}
    one = training(tmp_path / "a", **grown)
    assert one.turn(games(100), 100, 400).window_positions == int(50 * (1 + 0.4 * (8**0.75 - 1) / 0.75))
    assert training(tmp_path / "b", **grown).turn(games(10), 10, 10**6).window_positions < 100


def test_versions_go_on_from_the_highest_known(tmp_path: Path) -> None:
    one = training(tmp_path / "a")
    assert one.export_weights(0)[0] == 1
    assert one.export_weights(7)[0] == 8
    one.save()
    assert training(tmp_path / "a").export_weights(3)[0] == 9


def test_published_weights_may_have_half_the_bytes_and_checkpoints_have_all(tmp_path: Path) -> None:
    whole, half = training(tmp_path / "a"), training(tmp_path / "b", half=True)
    assert len(half.export_weights(0)[2]) < 0.75 * len(whole.export_weights(0)[2])
    whole.save()
    half.save()
    (file, other) = (next((tmp_path / name).glob("*.safetensors")) for name in "ab")
    assert file.read_bytes() == other.read_bytes()


def test_games_that_are_left_out_of_training_do_not_come_back_into_the_window(tmp_path: Path) -> None:
    """After a restart the window is the same: such games are neither in it nor counted when it is filled."""
    records = games(60)
    entries = [dataclasses.replace(entry(one), is_old=at % 2 == 1) for at, one in enumerate(records)]
    store = Store(tmp_path / "games.db", GAME.name)
    store.commit(entries)
    store.close()
    before, after = training(tmp_path / "a"), training(tmp_path / "b")
    before.turn(records[::2], 60, 10**6)
    fill(after, tmp_path / "games.db", 60)
    played = [
        window.rings.action[np.arange(window.first_position, window.next_position) % window.capacity]
        for window in (before.window, after.window)
    ]
    assert len(played[0]) > 150
    np.testing.assert_array_equal(played[1], played[0])


def test_a_network_that_a_killed_trainer_left_goes_with_the_next_checkpoint(tmp_path: Path) -> None:
    one = training(tmp_path)
    assert to_the_end(one, games(30), 30).step > 0
    (tmp_path / "step-000000000.safetensors").write_bytes(b"without a state")
    one.save()
    assert [file.suffix for file in sorted(tmp_path.iterdir())] == [".safetensors", ".state"]
