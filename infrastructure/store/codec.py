"""How frozen values become small JSON objects and back: field by field, defaults left out."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from operator import attrgetter
from typing import Any, Final, TypeVar

from pydantic.alias_generators import to_camel

T = TypeVar("T")

_ABSENT = object()
_CONTENT: Final = frozenset(("content",))
"""Content is stored elsewhere."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The fields of a class that are packed, in their order."""

    names: tuple[str, ...]
    keys: tuple[str, ...]
    defaults: tuple[Any, ...]
    values: Callable[[Any], tuple[Any, ...]]
    """Gives all of a value's fields at once, which is quicker than one by one."""


_LAYOUTS: dict[tuple[type, frozenset[str]], _Layout] = {}


def _layout(kind: type, omit: frozenset[str]) -> _Layout:
    if (kind, omit) not in _LAYOUTS:
        packed = [one for one in fields(kind) if one.name not in omit | _CONTENT]
        names = tuple(one.name for one in packed)
        defaults = tuple(map(_default, packed))
        values = (
            attrgetter(*names)
            if len(names) > 1
            else lambda value: tuple(getattr(value, name) for name in names)
        )
        _LAYOUTS[kind, omit] = _Layout(names, tuple(map(to_camel, names)), defaults, values)
    return _LAYOUTS[kind, omit]


def _default(one: "Field[Any]") -> Any:
    if one.default_factory is not MISSING:
        return one.default_factory()
    return _ABSENT if one.default is MISSING else one.default


def keys_of(kind: type) -> tuple[str, ...]:
    """The keys that values of a class may have when they are packed."""
    return _layout(kind, frozenset()).keys


def pack(value: Any, omit: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The value's fields that differ from their defaults, under camelCase keys."""
    layout = _layout(type(value), omit)
    packed = {
        key: held
        for key, default, held in zip(layout.keys, layout.defaults, layout.values(value), strict=True)
        if held is not default and held != default
    }
    for key, held in packed.items():
        if hasattr(held, "__dataclass_fields__"):
            packed[key] = pack(held)
    return packed


def unpack(kind: type[T], packed: Mapping[str, Any], **given: Any) -> T:
    """The value that `pack` packed; `given` are the fields that are kept elsewhere. No rule is run."""
    layout = _layout(kind, frozenset())
    for name, key in zip(layout.names, layout.keys, strict=True):
        if key in packed:
            held = packed[key]
            given[name] = frozen(held) if type(held) is list else held
    return kind(**given)


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    return tuple(frozen(item) for item in value) if isinstance(value, list) else value
