"""The routes about destinations: what there is, what waits for each, and how to change it."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from application.delivery_views import SubscriptionView, TrialView, subscription_view
from application.destinations import Destinations
from application.subscriptions import Subscriptions
from domain.aggregate import Held
from domain.errors import NotFound
from domain.subscription import Added, Subscription
from infrastructure.history import as_json_object
from infrastructure.http.access import caller_of, needs
from infrastructure.http.asking import CHANGE_PROBLEMS, MEANT_PROBLEMS, READ_PROBLEMS, ask, said
from infrastructure.http.delivery_documents import ReasonBody, RotationBody, SubscriptionBody
from infrastructure.http.documents import EventRead
from infrastructure.http.openapi import (
    IF_MATCH,
    described_change,
    described_page,
    described_reading,
    with_parameters,
)
from infrastructure.http.problems import INVALID, Problem
from infrastructure.http.replies import json_reply
from infrastructure.http.times import as_read
from infrastructure.http.versions import etag, version_meant
from infrastructure.sinks.targets import BadTarget
from infrastructure.trials import tried_out

reading = APIRouter(tags=["subscriptions"], dependencies=[needs("read")])
operating = APIRouter(tags=["subscriptions"], dependencies=[needs("operate")])

DryRun = Annotated[bool, Query(alias="dryRun", description="Say what it would come to, and change nothing.")]


@reading.get("/subscriptions", responses=READ_PROBLEMS, openapi_extra=described_page(SubscriptionView))
async def subscriptions(request: Request) -> Response:
    """List the destinations; `observers` names those that a program subscribed for itself."""
    held, observers = await ask(request, lambda ours: (ours.all(), ours.observers()))
    items = [as_read(subscription_view(one).to_dict()) for one in held]
    return json_reply({"items": items, "observers": list(observers)})


@reading.get(
    "/subscriptions/{name}",
    responses=READ_PROBLEMS,
    openapi_extra=described_reading(SubscriptionView, "The destination."),
)
async def subscription(name: str, request: Request) -> Response:
    """Show a destination, and how its deltas stand."""
    held, counts = await ask(request, lambda ours: (ours.show(name), ours.counts(name)))
    return _told(held, counts=counts)


@reading.get(
    "/subscriptions/{name}/events",
    responses=READ_PROBLEMS,
    openapi_extra=described_page(EventRead),
)
async def events(name: str, request: Request) -> Response:
    """Tell what happened to a destination, oldest first, also to one that was removed."""
    history = await ask(request, lambda ours: [as_json_object(one) for one in ours.history(name)])
    if not history:
        raise NotFound(f"no subscription {name}")
    return json_reply({"items": [as_read(one) for one in history]})


@operating.post(
    "/subscriptions",
    status_code=201,
    responses=CHANGE_PROBLEMS,
    openapi_extra=described_change(SubscriptionBody, SubscriptionView),
)
async def add(request: Request, dry_run: DryRun = False) -> Response:
    """Add a destination. A webhook's secret is in the answer, and can be read nowhere else later.

    The same one again stays as it is. A dry run answers with what would be added.
    """
    body = await said(request, SubscriptionBody)
    added = Added(
        name=body.name,
        kind=body.kind,
        target=body.target,
        rooms=body.rooms,
        entity_kinds=body.entity_kinds,
        from_position=0,
        on_parked=body.on_parked,
    )
    ours, actor = _destinations(request, dry_run=dry_run), caller_of(request)

    def do(_: object) -> tuple[Held[Subscription], str]:
        return ours.add(added, after=body.after, actor=actor)

    try:
        held, secret = await ask(request, do)
    except BadTarget as error:
        raise Problem(INVALID, str(error)) from None
    return _told(held, 200 if dry_run else 201, secret="" if dry_run else secret)


@operating.post(
    "/subscriptions/{name}/test",
    responses={**CHANGE_PROBLEMS},
    openapi_extra=described_change(None, TrialView, "What it answered."),
)
async def test(name: str, request: Request) -> Response:
    """Send a destination a delta that is in no store, and tell what came back."""
    held = await ask(request, lambda ours: ours.show(name))
    try:
        trial = await tried_out(_destinations(request), held.state)
    except BadTarget as error:
        raise Problem(INVALID, str(error)) from None
    return json_reply(trial.to_dict())


@operating.post(
    "/subscriptions/{name}/pause",
    responses=MEANT_PROBLEMS,
    openapi_extra=with_parameters(described_change(ReasonBody, SubscriptionView), IF_MATCH),
)
async def pause(name: str, request: Request, dry_run: DryRun = False) -> Response:
    """Deliver nothing until it is resumed; what is committed meanwhile stays pending."""
    return await _set(name, request, Subscriptions.pause, dry_run=dry_run)


@operating.post(
    "/subscriptions/{name}/resume",
    responses=MEANT_PROBLEMS,
    openapi_extra=with_parameters(described_change(ReasonBody, SubscriptionView), IF_MATCH),
)
async def resume(name: str, request: Request, dry_run: DryRun = False) -> Response:
    """Deliver again, whether it was paused or its destination said that it is gone."""
    return await _set(name, request, Subscriptions.resume, dry_run=dry_run)


async def _set(
    name: str, request: Request, change: Callable[..., Held[Subscription]], *, dry_run: bool
) -> Response:
    body, meant, actor = await said(request, ReasonBody), version_meant(request), caller_of(request)
    ours = _destinations(request, dry_run=dry_run).subscriptions
    return _told(await ask(request, lambda _: change(ours, name, body.reason, actor=actor, if_version=meant)))


@operating.post(
    "/subscriptions/{name}/rotate-secret",
    responses=MEANT_PROBLEMS,
    openapi_extra=with_parameters(described_change(RotationBody, SubscriptionView), IF_MATCH),
)
async def rotate(name: str, request: Request, dry_run: DryRun = False) -> Response:
    """Sign with a new secret, which is in the answer, and for a while with the old one as well."""
    body, meant, actor = await said(request, RotationBody), version_meant(request), caller_of(request)
    ours = _destinations(request, dry_run=dry_run)

    def do(_: object) -> tuple[Held[Subscription], str]:
        secret = ours.rotate(name, body.keep_seconds, actor=actor, if_version=meant)
        return ours.subscriptions.show(name), secret

    held, secret = await ask(request, do)
    return _told(held, secret="" if dry_run else secret)


@operating.delete(
    "/subscriptions/{name}",
    status_code=204,
    responses=MEANT_PROBLEMS,
    openapi_extra={"parameters": [dict(IF_MATCH)]},
)
async def remove(name: str, request: Request, dry_run: DryRun = False) -> Response:
    """Take a destination away, with what waits for it; its history stays."""
    meant, actor = version_meant(request), caller_of(request)
    ours = _destinations(request, dry_run=dry_run)
    await ask(request, lambda _: ours.remove(name, actor=actor, if_version=meant))
    return Response(status_code=204)


def _destinations(request: Request, *, dry_run: bool = False) -> Destinations:
    ours = request.app.state.destinations
    if ours is None:
        raise NotFound("this service has no destinations")
    assert isinstance(ours, Destinations)
    return ours.tried() if dry_run else ours


def _told(held: Held[Subscription], status: int = 200, *, counts: Any = None, secret: str = "") -> Response:
    body = as_read(subscription_view(held, counts, secret).to_dict())
    return json_reply(body, status, {"ETag": etag(held.version)})
