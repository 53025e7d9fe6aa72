"""A delta as NATS messages: CloudEvents in binary mode, one for each session of the commit (SPEC L6).

An id in a subject: letters, digits, `-` and `_` stand for themselves, each other byte of its UTF-8 as %XX.
A token that would be longer than TOKEN_LENGTH_MAX is cut, and ends in `~` and a digest of the id. `~` itself
is always spelled %7E, so no two ids share a token but by a collision of SHA-256. The whole ids stand in the
headers `ce-partitionkey` (the room) and `ce-subject` (the session).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from application.sinks import Parcel
from infrastructure.cloud_events import cloud_event

TOKEN_LENGTH_MAX: Final = 200
"""Characters that an id has in a subject; a server takes 4,096 bytes for the whole line of a command."""
DIGEST_LENGTH: Final = 32
"""Hex digits that tell longer ids apart."""

_NOT_IN_TOKENS: Final = re.compile(rb"[^A-Za-z0-9_-]")
_NOT_IN_HEADERS: Final = re.compile(rb'[^!-~]|["%]')


@dataclass(frozen=True, slots=True)
class Message:
    """What is published."""

    subject: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def size(self) -> int:
        """Bytes that count against the server's limit on a message: the block of headers as well."""
        lines = sum(len(f"{name}: {value}\r\n") for name, value in self.headers.items())
        return len("NATS/1.0\r\n") + lines + len("\r\n") + len(self.body)


def messages_of(parcel: Parcel, prefix: str) -> Iterator[Message]:
    """The messages of a delta, in the order in which it names the sessions.

    Each has the whole delta, and says in `ce-part` and `ce-parts` that it is the k-th of n. `Nats-Msg-Id`
    and `ce-id` are the same, `transactionId:k`, but for what an operator wants delivered again: the server
    would drop that as a duplicate, so its `Nats-Msg-Id` ends in `.r` and a number.
    """
    committed = parcel.committed
    body = committed.delta.to_json().encode()
    event = cloud_event(committed, parcel.gap)
    sessions = list(dict.fromkeys(mutation.agent_session_id for mutation in committed.delta.mutations))
    for part, session in enumerate(sessions, start=1):
        id_ = f"{committed.transaction_id}:{part}"
        attributes = event.get_attributes() | {
            "id": id_,
            "subject": session,
            "part": part,
            "parts": len(sessions),
        }
        again = f".r{parcel.redelivery}" if parcel.redelivery else ""
        yield Message(
            f"{prefix}.{token(committed.room)}.{token(session)}",
            {"Nats-Msg-Id": f"{id_}{again}"}
            | {f"ce-{name}": header(value) for name, value in attributes.items()},
            body,
        )


def token(id_: str) -> str:
    """An id as one token of a subject."""
    whole = _percent(_NOT_IN_TOKENS, id_)
    if len(whole) <= TOKEN_LENGTH_MAX:
        return whole
    digest = sha256(id_.encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{whole[: TOKEN_LENGTH_MAX - DIGEST_LENGTH - 1]}~{digest}"


def header(value: Any) -> str:
    """An attribute as CloudEvents' binding to NATS has it in a header: visible ASCII, the rest as %XX."""
    if isinstance(value, datetime):
        value = value.isoformat().replace("+00:00", "Z")
    return _percent(_NOT_IN_HEADERS, str(value))


def _percent(unsafe: re.Pattern[bytes], text: str) -> str:
    return unsafe.sub(lambda found: b"%%%02X" % found.group()[0], text.encode()).decode("ascii")
