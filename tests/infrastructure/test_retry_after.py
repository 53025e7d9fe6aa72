"""Retry-After in all its spellings."""

import pytest

from infrastructure.retry_after import RETRY_AFTER_S_MAX, retry_after_s

MARCH_2026_MS = 1_772_355_600_000
"""2026-03-01T09:00:00Z."""


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("1", 1.0),
        (" 120 ", 120.0),
        ("1.5", 1.5),
        ("Sun, 01 Mar 2026 09:00:20 GMT", 20.0),
        ("Sunday, 01-Mar-26 09:00:20 GMT", 20.0),
        ("Sun Mar  1 09:00:20 2026", 20.0),
        ("Sun, 01 Mar 2026 11:00:20 +0200", 20.0),
    ],
)
def test_seconds_and_dates_say_how_long(value: str, wait_s: float) -> None:
    assert retry_after_s(value, MARCH_2026_MS) == wait_s


@pytest.mark.parametrize("value", ["3601", "9" * 400, "Sun, 01 Mar 2026 10:30:00 GMT"])
def test_nobody_asks_for_more_than_an_hour(value: str) -> None:
    """B6: the ceiling holds for every spelling."""
    assert retry_after_s(value, MARCH_2026_MS) == RETRY_AFTER_S_MAX == 3600


@pytest.mark.parametrize(
    "value",
    [
        *(
            None,
            "",
            " ",
            "0",
            "-5",
            "soon",
            "inf",
            "nan",
            "1e3",
            "٣",
            "1, 2",
            "Sun, 01 Mar 2026 08:59:59 GMT",
        ),
        *(
            "Sun, 99 Mar 2026 10:00:00 GMT",
            "Sun, 01 Mar 99999 10:00:00 GMT",
            "10:00",
            "Mon",
            "\0",
            "--",
            "5 s",
        ),
    ],
)
def test_what_is_past_or_unreadable_says_nothing(value: str | None) -> None:
    """B6: bad values are ignored."""
    assert retry_after_s(value, MARCH_2026_MS) is None
