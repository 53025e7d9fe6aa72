"""How a tool call's payload is made fit to be kept: nothing empty, no endless output (SPEC section 5)."""

from collections.abc import Mapping
from typing import Any, Final

OUTPUT_BYTES_MAX: Final = 1_048_576
"""Bytes of UTF-8 that text, stdout and stderr of an output or error may have, the marker included."""
MARKER: Final = "[Output truncated]"
_CUT_BODIES: Final = ("output", "error")
_CUT_FIELDS: Final = ("text", "stdout", "stderr")


def normalised(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without nulls, blank texts and empty lists or objects, and with long outputs cut.

    False and 0 stay. Doing it twice is doing it once.
    """
    kept = _without_empty(payload)
    for name in _CUT_BODIES:
        body = kept.get(name)
        if isinstance(body, str):
            kept[name] = cut(body)
        elif isinstance(body, dict):
            for field in _CUT_FIELDS:
                if isinstance(body.get(field), str):
                    body[field] = cut(body[field])
    return kept


def _without_empty(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: kept for key, item in value.items() if not _is_empty(kept := _stripped(item))}


def _stripped(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _without_empty(value)
    if isinstance(value, list | tuple):
        return [kept for item in value if not _is_empty(kept := _stripped(item))]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value in ([], {})


def cut(text: str) -> str:
    """The text, at most OUTPUT_BYTES_MAX bytes of UTF-8, cut on a character boundary with a marker."""
    if len(text) * 4 <= OUTPUT_BYTES_MAX:
        return text
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= OUTPUT_BYTES_MAX:
        return text
    room = OUTPUT_BYTES_MAX - len(MARKER)
    while room and data[room] & 0xC0 == 0x80:
        room -= 1
    return data[:room].decode("utf-8", "surrogatepass") + MARKER
