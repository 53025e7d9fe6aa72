"""Writes an evidence bundle: a zip with a session's whole history, its states, and what checks them."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import jsonpatch

from application.delivery_views import delivery_view
from application.lanes import Choice, Delivered
from application.ledger import Ledger
from application.past import Past
from application.ports import SealedEvent
from domain import jsontext
from domain.errors import NotFound
from domain.ids import RoomId, SessionId, session_stream
from infrastructure.evidence import verify
from infrastructure.store.topics import topics

BESIDE: Final = Path(__file__).parent
"""What every bundle holds as it stands here."""
IN_MEMORY_BYTES_MAX: Final = 2**23
"""What is larger waits in a temporary file."""
_CHUNK_BYTES: Final = 2**16
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file, so that the same history makes the same bytes."""


@dataclass
class _Bundle:
    """A zip at work, and the digests of what is in it."""

    zip: ZipFile
    digests: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, content: bytes) -> None:
        with self._file(name) as file:
            file.write(content)

    def put_lines(self, name: str, lines: Iterable[bytes]) -> None:
        with self._file(name) as file:
            for line in lines:
                file.write(line + b"\n")

    @contextmanager
    def _file(self, name: str) -> "Iterator[_Digested]":
        info = ZipInfo(name, _EPOCH)
        info.compress_type = ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        with self.zip.open(info, "w", force_zip64=True) as file:
            digested = _Digested(file)
            yield digested
        self.digests[name] = digested.digest.hexdigest()


class _Digested:
    """A file that is digested while it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, content: bytes) -> None:
        self.digest.update(content)
        self._file.write(content)


def bundle_of(ledger: Ledger, room: str, session: str, *, by: str = "") -> IO[bytes]:
    """The evidence of a session, to be read from its start and closed; raises NotFound where there is none.

    It always holds the whole history, also that of a deleted or purged session; contents that were destroyed
    are marked, and their commitments are there (SPEC A3).
    """
    made: IO[bytes] = SpooledTemporaryFile(max_size=IN_MEMORY_BYTES_MAX)  # noqa: SIM115 - its reader closes it
    try:
        with ZipFile(made, "w") as archive:
            _write(_Bundle(archive), ledger, RoomId(room), SessionId(session), by)
    except BaseException:
        made.close()
        raise
    made.seek(0)
    return made


def chunks(made: IO[bytes]) -> Iterator[bytes]:
    """The bytes of a bundle, which is closed behind the last."""
    with made:
        while chunk := made.read(_CHUNK_BYTES):
            yield chunk


def _write(bundle: _Bundle, ledger: Ledger, room: RoomId, session: SessionId, by: str) -> None:
    past, told = Past(room, session), _Told()
    with SpooledTemporaryFile(max_size=IN_MEMORY_BYTES_MAX) as diffs:

        def lines() -> Iterator[bytes]:
            for sealed in ledger.store.sealed(room, session):
                told.note(sealed)
                diffs.write(jsontext.to_bytes(_diff(past, sealed)) + b"\n")
                yield jsontext.to_bytes(_line(sealed))

        bundle.put_lines("events.ndjson", lines())
        if told.last is None:
            raise NotFound(f"no session {session} in room {room}")
        diffs.seek(0)
        bundle.put_lines("diffs.ndjson", (line.rstrip(b"\n") for line in diffs))
    bundle.put("state.json", jsontext.to_bytes(past.document()))
    bundle.put_lines("deliveries.ndjson", map(_delivery, _deliveries(ledger, room, session)))
    bundle.put("schema/events.json", (BESIDE / "events.schema.json").read_bytes())
    bundle.put("schema/topics.json", jsontext.to_bytes(topics()))
    bundle.put("VERIFY.md", (BESIDE / "VERIFY.md").read_bytes())
    bundle.put("verify.py", (BESIDE / "verify.py").read_bytes())
    manifest = {
        "format": verify.FORMAT,
        "room": room,
        "session": session,
        "stream": session_stream(room, session),
        "stores": list(ledger.store.ids()),
        "events": told.last.event.version,
        "erased": told.erased,
        "positions": [told.first_position, told.last.event.position],
        "head": {"version": told.last.event.version, "hash": told.last.hash.hex()},
        "exportedAtUnixMs": ledger.clock.now_ms(),
        "exportedBy": by,
        "software": {"name": "reprise", "version": version("reprise")},
        "files": dict(sorted(bundle.digests.items())),
    }
    bundle.put(verify.MANIFEST, jsontext.to_bytes(manifest))


@dataclass
class _Told:
    """What the manifest says of the events."""

    last: SealedEvent | None = None
    first_position: int = 0
    erased: int = 0

    def note(self, sealed: SealedEvent) -> None:
        self.first_position = self.first_position or sealed.event.position
        self.erased += sealed.event.is_erased
        self.last = sealed


def _line(sealed: SealedEvent) -> dict[str, Any]:
    event = sealed.event
    return {
        "version": event.version,
        "position": event.position,
        "topic": event.topic,
        "facts": sealed.facts.decode(),
        "content": None if sealed.content is None else sealed.content.decode(),
        "salt": sealed.salt.hex(),
        "erased": event.is_erased,
        "previousHash": sealed.previous_hash.hex(),
        "hash": sealed.hash.hex(),
    }


def _diff(past: Past, sealed: SealedEvent) -> dict[str, Any]:
    """What an event changed, as a JSON Patch of the session's document."""
    before, after = past.take(sealed.event)
    patch = jsonpatch.make_patch(before, after).patch
    return {"version": sealed.event.version, "topic": sealed.event.topic, "patch": patch}


def _deliveries(ledger: Ledger, room: RoomId, session: SessionId) -> Iterator[Delivered]:
    """What became of the session's deltas, as far as they are kept."""
    for held in ledger.subscriptions.all():
        for one in ledger.subscriptions.list(held.key, Choice(room=room)):
            if any(mutation.agent_session_id == session for mutation in one.committed.delta.mutations):
                yield one


def _delivery(one: Delivered) -> bytes:
    return jsontext.to_bytes(delivery_view(one).to_dict())
