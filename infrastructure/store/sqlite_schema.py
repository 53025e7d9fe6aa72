"""The tables of an SQLite store, and how an older store becomes one of today."""

from typing import Final

APPLICATION_ID: Final = 0x52505253
"""Marks the file as ours (`PRAGMA application_id`)."""

PAGE_BYTES: Final = 8192
"""A third less disk than 4096, and quicker commits of several rows."""

LOG: Final = """
CREATE TABLE stored_events (
    notification_id INTEGER PRIMARY KEY,                -- the position: never given twice
    originator_id TEXT NOT NULL,                        -- the stream
    originator_version INTEGER NOT NULL,
    topic TEXT NOT NULL,
    state BLOB NOT NULL,                                -- the facts in their envelope
    previous_hash BLOB NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (originator_id, originator_version)
);
CREATE TABLE contents (
    position INTEGER PRIMARY KEY,
    salt BLOB NOT NULL,
    content BLOB NOT NULL
);
CREATE TABLE streams (
    key INTEGER PRIMARY KEY,                            -- stands for the stream in the read models
    stream TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    hash BLOB NOT NULL
);
INSERT INTO streams VALUES (0, '', 0, x'');             -- not a stream: the last position that was given
CREATE TABLE snapshots (
    originator_id TEXT NOT NULL,
    originator_version INTEGER NOT NULL,
    topic TEXT NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (originator_id, originator_version)
) WITHOUT ROWID;
CREATE TABLE stores (
    from_position INTEGER PRIMARY KEY,                  -- transaction ids from here on are made with it
    store_id TEXT NOT NULL UNIQUE
);
"""

OPERATIONS: Final = """
CREATE TABLE outbox (
    position INTEGER PRIMARY KEY,                       -- of the commit's last event
    first_position INTEGER NOT NULL,
    transaction_id TEXT NOT NULL,
    room TEXT NOT NULL,
    recorded_at INTEGER NOT NULL,
    delta TEXT NOT NULL
);
CREATE TABLE commands (
    key TEXT PRIMARY KEY,
    stream TEXT NOT NULL,
    digest TEXT NOT NULL,
    answer TEXT NOT NULL,
    position INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX commands_by_expiry ON commands (expires_at);
CREATE INDEX outbox_by_room ON outbox (room, position);
CREATE TABLE subscriptions (
    name TEXT PRIMARY KEY,
    after INTEGER NOT NULL,                                 -- it wants what stands behind this position
    seen INTEGER NOT NULL -- its lanes know all up to here, -1 without a worker
) WITHOUT ROWID;
CREATE TABLE lanes (
    name TEXT NOT NULL,                                  -- the subscription
    room TEXT NOT NULL,
    position INTEGER NOT NULL,                              -- everything of the room up to here is finished
    attempts INTEGER NOT NULL,                              -- at the next row, so far in vain
    error TEXT NOT NULL,
    at INTEGER NOT NULL,
    target INTEGER NOT NULL DEFAULT 0,                      -- the last row that is known of the room
    due_at INTEGER NOT NULL DEFAULT 0,                      -- when a worker may claim it
    refusals INTEGER NOT NULL DEFAULT 0,
    resumes_at INTEGER NOT NULL DEFAULT 0,                  -- of a lane that was woken: when it was due
    owner TEXT NOT NULL DEFAULT '',                      -- the worker that has the lease
    token INTEGER NOT NULL DEFAULT 0,                       -- of the last lease that was given
    until INTEGER NOT NULL DEFAULT 0,                       -- when the lease ends
    gap INTEGER NOT NULL DEFAULT 0,                         -- rows parked or skipped since the last delivery
    asked INTEGER NOT NULL DEFAULT 0,                       -- rows that are wanted again
    PRIMARY KEY (name, room)
) WITHOUT ROWID;
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL,                               -- of the token, which is not kept
    scopes TEXT NOT NULL,
    rooms TEXT NOT NULL,                                -- a JSON list, empty for every room
    note TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL                         -- 0 while it is good
) WITHOUT ROWID;
CREATE TABLE secrets (
    subscription TEXT PRIMARY KEY,                      -- its name
    secrets TEXT NOT NULL                               -- a JSON list of [secret, valid until], newest first
) WITHOUT ROWID;
CREATE INDEX lanes_due ON lanes (name, due_at) WHERE target > position OR asked > 0;
CREATE TABLE asides (                                   -- rows that left their lane's order
    name TEXT NOT NULL,
    position INTEGER NOT NULL,
    room TEXT NOT NULL,
    state TEXT NOT NULL,                                 -- parked, skipping, skipped, asked or delivered
    attempts INTEGER NOT NULL,
    error TEXT NOT NULL,
    at INTEGER NOT NULL,
    redelivery INTEGER NOT NULL,                            -- how often it was asked for again
    PRIMARY KEY (name, position)
) WITHOUT ROWID;
CREATE INDEX asides_open ON asides (name, room, position) WHERE state IN ('asked', 'skipping');
CREATE TABLE trims (
    name TEXT PRIMARY KEY,
    position INTEGER NOT NULL                               -- up to here nothing is kept
) WITHOUT ROWID;
INSERT INTO trims VALUES ('outbox', 0);
"""

