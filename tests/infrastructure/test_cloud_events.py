"""A delta's CloudEvent carries the delta itself, and says where and when it was committed."""

import json
from datetime import UTC, datetime

import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from domain.delta import CommitDelta, CommittedDelta, Mutation
from domain.ids import Position
from infrastructure.cloud_events import DATA_SCHEMA, MEDIA_TYPE, cloud_event, structured

RECORDED_AT = 1_796_040_271_123
"""2026-11-30T12:04:31.123Z."""


def committed(room: str = "team", session: str = "s-1") -> CommittedDelta:
    mutation = Mutation(
        mutation_id="tx-1:1",
        workspace_id=room,
        agent_session_id=session,
        entity_kind="session",
        entity_id=session,
        operation="upsert",
        version=3,
    )
    delta = CommitDelta(transaction_id="tx-1", workspace_id=room, mutations=(mutation,))
    return CommittedDelta(delta, Position(41), Position(43), RECORDED_AT)


def test_the_event_says_what_was_committed_where_and_when() -> None:
    event = cloud_event(committed())

    assert event.get_attributes() == {
        "specversion": "1.0",
        "id": "tx-1",
        "source": "/rooms/team",
        "type": "dev.reprise.session.committed.v1",
        "subject": "s-1",
        "time": datetime(2026, 11, 30, 12, 4, 31, 123_000, tzinfo=UTC),
        "datacontenttype": "application/json",
        "dataschema": DATA_SCHEMA,
        "sequence": "00000000000000000043",
        "partitionkey": "team",
    }


def test_its_data_are_the_delta_as_it_is_stored() -> None:
    one = committed()

    written = json.loads(structured(one))

    assert json.dumps(written["data"], separators=(",", ":")) == one.delta.to_json()
    assert written["time"] == "2026-11-30T12:04:31.123000Z"


@pytest.mark.parametrize("hostile", ["a/b c", 'q"\n\r\u2028', "π\x1b[31m", "%41", "../x?y#z"])
def test_a_hostile_room_and_session_come_back_whole_and_on_one_line(hostile: str) -> None:
    one = committed(hostile, hostile)

    line = structured(one)
    read = JSONFormat().read(CloudEvent, line)

    assert line.isascii()
    assert b"\n" not in line
    assert read.get_attributes() == cloud_event(one).get_attributes()
    assert read.get_data() == json.loads(one.delta.to_json())
    assert read.get_source().startswith("/rooms/")
    assert read.get_source().count("/") == 2
    assert MEDIA_TYPE == "application/cloudevents+json"
