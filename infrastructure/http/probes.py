"""The routes for machines that look after the service: is it there, is it ready, what has it counted."""

import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from application.status import StatusView
from domain.errors import StoreError
from infrastructure.http import problems
from infrastructure.http.access import needs
from infrastructure.http.health import Readiness
from infrastructure.http.problems import NOT_READY, Problem
from infrastructure.http.state import ledger_of
from infrastructure.metrics import CONTENT_TYPE, Metrics

router = APIRouter(tags=["health"])


@router.get("/healthz", responses=problems.documented())
async def healthz() -> dict[str, str]:
    """Whether the process answers; looks at nothing else."""
    return {"status": "alive"}


@router.get("/readyz", responses=problems.documented(NOT_READY))
async def readyz(request: Request) -> dict[str, Any]:
    """Whether requests should be sent here, with the answer of each check."""
    readiness: Readiness = request.app.state.readiness
    is_ready, answer = await readiness.ask()
    if not is_ready:
        raise Problem(NOT_READY, f"it is {answer['status']}", members={"checks": answer["checks"]})
    return answer


@router.get("/version", responses=problems.documented())
async def version_() -> dict[str, str]:
    """What runs here."""
    return {"name": "reprise", "version": _installed(), "python": platform.python_version()}


@cache
def _installed() -> str:
    return version("reprise")


@router.get(
    "/metrics",
    dependencies=[needs("read")],
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **problems.documented(),
    },
)
async def metrics(request: Request) -> Response:
    """What was counted and measured, as Prometheus reads it."""
    counted: Metrics = request.app.state.metrics
    with suppress(StoreError):
        counted.seen((await ledger_of(request).extent()).end)
        counted.waiting(await ledger_of(request).backlog())
    return Response(counted.text(), media_type=CONTENT_TYPE)


status = APIRouter(tags=["health"])


@status.get(
    "/status",
    dependencies=[needs("read")],
    responses=problems.documented(problems.UNAVAILABLE),
)
async def status_(request: Request) -> StatusView:
    """How everything is at a glance: sessions, commits, and which subscription is behind."""
    return await ledger_of(request).status()