READ_MODELS: Final = """
CREATE {scope} TABLE {prefix}sessions (
    key INTEGER PRIMARY KEY,
    room TEXT NOT NULL,
    session TEXT NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    root_session TEXT NOT NULL,
    provider_session_id TEXT NOT NULL,
    is_live INTEGER NOT NULL,
    is_deleted INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_version INTEGER NOT NULL,
    last_event_at INTEGER NOT NULL,
    message_version INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    turn_count INTEGER NOT NULL,
    text_count INTEGER NOT NULL,
    tool_call_count INTEGER NOT NULL,
    usage TEXT NOT NULL
);
CREATE {scope} TABLE {prefix}session_contents (
    key INTEGER PRIMARY KEY,
    content TEXT NOT NULL
);
CREATE {scope} TABLE {prefix}turns (
    key INTEGER NOT NULL,
    turn_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (key, turn_id)
) WITHOUT ROWID;
CREATE {scope} TABLE {prefix}messages (
    key INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    turn_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    is_open_tool INTEGER NOT NULL,
    is_text INTEGER NOT NULL,
    position INTEGER NOT NULL,                          -- of the event that added it
    state TEXT NOT NULL,
    PRIMARY KEY (key, message_id)
) WITHOUT ROWID;
CREATE {scope} TABLE {prefix}message_parts (
    key INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    position INTEGER NOT NULL,                          -- of an event that changed what it says
    occurred_at INTEGER NOT NULL,
    PRIMARY KEY (key, message_id, position)
) WITHOUT ROWID;
CREATE {scope} TABLE {prefix}interactions (
    key INTEGER NOT NULL,
    turn_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (key, turn_id, request_id)
) WITHOUT ROWID;
CREATE {scope} TABLE {prefix}aggregates (
    key INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,                                 -- what the aggregate is known by
    version INTEGER NOT NULL,
    state TEXT NOT NULL
);
"""

INDEXES: Final = """
CREATE UNIQUE INDEX {name}sessions_by_id ON {prefix}sessions (room, session);
CREATE INDEX {name}sessions_by_root ON {prefix}sessions (room, root_session);
CREATE INDEX {name}sessions_by_provider ON {prefix}sessions (room, provider_session_id);
CREATE INDEX {name}sessions_by_session ON {prefix}sessions (session);
CREATE INDEX {name}sessions_by_change ON {prefix}sessions (updated_at, room);
CREATE INDEX {name}sessions_live ON {prefix}sessions (room, session) WHERE is_live;
CREATE UNIQUE INDEX {name}messages_by_version ON {prefix}messages (key, version);
CREATE UNIQUE INDEX {name}aggregates_by_name ON {prefix}aggregates (kind, name);
CREATE INDEX {name}messages_open_tools ON {prefix}messages (key, turn_id, sequence) WHERE is_open_tool;
"""


def read_models(prefix: str = "") -> str:
    """The read-model tables, their names behind a prefix; without their indexes."""
    return READ_MODELS.format(scope="", prefix=prefix)


def temporary_read_models(prefix: str) -> str:
    """The read-model tables of one connection, gone when it is closed."""
    return READ_MODELS.format(scope="TEMP", prefix=prefix)


def indexes(prefix: str = "", name: str = "") -> str:
    """The indexes of the read models."""
    return INDEXES.format(prefix=prefix, name=name)


MIGRATIONS: Final = (LOG + OPERATIONS + read_models() + indexes(),)
"""Statements that lift a store from version n to n + 1 (`PRAGMA user_version`); the first makes it."""
