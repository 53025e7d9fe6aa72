"""Lanes in a database: who delivers what, how far each lane has come, and what left its order.

One set of statements serves SQLite and PostgreSQL; they stand here as PostgreSQL has them, with `?` for
parameters, and `Statements` knows how each database runs them. A lane is open while it has something to
deliver, and due once `due_at` has come: a lease moves that to its own end, so that the lane of a dead worker
is due again by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from application.lanes import NEVER, UNFINISHED, Choice, Delivered, Lease, Mark, Parking, State
from domain.delivery_schedule import Tries
from domain.errors import LeaseLost, Trimmed
from domain.ids import Position, RoomId, TransactionId
from infrastructure.store.tables import OutboxRow, Row
from infrastructure.store.writer import committed_delta

ASKED_MAX: Final = 100
"""Rows that are wanted again and delivered with one claim of their lane."""
CLOCK_SKEW_MAX_MS: Final = 60_000
"""How far the clocks of workers may be apart, or be put back, before a lease is not believed."""
_OPEN: Final = "(target > position OR asked > 0)"
"""As the index has it."""
_OUTBOX: Final = "SELECT transaction_id, room, first_position, position, recorded_at, delta FROM outbox"


class Statements(Protocol):
    """Runs statements in one transaction."""

    def all(self, statement: str, *parameters: object) -> list[Row]:
        """Run a statement; its rows."""

    def each(self, statement: str, parameters: Iterable[Sequence[object]]) -> list[list[Row]]:
        """Run a statement with rows of parameters, one after the other; the rows of each."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A lane as it was when a worker got it."""

    room: str
    position: int
    target: int
    token: int
    attempts: int
    refusals: int
    resumes_at: int
    gap: int


@dataclass(frozen=True, slots=True)
class Aside:
    """A row that is not delivered in its lane's order."""

    room: str
    position: int
    state: str
    redelivery: int


def outbox_row(row: Row) -> OutboxRow:
    """A row of the outbox, as the columns of `_OUTBOX` have it."""
    return OutboxRow(TransactionId(row[0]), row[1], Position(row[2]), Position(row[3]), row[4], row[5])


