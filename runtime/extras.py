"""Which packages come with which extra of `pip install 'azselfplay[EXTRA]'`, and what to say if they are
missing.

A client that uses the server's evaluators needs none of them (docs/install.md).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from runtime.exits import Exit, Fatal

EXTRAS = {
    "train": (
        *("apsw", "chess", "matplotlib", "nacl", "rich"),
        *("sgfmill", "tensorboard", "torch", "zstandard"),
    ),
    "web": ("aiohttp",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
}
"""Names of the packages to import, by the extra of pyproject.toml that lists them."""


def extra_of(package: str) -> str | None:
    """Return the extra that contains `package`; None if no extra does."""
    return next((extra for extra, packages in EXTRAS.items() if package in packages), None)


def is_installed(package: str) -> bool:
    """Return whether `package` can be imported. It is not imported, so this takes a millisecond."""
    return importlib.util.find_spec(package) is not None


def how_to_install(what: str, packages: Sequence[str], extra: str) -> str:
    """Return the sentence for a person who asked for `what` without these packages."""
    return (
        f"{what} needs packages that are not installed ({', '.join(packages)}): "
        f"pip install 'azselfplay[{extra}]'"
    )


def require(extra: str, what: str) -> None:
    """Raise Fatal(CONFIG) naming the missing packages of `extra`, if there are any."""
    missing = [package for package in EXTRAS[extra] if not is_installed(package)]
    if missing:
        raise Fatal(how_to_install(what, missing, extra), Exit.CONFIG)
