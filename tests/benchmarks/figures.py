"""How a measured figure is shown beside its floor and its bar."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One line of the table; `ok` is None where there is no bar."""

    what: str
    measured: str
    bar: str = ""
    ok: bool | None = None
    beside: str = ""


@dataclass
class Stopwatch:
    """Wall time and CPU time of this process, seconds."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def timed() -> Iterator[Stopwatch]:
    """Measure what happens inside."""
    watch = Stopwatch()
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    yield watch
    watch.wall_s, watch.cpu_s = time.perf_counter() - wall, time.process_time() - cpu


def best_s(run: Callable[[], object], times: int) -> float:
    """The shortest of several runs, seconds: what it takes when nothing else disturbs."""
    shortest = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


@dataclass
class Table:
    """The figures of one run, printed as they come."""

    figures: list[Figure] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        mark = {True: "ok  ", False: "MISS", None: "    "}[figure.ok]
        beside = f"   ({figure.beside})" if figure.beside else ""
        print(f"{mark} {figure.what:<62} {figure.measured:>16}  {figure.bar:<14}{beside}", flush=True)
        self.figures.append(figure)

    @property
    def missed(self) -> int:
        return sum(figure.ok is False for figure in self.figures)


def store_bytes(path: Path) -> int:
    """Everything an SQLite store takes on the disk."""
    return sum(one.stat().st_size for one in path.parent.glob(path.name + "*"))
