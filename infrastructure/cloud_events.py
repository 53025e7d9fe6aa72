"""A commit's delta as a CloudEvent 1.0, the same one for every way on which it is handed out."""

from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote

from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from domain.delta import CommittedDelta
from domain.ids import Position

TYPE: Final = "dev.reprise.session.committed.v1"
DATA_SCHEMA: Final = "https://reprise.dev/schemas/commit-delta.v1.json"
"""Names the shape of the data; another shape will have another name."""
MEDIA_TYPE: Final = JSONFormat.CONTENT_TYPE
SEQUENCE_DIGITS: Final = 20
"""As many as the largest position has, so that text and numbers are in the same order."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORMAT: Final = JSONFormat()


def cloud_event(committed: CommittedDelta, gap: int = 0) -> CloudEvent:
    """The delta in the envelope of CloudEvents; its id is the transaction's, so it tells repetitions.

    `sequence` is the commit's position, which is also the id of a server-sent event and what `after` takes.
    A room may have any characters, which a URI may not; `partitionkey` has the room itself. A delivery
    whose room was passed over before it says by how many deltas: `gap` (SPEC L5).
    """
    return CloudEvent(
        {
            "specversion": "1.0",
            "id": committed.transaction_id,
            "source": f"/rooms/{quote(committed.room, safe='')}",
            "type": TYPE,
            "subject": committed.delta.mutations[0].agent_session_id,
            # From whole milliseconds, since a float would lose some of them.
            "time": _EPOCH + timedelta(milliseconds=committed.recorded_at),
            "datacontenttype": "application/json",
            "dataschema": DATA_SCHEMA,
            "sequence": sequence(committed.last_position),
            "partitionkey": committed.room,
            **({"gap": gap} if gap else {}),
        },
        committed.delta.model_dump(by_alias=True, exclude_none=True),
    )


def structured(committed: CommittedDelta, gap: int = 0) -> bytes:
    """The event with its data as one line of JSON, in ASCII (`application/cloudevents+json`)."""
    return _FORMAT.write(cloud_event(committed, gap))


def sequence(position: Position) -> str:
    """A position as CloudEvents' `sequence` has it."""
    return f"{position:0{SEQUENCE_DIGITS}}"
