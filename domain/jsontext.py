"""JSON as it is stored: one reversible spelling for everything a client can send.

Content is JSON text in UTF-8. What UTF-8 cannot carry (a lone surrogate) stands as a JSON escape, as NUL
does anyway, so the bytes go through any database and come back equal. The two halves of a surrogate pair
that arrive apart join when they meet. (SPEC X1, X2)
"""

import hashlib
import json
import json.encoder
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from domain.errors import Malformed

Json = Any
"""None, bool, int, float, str, list or dict with text keys."""

NESTING_MAX = 64
"""Levels of lists and objects, the outermost counted (SPEC W3)."""
INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**64 - 1

_COMPACT: Final = (",", ":")
_encode_sorted = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=_COMPACT, sort_keys=True
).encode


def _encoder() -> Callable[[Json], str]:
    """As `json.JSONEncoder.encode`, which sets its C encoder up anew for each of our small values."""
    plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=_COMPACT)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return plain.encode
    item, key = _COMPACT
    in_c = make(None, plain.default, json.encoder.encode_basestring, None, key, item, False, False, False)
    return lambda value: "".join(in_c(value, 0))


_encode = _encoder()


def to_bytes(value: Json) -> bytes:
    """The stored spelling of a value that `check` has let pass."""
    return _encode(value).encode("utf-8", "backslashreplace")


def to_text(value: Json) -> str:
    """The stored spelling as text that any database can hold."""
    return to_bytes(value).decode()


def from_bytes(data: bytes | str) -> Json:
    """The value that `to_bytes` spelled."""
    return json.loads(data)


def _plain(value: Json) -> Json:
    """The value with one spelling for each number: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def canonical(value: Json) -> bytes:
    """A spelling that neither key order nor the spelling of numbers changes (SPEC C4)."""
    return _encode_sorted(_plain(value)).encode("utf-8", "backslashreplace")


def digest(value: Json) -> str:
    """SHA-256 of the canonical spelling, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def same(left: Json, right: Json) -> bool:
    """Whether two values are the same JSON; unlike `==`, true is not 1."""
    if type(left) is type(right) is str:
        return bool(left == right)
    return canonical(left) == canonical(right)


def check(value: Json, where: str, levels: int = NESTING_MAX) -> None:
    """Raise Malformed unless the value can be stored and returned equal.

    Refused: more than `levels` levels, integers beyond 64 bits, NaN and infinities, keys that are not text.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return
    if kind is int:
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise Malformed(
                f"{where}: the integer {str(value)[:24]} needs more than 64 bits; send it as text"
            )
        return
    if kind is float:
        if not math.isfinite(value):
            raise Malformed(f"{where}: {value} is no JSON number; send it as text or leave it out")
        return
    if not levels:
        raise Malformed(f"{where}: nested more than {NESTING_MAX} levels deep; flatten it")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if type(key) is not str:
                raise Malformed(f"{where}: the key {key!r} is no text")
            check(item, where, levels - 1)
    elif isinstance(value, list | tuple):
        for item in value:
            check(item, where, levels - 1)
    else:
        raise Malformed(f"{where}: {type(value).__name__} is no JSON value")


def parse(data: bytes | str, where: str = "body") -> Json:
    """Read JSON from outside: last of duplicate keys wins, and `check` applies to the result."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        value = json.loads(text)
    except UnicodeDecodeError as error:
        raise Malformed(f"{where}: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise Malformed(f"{where}: nested more than {NESTING_MAX} levels deep; flatten it") from None
    except ValueError as error:
        raise Malformed(f"{where}: not JSON: {error}") from None
    check(value, where, NESTING_MAX + ENVELOPE_LEVELS_MAX)
    return value


ENVELOPE_LEVELS_MAX = 4
"""Levels of a report around a payload, which are not the payload's own."""


def join_halves(text: str) -> str:
    """The text with each surrogate pair that stands in two halves made one character."""
    if text.isascii() or not any("\ud800" <= char <= "\udbff" for char in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
