"""Bulk import: reports line by line, each answered by itself.

Many reports are in flight, so that they share commits, and each is put into the writer's queue in the order
of the lines, so that a session's reports apply in their order. A line that is refused costs only itself.
The answers are kept until the body has been read, because most clients read nothing before they have sent
everything.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from application.access import Scope
from application.commands import Command, report_messages, report_state
from application.ports import Committed
from application.views import MessageReply, StateReply
from domain import jsontext
from domain.errors import RepriseError
from infrastructure.http import problems
from infrastructure.http.access import caller_in, caller_of, needs
from infrastructure.http.bodies import bounded, idempotency_key, require_type
from infrastructure.http.openapi import described_lines
from infrastructure.http.problems import BAD_REQUEST, TOO_LARGE, Problem, members_of, problem_of
from infrastructure.http.state import ledger_of, settings_of

router = APIRouter(tags=["imports"], dependencies=[needs("report", chooses=True)])

IN_FLIGHT_MAX: Final = 256
"""Reports of one import that wait for their commit at the same time; well below the writer's queue."""
ANSWERS_IN_MEMORY_BYTES_MAX: Final = 2**20
"""Answers beyond it wait in a temporary file."""
_NDJSON: Final = re.compile(r"application/(?:x-ndjson|ndjson|jsonl|x-jsonlines)\Z")
_CHUNK_BYTES: Final = 2**16
MEDIA_TYPE: Final = "application/x-ndjson"

Answer = dict[str, Any]
_Begun = asyncio.Future[Committed]


@router.post(
    "/imports",
    responses=problems.documented(
        problems.BAD_REQUEST,
        problems.READ_ONLY,
        problems.TOO_LARGE,
        problems.UNSUPPORTED_TYPE,
        problems.INVALID,
    ),
    openapi_extra=described_lines(),
)
async def import_reports(request: Request) -> Response:
    """Take reports, one per line, and answer each: state reports have `state`, message reports `updates`.

    Each names its `roomId` and `agentSessionId`. With an Idempotency-Key, each line's report has the key with
    the line's number, so the same import may be sent again.
    """
    require_type(request, _NDJSON, MEDIA_TYPE)
    import_ = _Import(request)
    answers: IO[bytes] = SpooledTemporaryFile(max_size=ANSWERS_IN_MEMORY_BYTES_MAX)  # noqa: SIM115 - closed when sent
    try:
        async for answer in import_.answers():
            answers.write(jsontext.to_bytes(answer) + b"\n")
    except BaseException:
        answers.close()
        raise
    answers.seek(0)
    return StreamingResponse(_sent(answers), media_type=MEDIA_TYPE)


def _sent(answers: IO[bytes]) -> Iterator[bytes]:
    with answers:
        while chunk := answers.read(_CHUNK_BYTES):
            yield chunk


class _Import:
    """One import at work."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._ledger = ledger_of(request)
        self._caller = caller_of(request)
        self._may = caller_in(request)
        self._key = idempotency_key(request)
        self._line_bytes_max = settings_of(request).body_bytes_max

    async def answers(self) -> AsyncIterator[Answer]:
        """What becomes of each line, in their order."""
        waiting: deque[tuple[int, _Begun | Problem]] = deque()
        number = 0
        try:
            async for line in self._lines():
                number += 1
                if line is not None and not line.strip():
                    continue
                if len(waiting) >= IN_FLIGHT_MAX:
                    yield await _answered(*waiting.popleft())
                waiting.append((number, self._begin(number, line)))
            while waiting:
                yield await _answered(*waiting.popleft())
        finally:
            for _, begun in waiting:
                if not (isinstance(begun, Problem) or begun.cancel() or begun.cancelled()):
                    begun.exception()  # Nobody is left to be told.

    async def _lines(self) -> AsyncIterator[bytes | None]:
        """The lines of the body; None for one that is too long to be a report."""
        rest, is_too_long = b"", False
        async for chunk in bounded(self._request, settings_of(self._request).import_bytes_max):
            *lines, end = chunk.split(b"\n")
            for line in lines:
                whole, rest = rest + line, b""
                yield None if is_too_long or len(whole) > self._line_bytes_max else whole
                is_too_long = False
            rest += b"" if is_too_long else end
            if len(rest) > self._line_bytes_max:
                rest, is_too_long = b"", True
        if rest or is_too_long:
            yield None if is_too_long else rest

    def _begin(self, number: int, line: bytes | None) -> _Begun | Problem:
        """Put the report of a line into the writer's queue, or say what is wrong with it."""
        try:
            if line is None:
                raise Problem(TOO_LARGE, f"the line has more than {self._line_bytes_max} bytes; split it")
            command = self._command(number, jsontext.parse(line, f"line {number}"))
            self._may.refuse_unless(Scope.REPORT, command.key.room)
            return self._ledger.begin(command)
        except RepriseError as error:
            return problem_of(error)
        except Problem as problem:
            return problem

    def _command(self, number: int, report: Any) -> Command[MessageReply] | Command[StateReply]:
        if not isinstance(report, dict):
            raise Problem(BAD_REQUEST, f"line {number}: expected a JSON object")
        key = f"{self._key}:{number}" if self._key else ""
        if "updates" in report:
            return report_messages(report, "", "", key, self._caller)
        if "state" in report:
            return report_state(report, "", "", key, self._caller)
        raise Problem(BAD_REQUEST, f"line {number}: expected `state` or `updates`")


async def _answered(number: int, begun: _Begun | Problem) -> Answer:
    """What is said of a line, once what it reports is durable or refused."""
    if isinstance(begun, Problem):
        return _refused(number, begun)
    try:
        committed = await begun
    except RepriseError as error:
        return _refused(number, problem_of(error))
    said: Answer = {"line": number, "status": 200, "reply": committed.answer}
    return {**said, "replayed": True} if committed.repeats else said


def _refused(number: int, problem: Problem) -> Answer:
    return {"line": number, "status": problem.kind.status, "problem": members_of(problem)}
