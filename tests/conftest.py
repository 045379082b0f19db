"""Sets paths, the examples that hypothesis tries, and log and floating-point mode after each test, and runs
`async def` tests. Nothing is patched here.

Profile `quick`, the default, tries the same examples every time, from one seed. Profile `nightly`
(`--hypothesis-profile nightly`) tries ten times as many, from another seed each time. The seed is printed;
`--hypothesis-seed N` runs the same examples again.
"""

import asyncio
import inspect
import logging
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


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print the seed, even with `-q`."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        profile, seed = settings.get_current_profile_name(), session.config.getoption(SEED_OPTION)
        reporter.write_line(f"hypothesis: {PROFILE_OPTION} {profile} {SEED_OPTION} {seed}")


@pytest.fixture(autouse=True)
def floating_point_mode() -> Iterator[None]:
    """Undo `torch.set_flush_denormal`, which a trainer or a network sets in the test's own process. It makes
    tiny numbers 0 in this thread, and hypothesis, which draws such numbers, then refuses to work."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Undo `logs.set_up`, which a command calls in the test's own process. pytest's own handlers are the same
    ones before a test and after it."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
