"""Whatever happens at a remote, on the way and here: in the end what lives there is here as it is there.

Histories of remote changes, resets, bad rows and failures, of reports and commands here, and of rounds; then
everything heals, and a few rounds have to be enough.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from application.pull_calls import Pace
from application.pull_schedule import service_schedule
from domain import backoff, tracked_room
from domain.backoff import BACKOFF
from domain.ids import SessionId
from infrastructure.asynchronous import AsyncLedger
from infrastructure.main import open_ledger_async
from infrastructure.pulls import PullLoop
from tests.pulling.place import ROOM, FakeClock
from tests.remote.fake import FakeRemoteActivity
from tests.remote.hosted import HostedMessage, Step

URL = "http://127.0.0.1:1"
STILL = Pace(spreads=False)
SESSIONS = ("s1", "s2", "s3")
HOUR_MS = 3_600_000
HEALING_ROUNDS = 12
"""Three to see that a session is gone, one for each epoch, and some to spare."""

VERBS = ("message", "delete", "restore", "hide", "unhide", "pause", "resume", "reset", "title")

sessions = st.sampled_from(SESSIONS)
texts = st.sampled_from(["", "a", "ab", "abc", "b", "e\N{COMBINING ACUTE ACCENT}", "\0", "\udc00"])
EXTRAS: tuple[dict[str, Any], ...] = ({}, {"more": 1}, {"list": [1, "a"]})
PHASES = ("", "submitted", "running", "waiting", "settling", "settled", "failed")
BAD_ROWS = ('"nothing"', '{"version": VERSION, "messageId": ["no id"]}', '{"messageId": "m1"}', "[1, 2]")


@st.composite
def remote_messages(draw: st.DrawFn) -> Step:
    """A message of the remote is new or changes; its turn follows from its name."""
    number = draw(st.integers(1, 5))
    kind = draw(st.sampled_from(["text", "text", "tool_call", "session_audit"])) if number < 4 else "text"
    fields: dict[str, Any] = {
        "turnId": "" if number == 5 else f"t{number % 3}",
        "kind": kind if number < 4 else "text",
        "role": draw(st.sampled_from(["assistant", "user"])),
        "status": draw(st.sampled_from(["", "running", "completed"])),
        "payload": {"text": draw(texts) or "x"}
        | draw(st.sampled_from([{}, {"more": 1}, {"list": [1, "a"]}])),
    }
    if draw(st.booleans()):
        fields["occurredAtUnixMs"] = draw(st.sampled_from([0, 1, 1_710_000_005_000, 1_900_000_000_000]))
    name = f"m{number}-{kind}" if number < 4 else f"m{number}"
    return {"do": "message", "room": ROOM, "session": draw(sessions), "message": name, "fields": fields}


bad_rows = st.builds(
    lambda session, number, raw: {
        "do": "message",
        "room": ROOM,
        "session": session,
        "message": f"m{number}",
        "fields": {"turnId": "" if number == 5 else f"t{number % 3}"},
        "raw": raw,
    },
    sessions,
    st.integers(4, 5),
    st.sampled_from(BAD_ROWS),
)
remote_sessions = st.builds(
    lambda session, fields: {"do": "session", "room": ROOM, "session": session, "fields": fields},
    sessions,
    st.fixed_dictionaries(
        {},
        optional={
            "status": st.sampled_from(["idle", "working", "waiting", "failed", "completed"]),
            "lifecycleStatus": st.sampled_from(["", "active", "completed", "failed"]),
            "turnPhase": st.sampled_from(
                ["", "submitted", "running", "waiting", "settling", "settled", "failed"]
            ),
            "title": st.sampled_from(["", "One", "Two"]),
            "updatedAtUnixMs": st.sampled_from([0, 1_710_000_009_000]),
        },
    ),
)
child = st.just(
    {
        "do": "session",
        "room": ROOM,
        "session": "s3",
        "fields": {
            "kind": "child",
            "rootAgentSessionId": "s1",
            "parentAgentSessionId": "s1",
            "rootTurnId": "t1",
        },
    }
)
failures = st.builds(
    lambda what, status, route, seed: {
        "do": "fail",
        "what": what,
        "status": status,
        "share": 0.4,
        "seed": seed,
        **({"route": route} if route else {}),
    },
    st.sampled_from(["status", "html", "cut", "truncated", "large", "canceled", "silent"]),
    st.sampled_from([404, 429, 500, 503]),
    st.sampled_from(["", "agents", "messages"]),
    st.integers(0, 9),
)
too_large = st.builds(
    lambda session, version: {
        "do": "fail",
        "route": "messages",
        "session": session,
        "covers": version,
        "what": "large",
    },
    sessions,
    st.integers(1, 6),
)
at_the_remote = st.one_of(
    remote_messages(),
    remote_messages(),
    remote_messages(),
    bad_rows,
    remote_sessions,
    child,
    st.builds(lambda session: {"do": "remove", "room": ROOM, "session": session}, sessions),
    st.just({"do": "reset", "room": ROOM}),
    failures,
    too_large,
    st.just({"do": "heal"}),
)
here = st.one_of(
    st.builds(
        lambda session, state: {"here": "state", "session": session, "state": state},
        sessions,
        st.sampled_from(
            [
                {"title": "Ours"},
                {"turn": {"turnId": "t1", "phase": "running"}},
                {"turn": {"turnId": "t1", "phase": "settled", "outcome": "failed"}},
                {"turn": {"turnId": "ours", "phase": "submitted"}},
                {"turn": {"turnId": "ours", "phase": "running"}},
                {"lifecycleStatus": "completed"},
                {"lifecycleStatus": "active", "currentPhase": "working"},
            ]
        ),
    ),
    st.builds(lambda verb, session: {"here": verb, "session": session}, st.sampled_from(VERBS), sessions),
    st.builds(lambda verb: {"here": verb, "session": "s1"}, st.sampled_from(["track", "untrack"])),
)
rounds = st.builds(lambda seconds: {"round": seconds}, st.sampled_from([0, 5, 30, 400, 4_000]))
histories = st.lists(st.one_of(at_the_remote, at_the_remote, here, rounds, rounds), max_size=40)


@dataclass
class Played:
    """A ledger, a loop that pulls into it, and the remote."""

    ledger: AsyncLedger
    loop: PullLoop
    remote: FakeRemoteActivity
    clock: FakeClock
    removed: set[str] = field(default_factory=set)
    """Sessions that are gone for good in this epoch: their versions are never used again."""

    async def do(self, step: Step) -> None:
        if "round" in step:
            await self.round(step["round"])
        elif "here" in step:
            await self.act(step)
        elif step["do"] == "remove":
            if step["session"] in self.remote.hosted.rooms[ROOM].sessions:
                self.remote.do(step)
                self.removed.add(step["session"])
        elif step.get("session") not in self.removed:
            self.remote.do(step)
            if step["do"] == "reset":
                self.removed.clear()

    async def round(self, seconds: int) -> None:
        self.clock.now += seconds * 1_000
        await self.loop.refresh()
        self.loop.trigger(ROOM)
        await self.loop.once()

    async def act(self, step: Step) -> None:
        """Do something here."""
        session, known = SessionId(step["session"]), await self.ledger.session(ROOM, step["session"])
        match step["here"]:
            case "state":
                await self.ledger.report_state({"state": step["state"]}, room=ROOM, session=session)
            case "message":
                update = {
                    "messageId": "ours",
                    "kind": "session_audit",
                    "role": "system",
                    "payload": {"text": "a"},
                }
                await self.ledger.report_messages({"updates": [update]}, room=ROOM, session=session)
            case "title" if known:
                await self.ledger.set_title(ROOM, session, "By hand")
            case "delete":
                await self.ledger.delete(ROOM, session)
            case "restore" if known:
                await self.ledger.restore(ROOM, session)
            case "hide":
                await self.change_room(lambda room: tracked_room.hide(room, session))
            case "unhide":
                await self.change_room(lambda room: tracked_room.unhide(room, session))
            case "track":
                await self.change_room(lambda room: tracked_room.track(room, URL))
            case "untrack":
                await self.change_room(tracked_room.untrack)
            case "pause":
                await self.ledger.change(BACKOFF, ROOM, backoff.pause)
            case "resume":
                await self.ledger.change(BACKOFF, ROOM, backoff.resume)
            case "reset":
                await self.ledger.change(BACKOFF, ROOM, backoff.reset)

    async def change_room(self, rule: Any) -> None:
        await self.ledger.change(tracked_room.ROOM, ROOM, rule)

    async def heal(self, once_large: Collection[str]) -> None:
        """Whatever is in the way goes, at the remote, on the way and here; then rounds go by.

        What was parked comes again when it changes: that is so for rows that could not be read, and for all
        of a session that had rows too large.
        """
        self.remote.do({"do": "heal"})
        for name, hosted in self.remote.hosted.rooms[ROOM].sessions.items():
            for message, one in list(hosted.messages.items()):
                if one.raw is not None or name in once_large:
                    hosted.put(message, {"payload": {"text": f"{name} is well"}})
        for verb in ("track", "resume"):
            await self.act({"here": verb, "session": "s1"})
        for session in SESSIONS:
            await self.act({"here": "unhide", "session": session})
            await self.act({"here": "restore", "session": session})
        for _ in range(HEALING_ROUNDS):
            await self.round(HOUR_MS // 1_000 + 1)

    async def compare(self) -> None:
        """Every message of the home is here as it is there."""
        for name, hosted in self.remote.hosted.rooms[ROOM].sessions.items():
            page = await self.ledger.messages(ROOM, name, limit=500)
            ours = {one.message_id: one for one in page.messages}
            for message, theirs in hosted.messages.items():
                assert message in ours, (name, message)
                assert ours[message].payload == theirs.row["payload"], (name, message)
                assert _fact_names(theirs) == (ours[message].role, ours[message].kind), (name, message)
                if theirs.row.get("status"):
                    assert ours[message].status == theirs.row["status"], (name, message)


def _fact_names(theirs: HostedMessage) -> tuple[str, str]:
    return theirs.row["role"], theirs.row["kind"]


@asynccontextmanager
async def played(*, says_home: bool) -> AsyncIterator[Played]:
    clock = FakeClock()
    remote = FakeRemoteActivity(now_ms=clock.now_ms)
    remote.do({"do": "speak", "room": ROOM, "home": "there" if says_home else ""})
    async with open_ledger_async("memory://", clock=clock) as ledger:
        await ledger.change(tracked_room.ROOM, ROOM, lambda room: tracked_room.track(room, URL))
        yield Played(ledger, PullLoop(ledger, remote, service_schedule(pace=STILL), clock), remote, clock)


async def _tell(history: Sequence[Step], *, says_home: bool) -> None:
    async with played(says_home=says_home) as place:
        for step in history:
            await place.do(step)
        await place.heal({step["session"] for step in history if "covers" in step})
        if says_home or not any(step.get("do") == "reset" for step in history):
            await place.compare()

        before = await place.ledger.verify()
        await place.round(5)
        after = await place.ledger.verify()
        assert before.problems == after.problems == ()
        assert after.events == before.events, "a healthy round without news stores nothing"


@given(history=histories, says_home=st.booleans())
def test_what_lives_elsewhere_is_mirrored_whatever_happens(history: list[Step], says_home: bool) -> None:
    """P2, P4 to P8. An epoch that nobody announces may look like the one before: it only has to rest."""
    asyncio.run(_tell(history, says_home=says_home))
