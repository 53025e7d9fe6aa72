"""A subscription's secrets: one signs, the one before it goes on for a while, and nothing shows them."""

from base64 import b64decode

import pytest

from application import signing
from application.signing import Secret
from infrastructure.store.copying import copy
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.secrets import StoredSecrets
from tests.store.place import START_MS, Place

FIRST, SECOND, THIRD = (bytes([number]) * signing.SECRET_BYTES for number in (1, 2, 3))
DAY_MS = signing.ROTATION_S * 1_000


def test_a_secret_is_kept_until_it_is_rotated(place: Place) -> None:
    value = signing.create(StoredSecrets(place.database()), "crm", FIRST)

    secrets = StoredSecrets(place.database())
    assert b64decode(value.removeprefix("whsec_")) == FIRST
    assert secrets.of("crm") == [Secret(value)]
    assert secrets.of("other") == []


def test_a_rotated_secret_goes_on_signing_for_a_day_and_is_then_destroyed(place: Place) -> None:
    secrets = StoredSecrets(place.database())
    first = signing.create(secrets, "crm", FIRST)

    second = signing.rotate(secrets, "crm", SECOND, START_MS)

    kept = secrets.of("crm")
    assert kept == [Secret(second), Secret(first, START_MS + DAY_MS)]
    assert [one.signs(START_MS + DAY_MS - 1) for one in kept] == [True, True]
    assert [one.signs(START_MS + DAY_MS) for one in kept] == [True, False]

    third = signing.rotate(secrets, "crm", THIRD, START_MS + DAY_MS)
    assert secrets.of("crm") == [Secret(third), Secret(second, START_MS + 2 * DAY_MS)]


def test_rotating_twice_at_once_keeps_what_receivers_may_still_have(place: Place) -> None:
    secrets = StoredSecrets(place.database())
    first = signing.create(secrets, "crm", FIRST)

    second = signing.rotate(secrets, "crm", SECOND, START_MS)
    third = signing.rotate(secrets, "crm", THIRD, START_MS + 1)

    assert secrets.of("crm") == [
        Secret(third),
        Secret(second, START_MS + 1 + DAY_MS),
        Secret(first, START_MS + DAY_MS),
    ]


def test_a_secret_that_got_out_stops_signing_at_once(place: Place) -> None:
    secrets = StoredSecrets(place.database())
    signing.create(secrets, "crm", FIRST)
    signing.rotate(secrets, "crm", SECOND, START_MS)

    third = signing.rotate(secrets, "crm", THIRD, START_MS + 1, keep_s=0)

    assert secrets.of("crm") == [Secret(third)]


def test_a_store_that_goes_on_elsewhere_signs_as_before_and_forgets_what_was_forgotten(place: Place) -> None:
    source, target = place.database(), MemoryDatabase()
    secrets = StoredSecrets(source)
    kept, gone = signing.create(secrets, "crm", FIRST), signing.create(secrets, "old", SECOND)
    with place.ledger() as ledger:
        ledger.report_state({"state": {"title": "a"}}, room="r", session="s")

    copy(source, target)
    assert [StoredSecrets(target).of(name) for name in ("crm", "old")] == [[Secret(kept)], [Secret(gone)]]

    signing.forget(secrets, "old")
    copy(source, target)
    assert [StoredSecrets(target).of(name) for name in ("crm", "old")] == [[Secret(kept)], []]


def test_a_forgotten_secret_is_gone(place: Place) -> None:
    secrets = StoredSecrets(place.database())
    signing.create(secrets, "crm", FIRST)

    signing.forget(secrets, "crm")

    assert secrets.of("crm") == []


def test_no_secret_shows_when_it_is_printed_by_mistake() -> None:
    assert "whsec_" not in repr(Secret("whsec_c2VjcmV0"))


@pytest.mark.parametrize("size", [23, 65])
def test_a_secret_has_as_many_bytes_as_the_standard_wants(place: Place, size: int) -> None:
    with pytest.raises(AssertionError, match="24 to 64"):
        signing.create(StoredSecrets(place.database()), "crm", bytes(size))