class LaneTables:
    """One transaction on the lanes."""

    def __init__(self, statements: Statements) -> None:
        self._all = statements.all
        self._each = statements.each

    # Subscriptions.

    def begin(self, name: str, after: Position) -> None:
        if after < (trimmed := self.hold_trim()):
            raise Trimmed(after, trimmed)
        self.end(name)
        self._all("INSERT INTO subscriptions (name, after, seen) VALUES (?, ?, ?)", name, after, after)

    def end(self, name: str) -> None:
        for table in ("subscriptions", "lanes", "asides"):
            self._all(f"DELETE FROM {table} WHERE name = ?", name)

    # What is new.

    def seen(self, name: str) -> int | None:
        """How far the lanes know the outbox; None when nobody subscribed, or somebody else is at it."""
        rows = self._all("SELECT seen FROM subscriptions WHERE name = ? FOR UPDATE SKIP LOCKED", name)
        return rows[0][0] if rows else None

    def has_new(self, name: str) -> bool:
        """Whether there are rows that the lanes do not know."""
        rows = self._all(
            "SELECT 1 FROM subscriptions s WHERE s.name = ?"
            " AND EXISTS (SELECT 1 FROM outbox o WHERE o.position > s.seen)",
            name,
        )
        return bool(rows)

    def rooms_behind(self, position: int, limit: int) -> list[Row]:
        """Position and room of the next rows of the outbox."""
        return self._all(
            "SELECT position, room FROM outbox WHERE position > ? ORDER BY position LIMIT ?", position, limit
        )

    def rows_behind(self, position: int, limit: int) -> list[OutboxRow]:
        rows = self._all(f"{_OUTBOX} WHERE position > ? ORDER BY position LIMIT ?", position, limit)
        return [outbox_row(row) for row in rows]

    def open(self, name: str, lasts: Mapping[str, int], seen: int, now: int) -> None:
        """Let lanes know the last row of their room; one that had nothing to do is due now."""
        self._each(
            "INSERT INTO lanes (name, room, position, attempts, error, at, target, due_at)"
            " VALUES (?, ?, 0, 0, '', ?, ?, ?)"
            " ON CONFLICT (name, room) DO UPDATE SET target = GREATEST(lanes.target, excluded.target),"
            " due_at = CASE WHEN lanes.target > lanes.position OR lanes.asked > 0"
            " OR lanes.until > excluded.at OR lanes.due_at >= ? THEN lanes.due_at ELSE excluded.due_at END",
            [(name, room, now, last, now, NEVER) for room, last in sorted(lasts.items())],
        )
        self._all("UPDATE subscriptions SET seen = ? WHERE name = ?", seen, name)

    # Leases.

    def has_due(self, name: str, now: int) -> bool:
        """Whether a lane may be claimed."""
        return bool(
            self._all(f"SELECT 1 FROM lanes WHERE name = ? AND {_OPEN} AND due_at <= ? LIMIT 1", name, now)
        )

    def next_due(self, name: str, now: int) -> int | None:
        """When the next lane is due by itself."""
        rows = self._all(
            f"SELECT due_at FROM lanes WHERE name = ? AND {_OPEN} AND due_at > ? AND due_at < ?"
            " ORDER BY due_at LIMIT 1",
            name,
            now,
            NEVER,
        )
        return rows[0][0] if rows else None

    def claim(self, name: str, owner: str, now: int, until: int, limit: int) -> list[Claimed]:
        """Get lanes that are due, the ones due longest first."""
        rows = self._all(
            f"WITH due AS MATERIALIZED (SELECT room FROM lanes WHERE name = ? AND {_OPEN} AND due_at <= ?"
            " ORDER BY due_at LIMIT ? FOR UPDATE SKIP LOCKED)"
            " UPDATE lanes SET owner = ?, token = token + 1, until = ?, due_at = ?"
            " WHERE name = ? AND room IN (SELECT room FROM due)"
            " RETURNING room, position, target, token, attempts, refusals, resumes_at, gap",
            name,
            now,
            limit,
            owner,
            until,
            until,
            name,
        )
        return [Claimed(*row) for row in rows]

    def mend(self, name: str, now: int) -> None:
        """Let lanes be due whose times lie where nobody could have set them: the clock was put back."""
        far = now + CLOCK_SKEW_MAX_MS
        self._all(
            f"UPDATE lanes SET due_at = ? WHERE name = ? AND {_OPEN} AND due_at > ? AND due_at < ?"
            " AND (until > ? OR attempts = 0)",
            *(now, name, far, NEVER, far),
        )

    def rows_of(self, name: str, lanes: Sequence[Claimed], limit: int) -> list[list[OutboxRow]]:
        """What comes next in each lane's own order."""
        found = self._each(
            "SELECT o.transaction_id, o.room, o.first_position, o.position, o.recorded_at, o.delta"
            " FROM outbox o JOIN subscriptions s ON s.name = ? WHERE o.room = ? AND o.position > ?"
            " AND o.position > s.after AND o.position <= ? ORDER BY o.position LIMIT ?",
            [(name, lane.room, lane.position, lane.target, limit) for lane in lanes],
        )
        return [[outbox_row(row) for row in rows] for rows in found]

    def asides_of(self, name: str, rooms: Sequence[str]) -> list[Aside]:
        """Rows of these rooms that are wanted again, or are to be passed over."""
        if not self._all(
            "SELECT 1 FROM asides WHERE name = ? AND state IN ('asked', 'skipping') LIMIT 1", name
        ):
            return []
        found = self._each(
            "SELECT room, position, state, redelivery FROM asides WHERE name = ? AND room = ?"
            " AND state IN ('asked', 'skipping') ORDER BY position",
            [(name, room) for room in rooms],
        )
        return [Aside(*row) for rows in found for row in rows]

    def rows_at(self, positions: Sequence[int]) -> dict[int, OutboxRow]:
        found = self._each(f"{_OUTBOX} WHERE position = ?", [(position,) for position in positions])
        return {row[3]: outbox_row(row) for rows in found for row in rows}

    # Marks.

    def settle(self, marks: Sequence[Mark], owner: str, now: int, until: int) -> list[Lease]:
        """Set marks; the leases that somebody else has got."""
        marks = sorted(marks, key=lambda mark: (mark.lease.subscription, mark.lease.room))
        lost: list[Lease] = []
        for is_plain in (True, False):
            some = [mark for mark in marks if _is_plain(mark) == is_plain]
            found = self._extend(some, owner, until) if is_plain else self._move(some, owner, now, until)
            lost += [mark.lease for mark, rows in zip(some, found, strict=True) if not rows]
        kept = [mark for mark in marks if mark.lease not in lost]
        self._redelivered([(mark.lease.subscription, at) for mark in kept for at in mark.redelivered], now)
        self._pass([mark for mark in kept if mark.is_passing], now)
        return lost

    def _redelivered(self, rows: Sequence[tuple[str, int]], now: int) -> None:
        self._each(
            "UPDATE asides SET state = 'delivered', error = '', at = ? WHERE name = ? AND position = ?",
            [(now, *row) for row in rows],
        )

    def _pass(self, marks: Sequence[Mark], now: int) -> None:
        self._each(
            "UPDATE asides SET state = 'skipped', at = ? WHERE name = ? AND room = ? AND position <= ?"
            " AND state = 'skipping'",
            [(now, mark.lease.subscription, mark.lease.room, mark.position) for mark in marks],
        )

    def _extend(self, marks: Sequence[Mark], owner: str, until: int) -> list[list[Row]]:
        return self._each(
            "UPDATE lanes SET until = ?, due_at = ? WHERE name = ? AND room = ? AND token = ? AND owner = ?"
            " RETURNING 1",
            [
                (until, until, mark.lease.subscription, mark.lease.room, mark.lease.token, owner)
                for mark in marks
            ],
        )

    def _move(self, marks: Sequence[Mark], owner: str, now: int, until: int) -> list[list[Row]]:
        return self._each(
            "UPDATE lanes SET position = GREATEST(position, ?), gap = ?, attempts = ?, refusals = ?,"
            " resumes_at = ?, error = ?, at = ?, owner = ?, until = ?, due_at = ?,"
            " asked = GREATEST(asked - ?, 0)"
            " WHERE name = ? AND room = ? AND token = ? AND owner = ? RETURNING 1",
            [moved(mark, owner, now, until) for mark in marks],
        )

    def wake(self, name: str, now: int) -> None:
        """Let lanes that failed before now and wait for their destination be due, once for each wait."""
        self._all(
            "UPDATE lanes SET resumes_at = due_at, due_at = ?"
            f" WHERE name = ? AND {_OPEN} AND due_at > ? AND due_at < ? AND until <= ? AND attempts > 0"
            " AND refusals = 0 AND resumes_at <= ? AND at < ?",
            *(now, name, now, NEVER, now, now, now),
        )

    # Rows that leave their lane's order.

    def park(self, parking: Parking) -> None:
        lease = parking.lease
        if not self._park(parking, 0 if parking.is_redelivery else parking.position):
            raise LeaseLost(f"{lease.subscription}: somebody else delivers {lease.room} now")
        self._put_aside(
            lease.subscription,
            parking.position,
            lease.room,
            "parked",
            parking.attempts,
            parking.error,
            parking.now,
        )

    def _park(self, parking: Parking, position: int) -> bool:
        """Give the lane back, if it is still had."""
        lease = parking.lease
        found = self._all(
            "UPDATE lanes SET position = GREATEST(position, ?), gap = ?, attempts = 0, refusals = 0,"
            " resumes_at = 0, error = ?, at = ?, owner = '', until = 0, due_at = ?,"
            " asked = GREATEST(asked - ?, 0)"
            " WHERE name = ? AND room = ? AND token = ? AND owner = ? RETURNING 1",
            position,
            parking.gap,
            parking.error,
            parking.now,
            parking.due_at,
            int(parking.is_redelivery),
            lease.subscription,
            lease.room,
            lease.token,
            parking.owner,
        )
        return bool(found)

    def _put_aside(
        self, name: str, position: int, room: str, state: str, attempts: int, error: str, now: int
    ) -> None:
        self._all(
            "INSERT INTO asides (name, position, room, state, attempts, error, at, redelivery)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT (name, position) DO UPDATE SET"
            " state = excluded.state, attempts = excluded.attempts, error = excluded.error, at = excluded.at",
            name,
            position,
            room,
            state,
            attempts,
            error,
            now,
        )

    def skip(self, name: str, rows: Sequence[Delivered], now: int) -> None:
        for row in rows:
            committed = row.committed
            is_in_order = row.state in UNFINISHED and not row.redelivery
            state = "skipping" if is_in_order else "skipped"
            self._put_aside(
                name, committed.last_position, committed.room, state, row.attempts, row.error, now
            )
            is_asked = row.state in UNFINISHED and bool(row.redelivery)
            self._free(name, committed.room, now, asked=-int(is_asked))

    def ask(self, name: str, rows: Sequence[Delivered], now: int) -> None:
        for row in rows:
            committed = row.committed
            if row.state in UNFINISHED:
                self._free(name, committed.room, now)
                continue
            self._put_aside(
                name, committed.last_position, committed.room, "asked", row.attempts, row.error, now
            )
            self._count_redelivery(name, committed.last_position)
            self._free(name, committed.room, now, asked=1)

    def _count_redelivery(self, name: str, position: int) -> None:
        self._all(
            "UPDATE asides SET redelivery = redelivery + 1 WHERE name = ? AND position = ?", name, position
        )

    def _free(self, name: str, room: str, now: int, *, asked: int = 0) -> None:
        """Let a lane begin anew, whoever has it."""
        self._all(
            "UPDATE lanes SET owner = '', until = 0, token = token + 1, attempts = 0, refusals = 0,"
            " resumes_at = 0, due_at = ?, asked = GREATEST(asked + ?, 0) WHERE name = ? AND room = ?",
            now,
            asked,
            name,
            room,
        )

    # What is kept.

    def trimmed(self) -> int:
        """Up to this position no row of the outbox is kept."""
        return int(self._all("SELECT position FROM trims WHERE name = 'outbox'")[0][0])

    def hold_trim(self) -> int:
        """The same, while nobody else trims, nor begins a subscription."""
        return int(self._all("SELECT position FROM trims WHERE name = 'outbox' FOR UPDATE")[0][0])

    def first_unfinished(self) -> int | None:
        """The first row that a subscription has neither had nor parked nor skipped; None when all is done."""
        found = [
            position
            for name, after, seen in self._all("SELECT name, after, seen FROM subscriptions ORDER BY name")
            for position in self._unfinished(name, after, seen)
            if position is not None
        ]
        return min(found, default=None)

    def _unfinished(self, name: str, after: int, seen: int) -> list[int | None]:
        if seen < 0:
            rows = self._all(
                "SELECT o.position FROM outbox o LEFT JOIN lanes l ON l.name = ? AND l.room = o.room"
                " WHERE o.position > ? AND o.position > COALESCE(l.position, 0) ORDER BY o.position LIMIT 1",
                name,
                after,
            )
            return [row[0] for row in rows]
        in_lanes = self._all(
            "SELECT min(first) FROM (SELECT (SELECT min(o.position) FROM outbox o WHERE o.room = lanes.room"
            " AND o.position > lanes.position AND o.position > ?) AS first"
            f" FROM lanes WHERE name = ? AND {_OPEN}) AS firsts",
            after,
            name,
        )
        asked = self._all("SELECT min(position) FROM asides WHERE name = ? AND state = 'asked'", name)
        new = self._all("SELECT min(position) FROM outbox WHERE position > ?", seen)
        return [in_lanes[0][0], asked[0][0], new[0][0]]

    def oldest(self, limit: int) -> list[Row]:
        """Position and recorded time of the first rows that are kept."""
        return self._all("SELECT position, recorded_at FROM outbox ORDER BY position LIMIT ?", limit)

    def trim(self, position: int) -> None:
        """Keep nothing up to a position."""
        self._all("DELETE FROM outbox WHERE position <= ?", position)
        self._all("DELETE FROM asides WHERE position <= ?", position)
        self._all("UPDATE trims SET position = ? WHERE name = 'outbox'", position)

    # Looking.

    def standing(self, name: str, choice: Choice, now: int, after: int, limit: int) -> list[Delivered]:
        """Rows as a subscription has them, oldest first, whether or not it wants them."""
        conditions, parameters = _chosen(choice)
        rows = self._all(
            f"SELECT * FROM ({_STANDING}) AS standing WHERE {conditions} ORDER BY position LIMIT ?",
            *(now, now, name, after),
            *parameters,
            limit,
        )
        return [_delivered(name, row) for row in rows]


