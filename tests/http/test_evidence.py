"""A session's evidence over HTTP."""

from pathlib import Path

import pytest

from application.access import Scope
from infrastructure.evidence.verify import check
from tests.http.asgi import called

pytestmark = pytest.mark.anyio


async def test_the_bundle_of_a_session_is_downloaded_by_those_who_may_read_it(tmp_path: Path) -> None:
    async with called(require_token=True) as service:
        await service.ledger.report_state({"state": {"title": "Tides"}}, room="a b", session="s/1")
        reader = service.token(Scope.READ, rooms=["a b"])
        place = "/v1/rooms/a%20b/sessions/s%2F1/evidence"
        found = await service.client.get(place, headers=reader)
        elsewhere = await service.client.get(place, headers=service.token(Scope.READ, rooms=["other"]))
        reporter = await service.client.get(place, headers=service.token(Scope.REPORT))
        nobody = await service.client.get("/v1/rooms/a%20b/sessions/s2/evidence", headers=reader)

    assert found.status_code == 200
    assert found.headers["content-type"] == "application/zip"
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''s%2F1.evidence.zip"
    (tmp_path / "bundle.zip").write_bytes(found.content)
    assert check(tmp_path / "bundle.zip").session == "s/1"
    assert [one.status_code for one in (elsewhere, reporter, nobody)] == [403, 403, 404]
