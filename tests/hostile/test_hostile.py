"""A real azserver survives each attack, serves honest clients meanwhile, and keeps little memory for it.

Nothing here depends on the machine's speed: `python -m tests.hostile` measures that.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from attacks import ATTACKS, Attack
from target import Honest, Target

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]


class Scene:
    """A target with an honest client; replaced after a test that failed."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self.is_good = False
        self.rested_mb = 0.0
        """Memory of the front before all attacks."""
        self._factory = factory
        self._stack = ExitStack()
        self._now: tuple[Target, Honest] | None = None

    def set_up(self) -> tuple[Target, Honest]:
        if self._now is None or not self.is_good:
            self.close()
            target = self._stack.enter_context(Target(self._factory.mktemp("hostile"), clients=0))
            honest = Honest(target.port)
            self._stack.callback(honest.close)
            self._now = target, honest
            honest.play()
            self.rested_mb = target.memory().now
        self.is_good = False
        return self._now

    def close(self) -> None:
        self._stack.close()
        self._now = None


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory)
    yield made
    made.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_server_lives_and_serves_the_honest(scene: Scene, attack: Attack) -> None:
    """Games are played and stored during the attack and after it; what is acknowledged is stored."""
    target, honest = scene.set_up()
    target.forget_peak()
    with closing(attack.begin(target)) as strokes:
        for _ in range(attack.strokes):
            next(strokes)
            assert target.is_alive(), target.log()
            honest.play()
        held = target.memory().peak - scene.rested_mb
    honest.play()
    assert target.is_alive(), target.log()
    assert honest.stored <= target.stored_uids()
    assert held < attack.held_mb
    scene.is_good = True
