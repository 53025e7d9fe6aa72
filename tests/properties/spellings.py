"""Random JSON, and other spellings of the same JSON."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from domain import jsontext

json_texts = st.text(st.characters(), max_size=6)
numbers = st.one_of(
    st.integers(jsontext.INTEGER_MIN, jsontext.INTEGER_MAX), st.floats(allow_nan=False, allow_infinity=False)
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, json_texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(json_texts, inner, max_size=4)),
    max_leaves=12,
)


def joined(value: Any) -> Any:
    """JSON with its surrogate halves joined where both are there."""
    if isinstance(value, str):
        return jsontext.join_halves(value)
    if isinstance(value, Mapping):
        return {jsontext.join_halves(key): joined(item) for key, item in value.items()}
    return [joined(item) for item in value] if isinstance(value, list) else value


def respelled(value: Any) -> Any:
    """JSON with its keys in another order and its whole numbers spelled otherwise."""
    if isinstance(value, Mapping):
        return {key: respelled(item) for key, item in reversed(list(value.items()))}
    if isinstance(value, list):
        return [respelled(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return float(value) if type(value) is int and abs(value) < 2**53 else value
