"""The routes about destinations and deliveries: what they are, what became of them, and how to change it."""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Query
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from application.destinations import Destinations
from application.lanes import Choice, Delivered, State
from application.subscriptions import Subscriptions, skippable
from domain.errors import NotFound
from domain.ids import Position, TransactionId
from domain.subscription import Added, Subscription
from infrastructure.http import problems
from infrastructure.http.access import caller_of, needs
from infrastructure.http.ancestor import VERSION_MAX
from infrastructure.http.bodies import read_object
from infrastructure.http.delivery_documents import (
    ChoiceBody,
    ChosenRead,
    DeliveryRead,
    ReasonBody,
    SubscriptionBody,
    SubscriptionRead,
)
from infrastructure.http.openapi import described, described_page, described_reading
from infrastructure.http.pages import Limit, next_link
from infrastructure.http.problems import INVALID, Problem, parameter_errors
from infrastructure.http.replies import json_reply
from infrastructure.http.routing import TransactionInPath
from infrastructure.http.state import ledger_of, settings_of
from infrastructure.http.times import as_read, asked
from infrastructure.http.versions import etag
from infrastructure.sinks.targets import BadTarget

reading = APIRouter(tags=["deliveries"], dependencies=[needs("read")])
operating = APIRouter(tags=["deliveries"], dependencies=[needs("operate")])

READ_PROBLEMS: Final = problems.documented(
    problems.BAD_REQUEST, problems.NOT_FOUND, problems.INVALID, problems.UNAVAILABLE
)
CHANGE_PROBLEMS: Final = problems.documented(
    problems.BAD_REQUEST,
    problems.READ_ONLY,
    problems.NOT_FOUND,
    problems.CONFLICT,
    problems.CURSOR_EXPIRED,
    problems.TOO_LARGE,
    problems.UNSUPPORTED_TYPE,
    problems.INVALID,
    problems.OVERLOADED,
    problems.UNAVAILABLE,
)
SAMPLE: Final = 5
"""Deltas that are shown of those that were chosen."""
Name = Annotated[str, Query(max_length=100, description="A subscription's name.")]
B = TypeVar("B", bound=BaseModel)
T = TypeVar("T")


# Destinations.


@reading.get("/subscriptions", responses=READ_PROBLEMS, openapi_extra=described_page(SubscriptionRead))
async def subscriptions(request: Request) -> Response:
    """List the destinations."""
    held = await _ask(request, lambda ours: ours.all())
    return json_reply({"items": [_subscription(one.state) for one in held]})


@reading.get(
    "/subscriptions/{name}",
    responses=READ_PROBLEMS,
    openapi_extra=described_reading(SubscriptionRead, "The destination."),
)
async def subscription(name: str, request: Request) -> Response:
    """Show a destination, and how its deltas stand."""
    held, counts = await _ask(request, lambda ours: (ours.show(name), ours.counts(name)))
    said = _subscription(held.state, deliveries={str(state): number for state, number in counts.items()})
    return json_reply(said, headers={"ETag": etag(held.version)})


@operating.post(
    "/subscriptions",
    status_code=201,
    responses=CHANGE_PROBLEMS,
    openapi_extra=described(SubscriptionBody, SubscriptionRead),
)
async def add(request: Request) -> Response:
    """Add a destination. A webhook's secret is in the answer, and can be read nowhere else later."""
    body = await _said(request, SubscriptionBody)
    added = Added(
        name=body.name,
        kind=body.kind,
        target=body.target,
        rooms=body.rooms,
        entity_kinds=body.entity_kinds,
        from_position=0,
        on_parked=body.on_parked,
    )
    ours, actor = _destinations(request), caller_of(request)
    try:
        secret = await _off(request, lambda: ours.add(added, after=body.after, actor=actor))
    except BadTarget as error:
        raise Problem(INVALID, str(error)) from None
    held = await _ask(request, lambda those: those.show(body.name))
    return json_reply(_subscription(held.state, secret=secret or None), 201)


@operating.post(
    "/subscriptions/{name}/pause",
    responses=CHANGE_PROBLEMS,
    openapi_extra=described(ReasonBody, SubscriptionRead),
)
async def pause(name: str, request: Request) -> Response:
    """Deliver nothing until it is resumed; what is committed meanwhile stays pending."""
    reason, actor = (await _said(request, ReasonBody)).reason, caller_of(request)
    held = await _ask(request, lambda ours: ours.pause(name, reason, actor=actor))
    return json_reply(_subscription(held.state))


@operating.post(
    "/subscriptions/{name}/resume",
    responses=CHANGE_PROBLEMS,
    openapi_extra=described(ReasonBody, SubscriptionRead),
)
async def resume(name: str, request: Request) -> Response:
    """Deliver again, whether it was paused or its destination said that it is gone."""
    reason, actor = (await _said(request, ReasonBody)).reason, caller_of(request)
    held = await _ask(request, lambda ours: ours.resume(name, reason, actor=actor))
    return json_reply(_subscription(held.state))


