"""Runs the benchmarks: all of them, or those named."""

import sys
import tempfile
from pathlib import Path

from tests.benchmarks import (
    deliveries,
    destinations,
    folder,
    following,
    long_session,
    many_callers,
    one_caller,
    pull,
    service,
    startup,
    streams,
    transcripts,
)
from tests.benchmarks.figures import Table

BENCHMARKS = {
    "one_caller": one_caller.run,
    "many_callers": many_callers.run,
    "following": following.run,
    "long_session": long_session.run,
    "transcripts": transcripts.run,
    "folder": folder.run,
    "destinations": destinations.run,
    "startup": startup.run,
    "pull": pull.run,
    "service": service.run,
    "streams": streams.run,
    "deliveries": deliveries.run,
}


def main(names: list[str]) -> int:
    """Run benchmarks and print their figures; 1 when a bar was missed, 2 for a name nobody knows."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    table = Table()
    for name in names or BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix="reprise-bench-", dir=Path.cwd()) as folder:
            BENCHMARKS[name](table, Path(folder))
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
