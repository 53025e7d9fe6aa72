"""Identities and the four number spaces, each a type of its own."""

import json
from functools import lru_cache
from hashlib import sha1
from typing import NewType
from uuid import UUID, uuid5

RoomId = NewType("RoomId", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
MessageId = NewType("MessageId", str)
RequestId = NewType("RequestId", str)
StreamId = NewType("StreamId", str)
TransactionId = NewType("TransactionId", str)

Position = NewType("Position", int)
"""Order of the whole store, which is commit order."""
StreamVersion = NewType("StreamVersion", int)
"""Order inside one stream, from 1."""
MessageVersion = NewType("MessageVersion", int)
"""A session's change cursor for readers of its messages."""
RemoteCursor = NewType("RemoteCursor", int)
"""How far a pull has read at the remote."""

ID_LENGTH_MAX = 512
"""Characters of a room, session, turn, message or request id (SPEC W3)."""

UUID_LENGTH = 36
NAMES_KEPT = 10_000
"""Derived ids that are remembered, since every command asks for the same few again."""

_STREAMS = UUID("6f1d5f0e-3a44-5c6e-9d0b-6c2a7f9b1e55")
"""Name space of stream ids; never changes."""


@lru_cache(maxsize=NAMES_KEPT)
def stream_id(kind: str, *keys: str) -> StreamId:
    """The stream of an aggregate: a function of its kind and keys, so it exists once (SPEC R2)."""
    return StreamId(f"{kind}-{uuid5(_STREAMS, json.dumps([kind, *keys], separators=(',', ':')))}")


def kind_of(stream: StreamId) -> str:
    """The kind of aggregate that a stream is of."""
    return stream[: -UUID_LENGTH - 1]


def session_stream(room: RoomId, session: SessionId) -> StreamId:
    """The stream of a session."""
    return stream_id("session", room, session)


def session_number(room: RoomId, session: SessionId) -> int:
    """A number for clients that want one: 52 bits of the stream's id, which every JSON reader keeps exact."""
    return UUID(session_stream(room, session).removeprefix("session-")).int >> 76


def transaction_id(store_id: str, stream: StreamId, version: int) -> TransactionId:
    """The id of the commit whose first event stands at `version` of `stream` (SPEC D5)."""
    return TransactionId(_name_based(_name_space(store_id), f"{stream}@{version}"))


@lru_cache(maxsize=8)
def _name_space(store_id: str) -> bytes:
    return UUID(store_id).bytes


def _name_based(name_space: bytes, name: str) -> str:
    """The text of a UUIDv5; every commit needs one, and `uuid.uuid5` takes three times as long."""
    digest = bytearray(sha1(name_space + name.encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50  # version 5
    digest[8] = digest[8] & 0x3F | 0x80  # the variant of RFC 9562
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def named_id(name: str, *keys: str) -> str:
    """A UUIDv5 for something the service itself names, such as a notice or a deletion."""
    return str(uuid5(_STREAMS, json.dumps([name, *keys], separators=(",", ":"))))
