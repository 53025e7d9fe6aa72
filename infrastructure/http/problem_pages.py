"""A page about each kind of problem, at the address that its `type` names."""

from html import escape

from fastapi import APIRouter
from starlette.responses import HTMLResponse

from infrastructure.http import problems
from infrastructure.http.problems import INVALID, KINDS, NOT_FOUND, Problem

router = APIRouter(tags=["problems"])


@router.get(
    "/problems/{slug}", response_class=HTMLResponse, responses=problems.documented(NOT_FOUND, INVALID)
)
async def page(slug: str) -> HTMLResponse:
    """Tell what a kind of problem means and what to do about it."""
    kind = KINDS.get(slug)
    if kind is None:
        raise Problem(NOT_FOUND, f"no problem has this name; there are {', '.join(KINDS)}")
    again = "The same request can succeed later." if kind.retryable else "The same request will fail again."
    return HTMLResponse(
        "<!doctype html>\n<html lang=en><meta charset=utf-8>"
        f"<title>{escape(kind.title)}</title>"
        f"<h1>{escape(kind.title)}</h1><p>Status {kind.status}, <code>{escape(kind.slug)}</code>.</p>"
        f"<p>{escape(kind.advice)}</p><p>{again}</p></html>\n"
    )
