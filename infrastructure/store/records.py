"""An event as it is stored: facts in an envelope, content apart, a hash that chains it to the one before."""

import hashlib
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from domain import jsontext
from domain.errors import DamagedStore
from domain.event import Event
from domain.ids import RoomId, SessionId, StreamId, TransactionId
from domain.work import Source
from infrastructure.store.codec import pack, unpack
from infrastructure.store.topics import kind_of, lifted

GENESIS: Final = bytes(32)
"""The hash before a stream's first event."""
NO_CONTENT: Final = bytes(32)
"""The commitment of an event without content."""
SALT_BYTES: Final = 16
SALTS_DRAWN: Final = 64
"""Salts that are drawn at once: each call to the system hands the interpreter to another thread."""
FORMAT: Final = 1
"""Version of the envelope."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What is stored around an event's facts; never its position."""

    room: RoomId
    session: SessionId
    recorded_at: int
    """Unix milliseconds."""
    transaction: TransactionId
    index: int
    """Place inside the commit, from 0."""
    count: int
    """Events of the commit."""
    command_id: str = ""
    actor: str = ""
    source: Source | None = None
    key: str = ""
    """In place of room and session: what an aggregate beside the sessions is known by."""


@dataclass(frozen=True, slots=True)
class Record:
    """One stored event, byte for byte."""

    stream: StreamId
    version: int
    topic: str
    facts: bytes
    previous_hash: bytes
    hash: bytes
    salt: bytes = b""
    content: bytes | None = None
    """None: the event has none, or it was not read, or erased."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A record read back: the event in today's shape, with its envelope."""

    envelope: Envelope
    event: Event
    commitment: bytes
    content_length: int


def commitment_of(salt: bytes, content: bytes) -> bytes:
    """What the facts say of the content: a salted hash, so that erased content cannot be guessed."""
    return hashlib.sha256(salt + content).digest()


class Salts:
    """Salts for contents, each given once; for one thread at a time."""

    def __init__(self) -> None:
        self._drawn = b""

    def __call__(self) -> bytes:
        drawn = self._drawn or os.urandom(SALT_BYTES * SALTS_DRAWN)
        salt, self._drawn = drawn[:SALT_BYTES], drawn[SALT_BYTES:]
        return salt


def hash_of(previous: bytes, stream: str, version: int, topic: str, facts: bytes, commitment: bytes) -> bytes:
    """SHA-256 over the previous hash and everything the event consists of (SPEC A3)."""
    head = f"{stream}\n{version}\n{topic}\n{len(facts)}\n".encode()
    return hashlib.sha256(previous + head + facts + commitment).digest()


def seal(
    event: Event,
    envelope: Envelope,
    stream: StreamId,
    version: int,
    previous: bytes,
    salt: bytes,
) -> Record:
    """Spell an event for the store and chain it to the stream's last hash."""
    content = None if event.content is None else jsontext.to_bytes(event.content)
    commitment = NO_CONTENT if content is None else commitment_of(salt, content)
    around: dict[str, Any] = {"format": FORMAT}
    if envelope.key:
        around["key"] = envelope.key
    else:
        around["room"] = envelope.room
        around["session"] = envelope.session
    around["at"] = envelope.recorded_at
    around["tx"] = envelope.transaction
    if type(event).SHAPE != 1:
        around["v"] = type(event).SHAPE
    if envelope.count != 1:
        around["of"] = [envelope.index, envelope.count]
    if envelope.command_id:
        around["command"] = envelope.command_id
    if envelope.actor:
        around["actor"] = envelope.actor
    if envelope.source:
        around["source"] = pack(envelope.source)
    if content is not None:
        around["content"] = [b64encode(commitment).decode(), len(content)]
    around["facts"] = pack(event)
    facts = jsontext.to_bytes(around)
    topic = event.TOPIC
    return Record(
        stream=stream,
        version=version,
        topic=topic,
        facts=facts,
        previous_hash=previous,
        hash=hash_of(previous, stream, version, topic, facts, commitment),
        salt=salt if content is not None else b"",
        content=content,
    )


def unseal(topic: str, facts: bytes, content: bytes | None = None) -> Opened:
    """Read a stored event; content is given where the reader wants it and it was not erased."""
    kind = kind_of(topic)
    try:
        return _opened(kind, topic, facts, content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedStore(f"an event {topic} cannot be read: {error!r}; verify names it") from error


def _opened(kind: type[Event], topic: str, facts: bytes, content: bytes | None) -> Opened:
    around = jsontext.from_bytes(facts)
    if around["format"] != FORMAT:
        raise DamagedStore(f"an event {topic} has an envelope of format {around['format']}, not {FORMAT}")
    shaped = lifted(topic, around.get("v", 1), around["facts"])
    said = None if content is None else jsontext.from_bytes(content)
    index, count = around.get("of", (0, 1))
    commitment, length = around.get("content", ("", 0))
    return Opened(
        envelope=Envelope(
            room=RoomId(around.get("room", "")),
            session=SessionId(around.get("session", "")),
            recorded_at=around["at"],
            transaction=TransactionId(around["tx"]),
            index=index,
            count=count,
            command_id=around.get("command", ""),
            actor=around.get("actor", ""),
            source=_source(around.get("source")),
            key=around.get("key", ""),
        ),
        event=unpack(kind, shaped, content=said),
        commitment=b64decode(commitment) if commitment else NO_CONTENT,
        content_length=length,
    )


def shape_and_facts(facts: bytes) -> tuple[int, dict[str, Any]]:
    """The shape version and the facts proper, without what stands around them."""
    around = jsontext.from_bytes(facts)
    return around.get("v", 1), around["facts"]


def _source(packed: Mapping[str, Any] | None) -> Source | None:
    return unpack(Source, packed) if packed else None


def check(record: Record, opened: Opened) -> str:
    """What is wrong with a record on its own; blank when nothing is."""
    expected = hash_of(
        record.previous_hash, record.stream, record.version, record.topic, record.facts, opened.commitment
    )
    if expected != record.hash:
        return "its hash does not fit its bytes"
    if record.content is None:
        return ""
    if len(record.content) != opened.content_length:
        return "its content has another length than the facts say"
    if commitment_of(record.salt, record.content) != opened.commitment:
        return "its content does not fit the commitment in its facts"
    return ""