_STANDING: Final = """
    SELECT o.transaction_id, o.room, o.first_position, o.position, o.recorded_at, o.delta,
        CASE
            WHEN a.state IN ('parked', 'skipped', 'delivered') THEN a.state
            WHEN a.state = 'skipping' THEN 'skipped'
            WHEN a.state IS NULL AND o.position <= l.position THEN 'delivered'
            WHEN l.until > ? AND (o.position <= l.target OR a.state = 'asked') THEN 'claimed'
            WHEN l.due_at > ? AND (o.position <= l.target OR a.state = 'asked') THEN 'waiting'
            ELSE 'pending'
        END AS state,
        COALESCE(a.attempts, 0) AS aside_attempts, COALESCE(a.error, '') AS aside_error,
        COALESCE(a.redelivery, 0) AS redelivery, COALESCE(l.attempts, 0) AS attempts,
        COALESCE(l.error, '') AS error, COALESCE(l.due_at, 0) AS due_at, COALESCE(l.owner, '') AS owner
    FROM outbox o
    JOIN subscriptions s ON s.name = ? AND o.position > s.after
    LEFT JOIN lanes l ON l.name = s.name AND l.room = o.room
    LEFT JOIN asides a ON a.name = s.name AND a.position = o.position
    WHERE o.position > ?
"""


