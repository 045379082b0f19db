"""Players, engines, analysis, matches, ratings.

`azselfplay.play` is also the function that plays a game (`azselfplay.lab.api.play`): Python sets a package's
attribute to the room of that name as soon as anything in it is imported, so the room can be called.
"""

import importlib
import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        # By name: this room knows nothing of the one above it, but for this.
        return importlib.import_module("azselfplay.lab.api").play(*arguments, **options)


# A module is called like any object, by its class.
sys.modules[__name__].__class__ = _Room
