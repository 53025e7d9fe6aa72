"""The routes about deliveries: what has become of deltas, and how to change it."""

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from application.delivery_views import ChosenView, DeliveryView, chosen_view, delivery_view, delta_of
from application.lanes import Choice, Delivered, State
from application.subscriptions import Subscriptions, skippable
from domain.ids import Position, TransactionId
from infrastructure.delivery_words import explained
from infrastructure.http.access import caller_of, needs
from infrastructure.http.ancestor import VERSION_MAX
from infrastructure.http.asking import CHANGE_PROBLEMS, READ_PROBLEMS, ask, said
from infrastructure.http.delivery_documents import ChoiceBody
from infrastructure.http.openapi import described_change, described_page, described_reading
from infrastructure.http.pages import Limit, next_link
from infrastructure.http.problems import INVALID, Problem
from infrastructure.http.replies import json_reply
from infrastructure.http.routing import TransactionInPath
from infrastructure.http.times import as_read, asked

reading = APIRouter(tags=["deliveries"], dependencies=[needs("read")])
operating = APIRouter(tags=["deliveries"], dependencies=[needs("operate")])

SAMPLE: Final = 5
"""Deltas that are shown of those that were chosen."""
CHOOSING: Final = described_change(ChoiceBody, ChosenView)
Name = Annotated[str, Query(max_length=100, description="A subscription's name.")]


@reading.get(
    "/deliveries", responses=READ_PROBLEMS, openapi_extra=described_page(DeliveryView, cursor="position")
)
async def deliveries(
    request: Request,
    subscription: Name,
    state: Annotated[list[State] | None, Query(description="In one of these states.")] = None,
    room: Annotated[str, Query(max_length=512)] = "",
    since: Annotated[str, Query(description="Committed at or behind this time.")] = "",
    after: Annotated[int, Query(ge=0, le=VERSION_MAX, description="A commit position.")] = 0,
    limit: Limit = 100,
) -> Response:
    """List what has become of a subscription's deltas; `next` is the position to ask behind for more."""
    choice = Choice((), room, asked(since, "since") if since.strip() else 0, frozenset(state or ()))
    found = await ask(request, lambda ours: ours.page(subscription, choice, Position(after), limit))
    last = found[-1].committed.last_position if found else after
    body = {"items": [_delivery(one) for one in found], "next": last}
    return json_reply(body, headers=next_link(request, {"after": last}))


@reading.get(
    "/deliveries/{transaction}",
    responses=READ_PROBLEMS,
    openapi_extra=described_reading(DeliveryView, "The delivery, with its delta."),
)
async def delivery(transaction: TransactionInPath, request: Request, subscription: Name) -> Response:
    """Show what has become of one delta, and why it stands there."""

    def look(ours: Subscriptions) -> dict[str, Any]:
        found = ours.delivery(subscription, transaction)
        return {**explained(ours, found).to_dict(), "delta": delta_of(found)}

    return json_reply(as_read(await ask(request, look)))


@operating.post(
    "/deliveries/{transaction}/redeliver",
    responses=CHANGE_PROBLEMS,
    openapi_extra=described_reading(DeliveryView, "The delivery, which is to come again."),
)
async def redeliver_one(transaction: TransactionInPath, request: Request, subscription: Name) -> Response:
    """Deliver one delta again, or at once if it waits."""
    choice, actor = Choice((TransactionId(transaction),)), caller_of(request)

    def do(ours: Subscriptions) -> Delivered:
        ours.delivery(subscription, transaction)
        ours.redeliver(subscription, choice, actor=actor)
        return ours.delivery(subscription, transaction)

    return json_reply(_delivery(await ask(request, do)))


@operating.post(
    "/redeliveries", responses=CHANGE_PROBLEMS, openapi_extra=described_change(ChoiceBody, ChosenView)
)
async def redeliver(request: Request) -> Response:
    """Deliver chosen deltas again, and try at once what waits."""
    return await _change(request, lambda choice: choice, Subscriptions.redeliver)


@operating.post("/skips", responses=CHANGE_PROBLEMS, openapi_extra=CHOOSING)
async def skip(request: Request) -> Response:
    """Leave chosen deltas out that are unfinished or parked."""
    return await _change(request, skippable, Subscriptions.skip)


async def _change(
    request: Request, narrow: Callable[[Choice], Choice], change: Callable[..., Any]
) -> Response:
    body = await said(request, ChoiceBody)
    choice = narrow(_choice(body))
    name, actor = body.subscription, caller_of(request)

    def do(ours: Subscriptions) -> list[Delivered]:
        ours.show(name)
        if body.dry_run:
            return list(ours.chosen(name, choice, body.expect_count))
        return list(change(ours, name, choice, expected=body.expect_count, actor=actor))

    rows = await ask(request, do)
    chosen = chosen_view(name, rows, [_delivery(one) for one in rows[:SAMPLE]], dry_run=body.dry_run)
    return json_reply(chosen.to_dict())


def _choice(body: ChoiceBody) -> Choice:
    if not (body.transactions or body.room or body.since.strip() or body.states):
        raise Problem(INVALID, "choose by transactions, room, since or states")
    try:
        states = frozenset(map(State, body.states))
    except ValueError:
        raise Problem(INVALID, f"states: give some of {', '.join(State)}") from None
    since = asked(body.since, "since") if body.since.strip() else 0
    return Choice(tuple(map(TransactionId, body.transactions)), body.room, since, states)


def _delivery(one: Delivered) -> dict[str, Any]:
    return as_read(delivery_view(one).to_dict())
