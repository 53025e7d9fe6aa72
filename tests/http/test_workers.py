"""What works beside the requests is started and stopped with the service, and shows that it is well."""

from pathlib import Path

import httpx
import pytest

from infrastructure.main import SystemClock, open_ledger_async
from infrastructure.pull_worker import PullWorker
from infrastructure.serving import running
from tests.http.serving import served
from tests.http.test_health import Beating


@pytest.mark.anyio
async def test_workers_that_were_started_are_stopped_however_it_ends() -> None:
    first, second = Beating(0.0), Beating(0.0)

    async def fails() -> None:
        raise RuntimeError("no")

    second.start = fails  # type: ignore[method-assign]  # a worker that cannot begin
    with pytest.raises(RuntimeError):
        async with running([first, second]):
            pass

    assert first.did == ["start", "stop"]
    assert second.did == []


@pytest.mark.anyio
async def test_pulls_run_with_the_service_and_end_with_it() -> None:
    async with open_ledger_async("memory://") as ledger:
        worker = PullWorker(ledger, SystemClock())
        assert worker.beat_age_s() is None
        await worker.stop()

        worker = PullWorker(ledger, SystemClock())
        async with running([worker]):
            age_s = worker.beat_age_s()
            assert age_s is not None
            assert age_s < 5
        await worker.stop()


@pytest.mark.parametrize(
    ("options", "pulls"), [([], True), (["--no-workers"], False), (["--read-only"], False)]
)
def test_a_service_pulls_unless_it_may_not(tmp_path: Path, options: list[str], pulls: bool) -> None:
    with served(f"sqlite:///{tmp_path / 'store.db'}", *options) as service:
        checks = [one["name"] for one in httpx.get(service.url + "/readyz").json()["checks"]]
        assert service.told() == 0

    assert ("pulls" in checks) is pulls
