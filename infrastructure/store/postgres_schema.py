"""The tables of a PostgreSQL schema, and how an older store becomes one of today.

The columns are those of `sqlite_schema`. Text is compared by code point, as SQLite and Python do.
"""

from typing import Final

LOCK: Final = """
CREATE TABLE store_schema (
    version BIGINT NOT NULL                             -- migrations that were made
);
INSERT INTO store_schema VALUES (0);
CREATE TABLE writers_turn ();                           -- nothing but a lock
"""
"""What other databases have of their own.

A writer locks a table without rows instead of the events, because VACUUM takes a lock of its own on what
it cleans: each would keep the other waiting.
"""

LOG: Final = """
CREATE TABLE stored_events (
    notification_id BIGINT PRIMARY KEY,                 -- the position: never given twice
    originator_id TEXT COLLATE "C" NOT NULL,            -- the stream
    originator_version BIGINT NOT NULL,
    topic TEXT COLLATE "C" NOT NULL,
    state BYTEA NOT NULL,                               -- the facts in their envelope
    previous_hash BYTEA NOT NULL,
    hash BYTEA NOT NULL,
    UNIQUE (originator_id, originator_version)
);
CREATE TABLE contents (
    position BIGINT PRIMARY KEY,
    salt BYTEA NOT NULL,
    content BYTEA NOT NULL
);
CREATE TABLE streams (
    key BIGINT PRIMARY KEY,                             -- stands for the stream in the read models
    stream TEXT COLLATE "C" NOT NULL UNIQUE,
    version BIGINT NOT NULL,
    hash BYTEA NOT NULL
) WITH (fillfactor = 70);
INSERT INTO streams VALUES (0, '', 0, '');              -- not a stream: the last position that was given
CREATE TABLE snapshots (
    originator_id TEXT COLLATE "C" NOT NULL,
    originator_version BIGINT NOT NULL,
    topic TEXT COLLATE "C" NOT NULL,
    state BYTEA NOT NULL,
    PRIMARY KEY (originator_id, originator_version)
);
CREATE TABLE stores (
    from_position BIGINT PRIMARY KEY,                   -- transaction ids from here on are made with it
    store_id TEXT COLLATE "C" NOT NULL UNIQUE
);
"""

OPERATIONS: Final = """
CREATE TABLE outbox (
    position BIGINT PRIMARY KEY,                        -- of the commit's last event
    first_position BIGINT NOT NULL,
    transaction_id TEXT COLLATE "C" NOT NULL,
    room TEXT COLLATE "C" NOT NULL,
    recorded_at BIGINT NOT NULL,
    delta TEXT COLLATE "C" NOT NULL
);
CREATE TABLE commands (
    key TEXT COLLATE "C" PRIMARY KEY,
    stream TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    answer TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX commands_by_expiry ON commands (expires_at);
CREATE INDEX outbox_by_room ON outbox (room, position);
CREATE TABLE subscriptions (
    name TEXT COLLATE "C" PRIMARY KEY,
    after BIGINT NOT NULL,                              -- it wants what stands behind this position
    seen BIGINT NOT NULL -- its lanes know all up to here, -1 without a worker
);
CREATE TABLE lanes (
    name TEXT COLLATE "C" NOT NULL,                                  -- the subscription
    room TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,                              -- everything of the room up to here is finished
    attempts BIGINT NOT NULL,                              -- at the next row, so far in vain
    error TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    target BIGINT NOT NULL DEFAULT 0,                      -- the last row that is known of the room
    due_at BIGINT NOT NULL DEFAULT 0,                      -- when a worker may claim it
    refusals BIGINT NOT NULL DEFAULT 0,
    resumes_at BIGINT NOT NULL DEFAULT 0,                  -- of a lane that was woken: when it was due
    owner TEXT COLLATE "C" NOT NULL DEFAULT '',                      -- the worker that has the lease
    token BIGINT NOT NULL DEFAULT 0,                       -- of the last lease that was given
    until BIGINT NOT NULL DEFAULT 0,                       -- when the lease ends
    gap BIGINT NOT NULL DEFAULT 0,                         -- rows parked or skipped since the last delivery
    asked BIGINT NOT NULL DEFAULT 0,                       -- rows that are wanted again
    PRIMARY KEY (name, room)
) WITH (fillfactor = 70);
CREATE TABLE tokens (
    id TEXT COLLATE "C" PRIMARY KEY,
    digest TEXT COLLATE "C" NOT NULL,                   -- of the token, which is not kept
    scopes TEXT COLLATE "C" NOT NULL,
    rooms TEXT COLLATE "C" NOT NULL,                    -- a JSON list, empty for every room
    note TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL                          -- 0 while it is good
);
CREATE TABLE secrets (
    subscription TEXT COLLATE "C" PRIMARY KEY,          -- its name
    secrets TEXT COLLATE "C" NOT NULL                   -- a JSON list of [secret, valid until], newest first
);
CREATE INDEX lanes_due ON lanes (name, due_at) WHERE target > position OR asked > 0;
CREATE TABLE asides (                                   -- rows that left their lane's order
    name TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    room TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,  -- parked, skipping, skipped, asked or delivered
    attempts BIGINT NOT NULL,
    error TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    redelivery BIGINT NOT NULL,                            -- how often it was asked for again
    PRIMARY KEY (name, position)
);
CREATE INDEX asides_open ON asides (name, room, position) WHERE state IN ('asked', 'skipping');
CREATE TABLE trims (
    name TEXT COLLATE "C" PRIMARY KEY,
    position BIGINT NOT NULL                               -- up to here nothing is kept
);
INSERT INTO trims VALUES ('outbox', 0);
"""

