"""Tool payloads: nothing empty, no endless output, and never the caller's object."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.tool_payload import MARKER, OUTPUT_BYTES_MAX, cut, normalised

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", " ", "\n", "x", "ä"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
payloads = st.dictionaries(st.sampled_from(["output", "error", "input", "text"]), json_values, max_size=4)


def is_empty(value: Any) -> bool:
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())


def holds_nothing_empty(value: Any) -> bool:
    if is_empty(value):
        return False
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(holds_nothing_empty(item) for item in inner)


@given(payloads)
def test_nothing_empty_is_left_at_any_depth(payload: dict[str, Any]) -> None:
    """M9: Nulls, blank strings, empty lists and objects go, and what only held such with them."""
    assert all(holds_nothing_empty(value) for value in normalised(payload).values())


@given(payloads)
def test_normalising_twice_is_normalising_once_and_leaves_the_callers_object(payload: dict[str, Any]) -> None:
    """M9: Both steps are idempotent, and the given object is never changed."""
    before = copy.deepcopy(payload)

    once = normalised(payload)

    assert payload == before
    assert normalised(once) == once


def test_false_and_zero_stay() -> None:
    """M9: They say something."""
    assert normalised({"a": False, "b": 0, "c": 0.0, "d": [False, None, 0]}) == {
        "a": False,
        "b": 0,
        "c": 0.0,
        "d": [False, 0],
    }


@pytest.mark.parametrize("body", ["output", "error"])
@pytest.mark.parametrize("field", ["text", "stdout", "stderr", None])
def test_long_texts_of_output_and_error_are_cut(body: str, field: str | None) -> None:
    """M9: text, stdout and stderr of output and error, and bodies that are a text, end with the marker."""
    long = "x" * (OUTPUT_BYTES_MAX + 1)
    payload = {body: {field: long} if field else long, "input": {"text": long}}

    kept = normalised(payload)

    text = kept[body][field] if field else kept[body]
    assert text == "x" * (OUTPUT_BYTES_MAX - len(MARKER)) + MARKER
    assert kept["input"] == {"text": long}


@pytest.mark.parametrize("character", ["x", "ä", "€", "😀", "\ud83d"])
@pytest.mark.parametrize("shift", range(4))
def test_a_cut_falls_on_a_character_boundary(character: str, shift: int) -> None:
    """M9: At most 1,048,576 bytes of UTF-8, the marker included, and whole characters."""
    text = "a" * shift + character * (OUTPUT_BYTES_MAX + 1)

    short = cut(text)

    size = len(short.encode("utf-8", "surrogatepass"))
    assert OUTPUT_BYTES_MAX - 4 < size <= OUTPUT_BYTES_MAX
    assert short.endswith(MARKER)
    assert text.startswith(short.removesuffix(MARKER))
    assert cut(short) == short


def test_a_text_of_the_exact_size_is_left_alone() -> None:
    """M9: Only what is longer is cut."""
    assert cut("x" * OUTPUT_BYTES_MAX) == "x" * OUTPUT_BYTES_MAX
    assert OUTPUT_BYTES_MAX == 1_048_576
