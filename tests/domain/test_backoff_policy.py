"""Lengths of waits: how they grow, what is added to them, and what is no length."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.backoff_policy import SEED_POLICY, SERVICE_POLICY, BackoffPolicy, has_ended
from domain.chance import chance

T0 = 1_772_355_600_000


def steps(policy: BackoffPolicy, count: int) -> list[float]:
    found = [policy.next(0.0)]
    while len(found) < count:
        found.append(policy.next(found[-1]))
    return found


def test_the_seeds_waits_double_up_to_five_minutes() -> None:
    """B2: 10, 20, 40, 80, 160, 300, 300 … s, whatever chance draws and the remote asks for."""
    assert steps(SEED_POLICY, 8) == [10, 20, 40, 80, 160, 300, 300, 300]
    assert [SEED_POLICY.delay(step, 3_600.0, 0.99).total_s for step in (10.0, 300.0)] == [10.0, 300.0]


def test_a_step_is_cut_at_the_maximum() -> None:
    policy = BackoffPolicy(initial_s=10, maximum_s=15)

    assert policy.next(10) == 15
    assert policy.next(0) == 10


def test_the_first_step_is_the_smaller_of_initial_and_maximum() -> None:
    """B2: next(0) = min(initial, maximum)."""
    assert steps(BackoffPolicy(initial_s=10, maximum_s=4), 3) == [4, 4, 4]


def test_without_a_maximum_every_step_is_the_first_one() -> None:
    assert steps(BackoffPolicy(initial_s=7), 3) == [7, 7, 7]


@pytest.mark.parametrize("multiplier", [0.0, 0.5, 1.0])
def test_a_multiplier_below_one_counts_as_one(multiplier: float) -> None:
    assert steps(BackoffPolicy(initial_s=10, maximum_s=300, multiplier=multiplier), 3) == [10, 10, 10]


def test_a_huge_multiplier_reaches_the_maximum_at_once() -> None:
    assert steps(BackoffPolicy(initial_s=10, maximum_s=300, multiplier=1e308), 3) == [10, 300, 300]


@pytest.mark.parametrize(
    "name", ["initial_s", "maximum_s", "multiplier", "jitter", "retry_after_max_s", "parked_s"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -1.0])
def test_what_is_no_length_is_refused_by_name(name: str, value: float) -> None:
    given: dict[str, Any] = {"initial_s": 10.0, name: value}

    with pytest.raises(ValueError, match=rf"^{name} has to be a number from 0 up, not "):
        BackoffPolicy(**given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"initial_s": 0.0}, "to wait not at all, give no policy"),
        ({"parked_s": 0.0}, "parked_s has to be more than 0"),
        ({"jitter": 1.5}, "jitter is a share from 0 to 1, not 1.5"),
        ({"refusals_max": -1}, "refusals_max counts answers"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        BackoffPolicy(**{"initial_s": 10.0, **given})


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), -5.0, 0.0])
def test_a_retry_after_that_is_no_length_counts_as_not_said(bad: float | None) -> None:
    """B6: bad values are ignored."""
    assert SERVICE_POLICY.delay(10.0, bad, 0.0).total_s == 10.0


def test_a_retry_after_is_a_floor_and_has_a_ceiling_of_an_hour() -> None:
    """B6: never shorter than asked for, never longer than the stated ceiling."""
    asked = [
        SERVICE_POLICY.delay(40.0, length, 0.0).total_s for length in (1.0, 39.9, 41.0, 3_600.0, 90_000.0)
    ]

    assert asked == [40.0, 40.0, 41.0, 3_600.0, 3_600.0]


def test_jitter_is_added_behind_the_cap_and_never_taken_off() -> None:
    """B6: upwards only, from the chance that is handed in."""
    drawn = [SERVICE_POLICY.delay(300.0, None, chance).total_s for chance in (0.0, 0.5, 0.999_999)]

    assert drawn == [300.0, 337.5, 374.999]


def test_jitter_on_a_long_retry_after_is_that_of_the_longest_step() -> None:
    assert SERVICE_POLICY.delay(10.0, 3_600.0, 0.5).total_s == 3_637.5


def test_a_wait_ends_at_its_instant() -> None:
    assert not has_ended(T0, T0 + 10_000, T0 + 9_999)
    assert has_ended(T0, T0 + 10_000, T0 + 10_000)


def test_a_clock_that_was_set_back_by_an_hour_does_not_stretch_a_wait() -> None:
    assert has_ended(T0, T0 + 10_000, T0 - 3_600_000)
    assert not has_ended(T0, T0 + 10_000, T0 - 1_000), "two clocks never agree to the second"


LENGTHS = st.floats(0.001, 1e6)


@given(
    st.builds(
        BackoffPolicy,
        initial_s=LENGTHS,
        maximum_s=st.one_of(st.just(0.0), LENGTHS),
        multiplier=st.floats(0, 100),
        jitter=st.floats(0, 1),
        retry_after_max_s=st.floats(0, 1e6),
    ),
    st.integers(0, 12),
    st.one_of(st.none(), st.floats(allow_nan=True)),
    st.floats(0, 1, exclude_max=True),
)
def test_no_wait_passes_its_cap_nor_ends_before_what_was_asked_for(
    policy: BackoffPolicy, step: int, asked: float | None, drawn: float
) -> None:
    step_s = steps(policy, step + 1)[-1]
    delay = policy.delay(step_s, asked, drawn)
    length = delay.until(T0) - T0

    assert step_s <= policy.cap_s
    assert step_s * 1_000 - 0.001 <= length <= policy.longest_s * 1_000 + 1
    assert policy.heeded(asked) * 1_000 - 0.001 <= length


@given(st.text(max_size=5), st.lists(st.text(max_size=5), max_size=3))
def test_chance_is_a_share_and_the_same_for_the_same_names(seed: str, names: list[str]) -> None:
    assert 0 <= chance(seed, *names) < 1
    assert chance(seed, *names) == chance(seed, *names)


def test_chance_spreads() -> None:
    drawn = sorted(chance("tide", str(number)) for number in range(1_000))

    assert max(abs(value - number / 1_000) for number, value in enumerate(drawn)) < 0.05
    assert chance("a", "b", "c") != chance("a", "bc") != chance("ab", "c")
