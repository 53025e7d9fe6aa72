"""How the routes about destinations and deliveries ask the ledger, and read what they are told."""

from collections.abc import Callable
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from application.subscriptions import Subscriptions
from infrastructure.http import problems
from infrastructure.http.bodies import read_object
from infrastructure.http.openapi import needs_something
from infrastructure.http.problems import INVALID, Problem, parameter_errors
from infrastructure.http.state import ledger_of, settings_of

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
MEANT_PROBLEMS: Final = {
    **CHANGE_PROBLEMS,
    **problems.documented(problems.VERSION_CONFLICT, problems.PRECONDITION_REQUIRED),
}
"""Of a change that may be meant for one version."""
B = TypeVar("B", bound=BaseModel)
T = TypeVar("T")


async def ask(request: Request, call: Callable[[Subscriptions], T]) -> T:
    """What a call comes to that reads or writes the store."""
    return await ledger_of(request).with_subscriptions(call)


async def said(request: Request, shape: type[B]) -> B:
    """What a request says; unknown keys are refused, since a misspelled filter would choose too much."""
    body = await read_object(
        request, settings_of(request).body_bytes_max, may_be_absent=not needs_something(shape)
    )
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        errors = parameter_errors(error.errors())
        detail = "; ".join(f"{one['pointer']}: {one['message']}" for one in errors)
        raise Problem(INVALID, detail, members={"errors": errors}) from None