READ_MODELS: Final = """
CREATE TABLE sessions (
    key BIGINT PRIMARY KEY,
    room TEXT COLLATE "C" NOT NULL,
    session TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    root_session TEXT COLLATE "C" NOT NULL,
    provider_session_id TEXT COLLATE "C" NOT NULL,
    is_live BIGINT NOT NULL,
    is_deleted BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    last_version BIGINT NOT NULL,
    last_event_at BIGINT NOT NULL,
    message_version BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    turn_count BIGINT NOT NULL,
    text_count BIGINT NOT NULL,
    tool_call_count BIGINT NOT NULL,
    usage TEXT COLLATE "C" NOT NULL
) WITH (fillfactor = 70);
CREATE TABLE session_contents (
    key BIGINT PRIMARY KEY,
    content TEXT COLLATE "C" NOT NULL
);
CREATE TABLE turns (
    key BIGINT NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    content TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (key, turn_id)
);
CREATE TABLE messages (
    key BIGINT NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL,
    sequence BIGINT NOT NULL,
    is_open_tool BIGINT NOT NULL,
    is_text BIGINT NOT NULL,
    position BIGINT NOT NULL,                           -- of the event that added it
    state TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (key, message_id)
);
CREATE TABLE message_parts (
    key BIGINT NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,                           -- of an event that changed what it says
    occurred_at BIGINT NOT NULL,
    PRIMARY KEY (key, message_id, position)
);
CREATE TABLE interactions (
    key BIGINT NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    content TEXT COLLATE "C" NOT NULL
);
CREATE TABLE aggregates (
    key BIGINT PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,                     -- what the aggregate is known by
    version BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX aggregates_by_kind ON aggregates (kind);
CREATE INDEX sessions_by_room ON sessions (room);
CREATE INDEX sessions_by_change ON sessions (updated_at);
CREATE INDEX sessions_by_root ON sessions (root_session);
CREATE INDEX sessions_by_provider ON sessions (provider_session_id);
CREATE INDEX sessions_by_session ON sessions (session);
CREATE INDEX sessions_live ON sessions (room) WHERE is_live = 1;
CREATE UNIQUE INDEX messages_by_version ON messages (key, version);
CREATE INDEX messages_open_tools ON messages (key, turn_id) WHERE is_open_tool = 1;
CREATE UNIQUE INDEX interactions_by_id ON interactions (key, request_id, md5(turn_id));
"""
"""A row of an index has room for one id of 512 characters, and not for two."""


TEXT_COLUMNS: Final = frozenset(
    (
        "id",
        "digest",
        "scopes",
        "rooms",
        "note",
        "subscription",
        "secrets",
        "room",
        "session",
        "state",
        "root_session",
        "provider_session_id",
        "usage",
        "content",
        "turn_id",
        "message_id",
        "request_id",
        "kind",
        "name",
        "error",
        "owner",
    )
)
"""The columns of rows that are text; the others are numbers."""

MIGRATIONS: Final = (LOCK + LOG + OPERATIONS + READ_MODELS,)
"""Statements that lift a store from version n to n + 1 (`store_schema`); the first makes it."""
