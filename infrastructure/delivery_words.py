"""Why a delivery stands where it does, in words, and what would move it."""

from application.delivery_views import DeliveryView, delivery_view
from application.lanes import Delivered
from application.subscriptions import Subscriptions
from domain.subscription import Subscription
from infrastructure.text import counted, short, when


def explained(ours: Subscriptions, one: Delivered) -> DeliveryView:
    """A delivery with the reason why it stands where it does."""
    before = ours.before(one)
    words = _reason(one, before, ours.show(one.subscription).state)
    waits_for = before.committed.transaction_id if before else None
    return delivery_view(one, why=words, waits_for=waits_for)


def _reason(one: Delivered, before: Delivered | None, subscription: Subscription) -> str:
    match one.state:
        case "delivered":
            again = f", and {counted(one.redelivery, 'time')} again" if one.redelivery else ""
            return f"it was delivered{again}"
        case "parked":
            tried = counted(one.attempts, "attempt")
            return f"it was given up after {tried}: {short(one.error)}; redeliver or skip it"
        case "skipped":
            return "somebody skipped it; redeliver it if it is wanted after all"
    if not subscription.is_active:
        told = f" ({short(subscription.reason)})" if subscription.reason else ""
        return f"the subscription is {subscription.status}{told}; resume it"
    if before:
        which = f"{before.committed.transaction_id} of its room, which is {before.state}"
        told = f" until {when(before.due_at)}: {short(before.error)}" if before.due_at else ""
        return f"it comes behind {which}{told}"
    match one.state:
        case "claimed":
            return f"worker {one.owner} is delivering it"
        case "waiting" if one.attempts:
            return (
                f"attempt {one.attempts} failed: {short(one.error)}; the next one is at {when(one.due_at)},"
                " or when another room gets through"
            )
        case "waiting":
            return "its room stopped behind a delta that was parked; redeliver or skip that one"
        case _:
            return "a worker will take it; is one running?"
