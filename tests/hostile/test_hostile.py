"""A real azserver survives each attack, serves honest clients meanwhile, and keeps little memory for it.

Nothing here depends on the machine's speed.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest
from attacks import ATTACKS, HELD_MB, Attack
from target import Honest, Target

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

Scene = tuple[Target, Honest, float]
"""A target, an honest client, and the front's memory before all attacks, in MB."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("hostile")
    with Target(folder, clients=0) as target, closing(Honest(target.port)) as honest:
        honest.play()
        yield target, honest, target.memory().now


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_server_lives_and_serves_the_honest(scene: Scene, attack: Attack) -> None:
    """Games are played and stored during the attack and after it; what is acknowledged is stored."""
    target, honest, rested_mb = scene
    target.forget_peak()
    with closing(attack.begin(target)) as strokes:
        for _ in range(attack.strokes):
            next(strokes)
            assert target.is_alive(), target.log()
            honest.play()
        held = target.memory().peak - rested_mb
    honest.play()
    assert target.is_alive(), target.log()
    assert honest.stored <= target.stored_uids()
    assert held < HELD_MB
