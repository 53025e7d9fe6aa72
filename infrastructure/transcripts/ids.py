"""Identities that importers derive: a stored contract, since a change imports everything anew."""

import json
import re
from uuid import UUID, uuid5

from application.transcript import Json

NAMESPACE = UUID("2f0d3c1e-58a7-5e0b-9a44-7f3f3f0b6c1d")
"""For what the transcript itself gives no id."""

ID_CHARS_MAX = 400
"""Longer ids are derived instead, so that an id with a suffix stays within the service's 512."""

UUID_PATTERN = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def derived_id(*parts: Json) -> str:
    """The same parts give the same id, in every process and for ever."""
    return str(uuid5(NAMESPACE, json.dumps(parts)))


def usable_id(text: str) -> str:
    """`text` trimmed; derived from it when a store could not carry it; blank stays blank."""
    text = text.strip()
    if len(text) <= ID_CHARS_MAX and text.isprintable():
        return text
    return derived_id("id", text)


def reasoning_id(reply_id: str) -> str:
    return f"{reply_id}:reasoning"
