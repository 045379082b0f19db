"""Shared by all tests. Nothing is patched here; it sets paths, the examples that hypothesis tries, and the
processor's floating-point mode after each test.

Profile `quick`, the default: the same examples every time, from one seed. Profile `nightly`
(`--hypothesis-profile nightly`): ten times as many, from another seed each time. The seed is printed;
`--hypothesis-seed N` runs the same examples again.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from longest_first import rank

ROOT = Path(__file__).resolve().parent
for folder in (ROOT, *(path for path in ROOT.iterdir() if path.is_dir())):
    sys.path.append(str(folder))

QUICK_SEED = 1_234_567
PROFILE_OPTION, SEED_OPTION = "--hypothesis-profile", "--hypothesis-seed"

settings.register_profile("quick", deadline=None, max_examples=100, database=None)
settings.register_profile("nightly", deadline=None, max_examples=1000)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose profile and seed before hypothesis' own plugin reads them."""
    profile = config.getoption(PROFILE_OPTION) or "quick"
    settings.load_profile(profile)
    if config.getoption(SEED_OPTION) is None:
        seed = QUICK_SEED if profile == "quick" else secrets.randbelow(1 << 32)
        config.option.hypothesis_seed = str(seed)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow files first; the order within a file stays."""
    items.sort(key=lambda item: rank(item.path.name))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print the seed, also with `-q`."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        profile, seed = settings.get_current_profile_name(), session.config.getoption(SEED_OPTION)
        reporter.write_line(f"hypothesis: {PROFILE_OPTION} {profile} {SEED_OPTION} {seed}")


@pytest.fixture(autouse=True)
def floating_point_mode() -> Iterator[None]:
    """A trainer or a network that ran in the test's own process lets tiny numbers become 0 in this thread
    (`torch.set_flush_denormal`), and hypothesis, which draws such numbers, refuses to work after that."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)