@operating.post(
    "/subscriptions/{name}/rotate-secret",
    responses=CHANGE_PROBLEMS,
    openapi_extra=described(None, SubscriptionRead),
)
async def rotate(name: str, request: Request) -> Response:
    """Sign with a new secret, which is in the answer, and for a day with the old one as well."""
    ours, actor = _destinations(request), caller_of(request)
    secret = await _off(request, lambda: ours.rotate(name, actor=actor))
    held = await _ask(request, lambda those: those.show(name))
    return json_reply(_subscription(held.state, secret=secret))


@operating.delete("/subscriptions/{name}", status_code=204, responses=CHANGE_PROBLEMS)
async def remove(name: str, request: Request) -> Response:
    """Take a destination away, with what waits for it; its history stays."""
    ours, actor = _destinations(request), caller_of(request)
    await _off(request, lambda: ours.remove(name, actor=actor))
    return Response(status_code=204)


# Deliveries.


@reading.get(
    "/deliveries", responses=READ_PROBLEMS, openapi_extra=described_page(DeliveryRead, cursor="position")
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
    found = await _ask(request, lambda ours: ours.page(subscription, choice, Position(after), limit))
    last = found[-1].committed.last_position if found else after
    body = {"items": [_delivery(one) for one in found], "next": last}
    return json_reply(body, headers=next_link(request, {"after": last}))


@reading.get(
    "/deliveries/{transaction}",
    responses=READ_PROBLEMS,
    openapi_extra=described_reading(DeliveryRead, "The delivery, with its delta."),
)
async def delivery(transaction: TransactionInPath, request: Request, subscription: Name) -> Response:
    """Show what has become of one delta."""
    found = await _ask(request, lambda ours: ours.delivery(subscription, transaction))
    delta = found.committed.delta.model_dump(by_alias=True, exclude_none=True)
    return json_reply(_delivery(found, delta=delta))


@operating.post("/redeliveries", responses=CHANGE_PROBLEMS, openapi_extra=described(ChoiceBody, ChosenRead))
async def redeliver(request: Request) -> Response:
    """Deliver chosen deltas again, and try at once what waits."""
    return await _change(request, lambda choice: choice, Subscriptions.redeliver)


@operating.post("/skips", responses=CHANGE_PROBLEMS, openapi_extra=described(ChoiceBody, ChosenRead))
async def skip(request: Request) -> Response:
    """Leave chosen deltas out that are unfinished or parked."""
    return await _change(request, skippable, Subscriptions.skip)


async def _change(
    request: Request, narrow: Callable[[Choice], Choice], change: Callable[..., Any]
) -> Response:
    body = await _said(request, ChoiceBody)
    choice = narrow(_choice(body))
    name, actor = body.subscription, caller_of(request)

    def do(ours: Subscriptions) -> list[Delivered]:
        ours.show(name)
        if body.dry_run:
            return list(ours.chosen(name, choice, body.expect_count))
        return list(change(ours, name, choice, expected=body.expect_count, actor=actor))

    rows = await _ask(request, do)
    chosen = ChosenRead(
        subscription=name,
        count=len(rows),
        dry_run=body.dry_run,
        sample=tuple(_delivery(one) for one in rows[:SAMPLE]),
    )
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


# How they ask, and what they say.


async def _ask(request: Request, call: Callable[[Subscriptions], T]) -> T:
    return await ledger_of(request).with_subscriptions(call)


async def _off(request: Request, call: Callable[[], T]) -> T:
    return await ledger_of(request).with_subscriptions(lambda _: call())


def _destinations(request: Request) -> Destinations:
    ours = request.app.state.destinations
    if ours is None:
        raise NotFound("this service has no destinations")
    assert isinstance(ours, Destinations)
    return ours


async def _said(request: Request, shape: type[B]) -> B:
    """What a request says; unknown keys are refused, since a misspelled filter would choose too much."""
    body = await read_object(request, settings_of(request).body_bytes_max)
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        errors = parameter_errors(error.errors())
        detail = "; ".join(f"{one['pointer']}: {one['message']}" for one in errors)
        raise Problem(INVALID, detail, members={"errors": errors}) from None


def _subscription(state: Subscription, **more: Any) -> dict[str, Any]:
    view = SubscriptionRead(
        name=state.name,
        kind=state.kind,
        target=state.target,
        status=state.status,
        reason=state.reason or None,
        rooms=state.rooms,
        entity_kinds=state.entity_kinds,
        from_position=state.from_position,
        on_parked=state.on_parked,
        added_at_unix_ms=state.added_at,
        **more,
    )
    return as_read(view.to_dict())


def _delivery(one: Delivered, **more: Any) -> dict[str, Any]:
    view = DeliveryRead(
        subscription=one.subscription,
        transaction_id=one.committed.transaction_id,
        position=one.committed.last_position,
        room=one.committed.room,
        recorded_at_unix_ms=one.committed.recorded_at,
        state=one.state,
        attempts=one.attempts,
        redeliveries=one.redelivery,
        next_attempt_at_unix_ms=one.due_at or None,
        error=one.error or None,
        worker=one.owner or None,
        **more,
    )
    return as_read(view.to_dict())
