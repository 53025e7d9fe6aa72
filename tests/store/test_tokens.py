"""A token is shown once, kept as a digest, and good until it is revoked."""

import pytest

from application import access
from application.access import Scope
from domain.errors import NotFound, Rejected
from infrastructure.store.tables import TOKENS
from infrastructure.store.tokens import StoredTokens
from tests.store.place import START_MS, Place

SECRET = bytes(range(32))
OTHER = bytes(32)


def test_the_store_knows_a_token_and_not_its_secret(place: Place) -> None:
    database = place.database()
    tokens = StoredTokens(database)

    text, token = access.create(tokens, SECRET, [Scope.READ], ["r/1", 'r"2'], "for π\x00\ud800", START_MS)

    assert text.startswith("reprise_")
    assert access.find(tokens, text) == token
    assert list(StoredTokens(place.database()).all()) == [token]
    with database.read() as tables:
        kept = repr(list(tables.rows(TOKENS)))
    assert text.removeprefix("reprise_") not in kept


def test_a_revoked_token_is_still_listed_and_good_for_nothing(place: Place) -> None:
    tokens = StoredTokens(place.database())
    text, token = access.create(tokens, SECRET, [Scope.REPORT], [], "", START_MS)
    other, _ = access.create(tokens, OTHER, [Scope.REPORT], [], "", START_MS + 1)

    revoked = access.revoke(tokens, token.id, START_MS + 2)

    assert access.find(tokens, text) is None
    assert access.find(tokens, other) is not None
    assert revoked.revoked_at == START_MS + 2
    assert access.revoke(tokens, token.id, START_MS + 9) == revoked
    assert next(iter(tokens.all())).id == token.id
    with pytest.raises(NotFound, match="no token nothing"):
        access.revoke(tokens, "nothing", START_MS)


@pytest.mark.parametrize("text", ["", "reprise_", "reprise_AAECAwQ", "x" * 10_000, "\ud800", "é"])
def test_no_other_text_is_a_token(place: Place, text: str) -> None:
    tokens = StoredTokens(place.database())
    access.create(tokens, SECRET, [Scope.READ], [], "", START_MS)

    assert access.find(tokens, text) is None


def test_operating_includes_reporting_and_reading_and_these_two_nothing_else(place: Place) -> None:
    tokens = StoredTokens(place.database())

    def allowed(*scopes: Scope) -> set[Scope]:
        _, token = access.create(tokens, SECRET, scopes, [], "", START_MS)
        return {scope for scope in Scope if token.allows(scope)}

    assert allowed(Scope.OPERATE) == set(Scope)
    assert allowed(Scope.READ) == {Scope.READ}
    assert allowed(Scope.REPORT) == {Scope.REPORT}
    assert allowed(Scope.REPORT, Scope.READ) == {Scope.REPORT, Scope.READ}


def test_a_token_reaches_the_rooms_it_names_or_all(place: Place) -> None:
    tokens = StoredTokens(place.database())
    _, some = access.create(tokens, SECRET, [Scope.READ], ["a", "b", "a"], "", START_MS)
    _, every = access.create(tokens, OTHER, [Scope.READ], [], "", START_MS)

    assert [room for room in ("a", "b", "c", "") if some.reaches(room)] == ["a", "b"]
    assert every.reaches("c")


@pytest.mark.parametrize(
    ("scopes", "rooms", "note"),
    [([], [], ""), ([Scope.READ], [" "], ""), ([Scope.READ], ["a "], ""), ([Scope.READ], [], "n" * 201)],
)
def test_a_token_that_means_nothing_is_refused(
    place: Place, scopes: list[Scope], rooms: list[str], note: str
) -> None:
    with pytest.raises(Rejected):
        access.create(StoredTokens(place.database()), SECRET, scopes, rooms, note, START_MS)
