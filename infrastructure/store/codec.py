"""How frozen values become small JSON objects and back: field by field, defaults left out."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from pydantic.alias_generators import to_camel

T = TypeVar("T")

_ABSENT = object()
_EMPTY: dict[str, Any] = {}


_LAYOUTS: dict[type, tuple[tuple[str, str, Any], ...]] = {}


def _layout(kind: type) -> tuple[tuple[str, str, Any], ...]:
    """Each field as (name, stored key, default); content is stored elsewhere."""
    if kind not in _LAYOUTS:
        _LAYOUTS[kind] = tuple(
            (one.name, to_camel(one.name), one.default if one.default is not MISSING else _ABSENT)
            for one in fields(kind)
            if one.name != "content"
        )
    return _LAYOUTS[kind]


def pack(value: Any, omit: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The value's fields that differ from their defaults, under camelCase keys."""
    packed = {}
    for name, key, default in _layout(type(value)):
        held = getattr(value, name)
        if held in (default, _EMPTY) or name in omit:
            continue
        packed[key] = pack(held) if hasattr(held, "__dataclass_fields__") else held
    return packed


def unpack(kind: type[T], packed: Mapping[str, Any], **given: Any) -> T:
    """The value that `pack` packed; `given` are the fields that are kept elsewhere. No rule is run."""
    for name, key, _ in _layout(kind):
        if key in packed:
            held = packed[key]
            given[name] = frozen(held) if type(held) is list else held
    return kind(**given)


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    return tuple(frozen(item) for item in value) if isinstance(value, list) else value
