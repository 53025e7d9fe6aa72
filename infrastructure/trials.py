"""Sends a destination a delta that is in no store, and says what came of it."""

from time import perf_counter

from application.delivery_views import TrialView, trial_view
from application.destinations import Destinations
from domain.subscription import Subscription


async def tried_out(ours: Destinations, one: Subscription) -> TrialView:
    """What a destination answered, and in how many ms."""
    began = perf_counter()
    receipt = await ours.test(one)
    return trial_view(receipt, round((perf_counter() - began) * 1_000))