def _chosen(choice: Choice) -> tuple[str, list[object]]:
    conditions, parameters = ["1 = 1"], list[object]()
    if choice.room:
        conditions.append("room = ?")
        parameters.append(choice.room)
    if choice.since:
        conditions.append("recorded_at >= ?")
        parameters.append(choice.since)
    for column, chosen in (
        ("state", sorted(choice.states)),
        ("transaction_id", sorted(choice.transactions)),
    ):
        if chosen:
            conditions.append(f"{column} IN ({', '.join('?' * len(chosen))})")
            parameters += map(str, chosen)
    return " AND ".join(conditions), parameters


def _delivered(name: str, row: Row) -> Delivered:
    state, aside_attempts, aside_error, redelivery, attempts, error, due_at, owner = row[6:]
    committed = committed_delta(outbox_row(row))
    is_open = State(state) in UNFINISHED
    return Delivered(
        subscription=name,
        committed=committed,
        state=State(state),
        attempts=attempts if is_open else aside_attempts,
        due_at=due_at if state == State.WAITING else 0,
        error=error if is_open else aside_error,
        redelivery=redelivery,
        owner=owner if state == State.CLAIMED else "",
    )


def _is_plain(mark: Mark) -> bool:
    """Whether a mark only keeps the lease."""
    return not (mark.position or mark.redelivered or mark.release)


def moved(mark: Mark, owner: str, now: int, until: int) -> Row:
    """What a mark sets, in the order of the statement that moves a lane."""
    release = mark.release
    tries: Tries = release.tries if release else mark.tries
    return (
        mark.position,
        mark.gap,
        tries.attempts,
        tries.refusals,
        tries.resumes_at,
        release.error if release else "",
        now,
        "" if release else owner,
        0 if release else until,
        release.due_at if release else until,
        len(mark.redelivered),
        mark.lease.subscription,
        mark.lease.room,
        mark.lease.token,
        owner,
    )


def lease_of(name: str, lane: Claimed) -> Lease:
    """The right to a lane that was claimed."""
    return Lease(name, RoomId(lane.room), lane.token)
