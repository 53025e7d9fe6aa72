"""Texts and numbers: one spelling for what is stored, one measure for what is cut."""

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain import jsontext, tool_payload
from domain.errors import Malformed
from tests.properties.spellings import joined, json_values, respelled

# Spelling (SPEC X1, X2).


@given(json_values)
@example("\\\ud800")
@example("\ud83d\ude00")
@example({"\ud800": [-0.0, 2**64 - 1, -(2**63), 5e-324]})
def test_json_that_is_accepted_comes_back(value: Any) -> None:
    jsontext.check(value, "value")
    spelled = jsontext.to_bytes(value)
    again = jsontext.from_bytes(spelled)
    assert jsontext.to_bytes(again) == jsontext.to_bytes(joined(value))
    assert json.dumps(again, sort_keys=True) == json.dumps(joined(value), sort_keys=True)
    assert jsontext.parse(spelled) == again
    assert b"\0" not in spelled
    assert jsontext.to_text(value).encode() == spelled


@given(json_values)
def test_the_spelling_is_the_compact_one_of_the_standard_library(value: Any) -> None:
    usual = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    assert jsontext.to_bytes(value) == usual.encode("utf-8", "backslashreplace")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_json_number_is_never_spelled(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsontext.to_bytes({"a": [number]})


def test_a_value_that_holds_itself_is_an_error_and_no_crash() -> None:
    circular: dict[str, Any] = {}
    circular["again"] = [circular]
    with pytest.raises(RecursionError):
        jsontext.to_bytes(circular)


@given(json_values)
def test_neither_key_order_nor_the_spelling_of_numbers_makes_another_content(value: Any) -> None:
    assert jsontext.canonical(value) == jsontext.canonical(respelled(value))
    assert jsontext.same(value, respelled(value))


@given(json_values, json_values)
def test_different_contents_have_different_spellings(left: Any, right: Any) -> None:
    are_same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert jsontext.same(left, right) or not are_same
    if jsontext.same(left, right):
        assert left == right


@given(
    st.one_of(st.integers(min_value=jsontext.INTEGER_MAX + 1), st.sampled_from((float("nan"), float("inf"))))
)
def test_numbers_that_would_not_come_back_are_refused(number: Any) -> None:
    with pytest.raises(Malformed):
        jsontext.check({"a": [number]}, "value")


# Tool payloads (SPEC section 5).


LIMIT = 40


@contextmanager
def small_limit() -> Iterator[None]:
    """Outputs are cut at few bytes, so that the search meets every boundary."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool_payload, "OUTPUT_BYTES_MAX", LIMIT)
        yield


long_texts = st.text(st.sampled_from("aé\u2028😀\ud800 "), max_size=60)
bodies = st.one_of(
    long_texts,
    st.dictionaries(
        st.sampled_from(("text", "stdout", "stderr", "code")), st.one_of(long_texts, json_values), max_size=4
    ),
)
payloads = st.dictionaries(
    st.sampled_from(("output", "error", "input", "toolName")), st.one_of(bodies, json_values), max_size=4
)


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@given(long_texts)
def test_cutting_keeps_whole_characters_and_the_limit(text: str) -> None:
    with small_limit():
        kept = tool_payload.cut(text)
        assert tool_payload.cut(kept) == kept
    if size(text) <= LIMIT:
        assert kept == text
    else:
        assert size(kept) <= LIMIT < size(kept) + 4
        assert kept.endswith(tool_payload.MARKER)
        assert text.startswith(kept.removesuffix(tool_payload.MARKER))


@given(payloads)
def test_normalising_twice_is_normalising_once_and_changes_nothing_of_the_callers(
    payload: dict[str, Any],
) -> None:
    given_payload = copy.deepcopy(payload)
    with small_limit():
        kept = tool_payload.normalised(payload)
        assert tool_payload.normalised(kept) == kept
    assert payload == given_payload
    assert not any(is_empty(value) for value in values_in(kept))
    for name in ("output", "error"):
        body = kept.get(name)
        cut = [body] if isinstance(body, str) else []
        if isinstance(body, dict):
            cut = [body[field] for field in ("text", "stdout", "stderr") if isinstance(body.get(field), str)]
        assert all(size(text) <= LIMIT for text in cut)
    jsontext.check(kept, "payload")
    jsontext.to_bytes(kept).decode()


def values_in(value: Any) -> Iterator[Any]:
    """Every value inside a value, at any depth."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for item in inner:
        yield item
        yield from values_in(item)


def is_empty(value: Any) -> bool:
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())


def test_the_limit_is_a_mebibyte() -> None:
    text = "é" * tool_payload.OUTPUT_BYTES_MAX
    kept = tool_payload.normalised({"output": {"stdout": text}})["output"]["stdout"]
    assert tool_payload.OUTPUT_BYTES_MAX == 1_048_576
    assert tool_payload.OUTPUT_BYTES_MAX - 1 <= size(kept) <= tool_payload.OUTPUT_BYTES_MAX
    assert tool_payload.normalised({"output": {"stdout": kept}}) == {"output": {"stdout": kept}}
