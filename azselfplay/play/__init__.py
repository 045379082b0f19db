"""Players, engines, analysis, matches, ratings.

`azselfplay.play` is also the function that plays a game (`azselfplay.lab.api.play`). As soon as anything in
this subpackage is imported, Python sets the attribute `azselfplay.play` to the subpackage, so the subpackage
itself must be callable.
"""

import importlib
import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        # Imported by name: this is the only place where this subpackage uses the one above it.
        return importlib.import_module("azselfplay.lab.api").play(*arguments, **options)


# A module can be called if its class defines `__call__`.
sys.modules[__name__].__class__ = _CallablePackage
