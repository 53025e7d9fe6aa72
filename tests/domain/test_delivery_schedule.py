"""The schedule of deliveries: ten attempts over three days, and what ends it sooner (SPEC L5)."""

from datetime import timedelta

import pytest

from domain.delivery_schedule import ATTEMPTS_MAX, WAITS_S, Parks, Tries, Waits, after_failure

NOW = 1_772_355_600_000


def fails(tries: Tries, now: int = NOW, chance: float = 0, **more: object) -> Waits | Parks:
    return after_failure(tries, refused=False, now=now, chance=chance, **more)  # type: ignore[arg-type]


def refuses(tries: Tries, **more: object) -> Waits | Parks:
    return after_failure(tries, refused=True, now=NOW, chance=0, **more)  # type: ignore[arg-type]


def test_ten_attempts_are_made_over_75_hours_and_35_minutes() -> None:
    """L5: Then it is given up."""
    now, tries, waits = NOW, Tries(), []
    for _ in range(ATTEMPTS_MAX - 1):
        after = fails(tries, now)
        assert isinstance(after, Waits)
        waits.append((after.due_at - now) // 1_000)
        now, tries = after.due_at, after.tries

    assert waits == list(WAITS_S[1:])
    assert timedelta(milliseconds=now - NOW) == timedelta(hours=75, minutes=35, seconds=5)
    assert fails(tries, now) == Parks(Tries(10))


@pytest.mark.parametrize(("chance", "wait_ms"), [(0, 5_000), (0.5, 5_250), (1, 5_500)])
def test_chance_makes_a_wait_longer_and_never_shorter(chance: float, wait_ms: int) -> None:
    assert fails(Tries(), chance=chance) == Waits(Tries(1), NOW + wait_ms)


def test_a_wish_for_a_later_time_is_a_floor() -> None:
    assert fails(Tries(), retry_after_s=120) == Waits(Tries(1), NOW + 120_000)
    assert fails(Tries(1), retry_after_s=120) == Waits(Tries(2), NOW + 300_000)


@pytest.mark.parametrize("nonsense", [0, -5, float("nan")])
def test_a_wish_that_means_nothing_is_not_heard(nonsense: float) -> None:
    assert fails(Tries(), retry_after_s=nonsense) == Waits(Tries(1), NOW + 5_000)


def test_a_wish_for_next_year_is_heard_up_to_a_day() -> None:
    assert fails(Tries(), retry_after_s=float("inf")) == Waits(Tries(1), NOW + 86_400_000)


def test_a_delta_that_is_refused_three_times_is_parked() -> None:
    first = refuses(Tries())
    assert first == Waits(Tries(1, 1), NOW + 5_000)
    second = refuses(first.tries)
    assert second == Waits(Tries(2, 2), NOW + 300_000)
    assert refuses(second.tries) == Parks(Tries(3, 3))


def test_failures_of_the_endpoint_are_no_refusals() -> None:
    assert refuses(Tries(5, 1)) == Waits(Tries(6, 2), NOW + WAITS_S[6] * 1_000)


def test_a_delta_that_is_wanted_again_is_parked_by_one_refusal() -> None:
    assert refuses(Tries(), is_redelivery=True) == Parks(Tries(1, 1))
    assert fails(Tries(), is_redelivery=True) == Waits(Tries(1), NOW + 5_000)


def test_a_lane_that_was_woken_in_vain_goes_back_to_its_schedule() -> None:
    """The attempt more costs it none of its ten."""
    woken = Tries(4, resumes_at=NOW + 60_000)

    assert fails(woken) == Waits(woken, NOW + 60_000)
    assert fails(woken, retry_after_s=90) == Waits(woken, NOW + 90_000)
    assert fails(woken, now=NOW + 60_000) == Waits(Tries(5), NOW + 60_000 + 18_000_000)
