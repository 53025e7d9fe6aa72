"""What a session was can be told at any of its versions, and how two versions differ."""

from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from application.views import SessionView
from domain.errors import NotFound
from tests.properties.histories import ROOM, SESSIONS, Step, histories
from tests.properties.playing import opened


@given(histories())
def test_a_session_at_a_version_is_what_readers_saw_then(history: list[Step]) -> None:
    with opened() as house:
        seen: dict[tuple[str, int], SessionView] = {}
        purged: set[str] = set()
        for step in history:
            house.attempt(step)
            for name in SESSIONS:
                if view := house.ledger.session(ROOM, name):
                    seen[name, view.stream_version] = view
                else:
                    purged.add(name)
        for (name, version), view in seen.items():
            told = house.ledger.session_at(ROOM, name, version=version)
            if name not in purged:
                assert told == view
            else:  # What it said is gone; that it happened is not.
                assert told.status == view.status


@given(histories(), st.integers(0, 40), st.integers(0, 40))
def test_a_comparison_leads_from_one_version_to_the_other_and_names_an_event_for_each_change(
    history: list[Step], first: int, second: int
) -> None:
    with opened() as house:
        house.play(history)
        for name in SESSIONS:
            try:
                compared = house.ledger.compare(ROOM, name, first, second)
            except NotFound:
                continue
            patch = jsonpatch.make_patch(compared.before, compared.after)
            assert patch.apply(compared.before) == compared.after
            for change in patch.patch:
                path: Any = tuple(jsonpatch.JsonPointer(change["path"]).parts)
                maker = compared.maker(path) or compared.maker(path[:-1])
                if path:
                    assert maker is not None
                    assert min(first, second) < maker.version <= max(first, second)
