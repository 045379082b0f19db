"""The help text of each setting: the docstring below its field.

tyro finds these by itself, but keeps the line breaks of the source, which are wrong for a terminal.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import types
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_origin, get_type_hints

from protocol.settings import bare

if TYPE_CHECKING:
    from tyro.constructors import StructConstructorSpec, StructTypeInfo

_METAVARS = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}
"""tyro's names for these types."""


@cache
def field_docstrings(config_class: type) -> dict[str, str]:
    """Return the text below each field, from the class and its base classes, on one line."""
    found: dict[str, str] = {}
    for one in reversed(config_class.__mro__):
        if not dataclasses.is_dataclass(one):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0].body  # type: ignore[attr-defined]
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                target, value = field.target, text.value
                if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                    found[target.id] = " ".join(str(value.value).split())
    return found


def settings_rule(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Tell tyro how to build a dataclass of settings. Texts are read only for `--help`."""
    from tyro.constructors import StructConstructorSpec, StructFieldSpec

    if not dataclasses.is_dataclass(info.type):
        return None
    settings = info.type
    hints = get_type_hints(settings, include_extras=True)
    fields = tuple(
        StructFieldSpec(
            field.name,
            _without_none(hints[field.name]),
            getattr(info.default, field.name),
            partial(_help_text, settings, field.name),
        )
        for field in dataclasses.fields(settings)
    )
    return StructConstructorSpec(instantiate=settings, fields=fields)


def _help_text(settings: type, field: str) -> str:
    return field_docstrings(settings).get(field, "")


def _without_none(kind: Any) -> Any:
    """Return the type without None: `Path | None` is shown as PATH, and the text explains the default."""
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    import tyro

    return Annotated[kind, tyro.conf.arg(metavar=_METAVARS.get(bare(kind)[0], ""))]
