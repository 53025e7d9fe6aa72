"""What is told at the end of an import: the news, a table by agent, and what was met on the way."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from infrastructure.cli.text import Column, note, say, say_json, table
from infrastructure.text import counted, shown
from infrastructure.transcripts.formats import FORMATS

if TYPE_CHECKING:
    from application.importing import ImportResult
    from infrastructure.cli.import_run import ImportRun, Tally

WARNINGS_SHOWN_MAX: Final = 20
"""Warnings written for people; --json has them all."""

_COLUMNS: Final = (
    Column("agent"),
    Column("files", right=True),
    Column("new", right=True),
    Column("grown", right=True),
    Column("unchanged", right=True),
    Column("left out", right=True),
    Column("sessions", right=True),
    Column("messages", right=True),
    Column("damaged", right=True),
    Column("unknown", right=True),
    Column("secrets", right=True),
)


def tell_as_json(run: "ImportRun") -> None:
    say_json(
        counts_of(run.news)
        | {
            "redacted": _sorted(_all(run, "redacted")),
            "unknownKinds": _sorted(_all(run, "unknown")),
            "agents": {kind or "unknown": _counts_of_agent(tally) for kind, tally in run.tallies.items()},
            "warnings": run.warned,
        }
    )


def counts_of(result: "ImportResult") -> dict[str, int]:
    names = ("sessions", "messages", "turns", "events", "damaged", "unknown", "duplicates")
    return {name: getattr(result, name) for name in names}


def _counts_of_agent(tally: "Tally") -> dict[str, Any]:
    counts = {
        "files": len(tally.outcomes),
        **{status: tally.count(status) for status in ("new", "grown", "unchanged")},
        "leftOut": tally.left_out,
    }
    return counts | counts_of(tally.news)


def tell(run: "ImportRun") -> None:
    """For people: warnings beside the data, then the news."""
    for warning in run.warned[:WARNINGS_SHOWN_MAX]:
        where = f"{warning['file']}: " if "file" in warning else ""
        at = f", at byte {warning['offset']}" if "offset" in warning else ""
        note(f"warning: {shown(where + warning['text'])} ({warning['code']}{at})")
    if len(run.warned) > WARNINGS_SHOWN_MAX:
        note(f"warning: {counted(len(run.warned) - WARNINGS_SHOWN_MAX, 'more')}; --json lists them")
    result = run.news
    files = sum(len(tally.outcomes) + tally.left_out for tally in run.tallies.values())
    say(f"{counted(files, 'transcript')}: {_news(result, dry_run=run.dry_run)}")
    if files:
        table(_COLUMNS, [_row(kind, tally) for kind, tally in run.tallies.items()])
    for line in _on_the_way(run):
        say(line)


def _news(result: "ImportResult", *, dry_run: bool) -> str:
    if not result.events:
        return "nothing new"
    news = (
        counted(result.sessions, "session"),
        counted(result.turns, "turn"),
        counted(result.messages, "message"),
    )
    brought = "would bring" if dry_run else "brought"
    return f"{brought} {', '.join(news)} ({counted(result.events, 'new event')})"


def _row(kind: str, tally: "Tally") -> list[str]:
    numbers = (
        len(tally.outcomes),
        *(tally.count(status) for status in ("new", "grown", "unchanged")),
        tally.left_out,
        tally.news.sessions,
        tally.news.messages,
        tally.news.damaged,
        tally.news.unknown,
        tally.redacted.total(),
    )
    titles = {one.kind: one.title for one in FORMATS}
    return [titles.get(kind, "-"), *(f"{number:,}" for number in numbers)]


def _on_the_way(run: "ImportRun") -> list[str]:
    """Kinds with their counts, and a last line of what was odd."""
    lines = []
    if unknown := _all(run, "unknown"):
        lines.append(f"unknown kinds: {_listed(unknown)}")
    if redacted := _all(run, "redacted"):
        lines.append(f"secrets redacted: {_listed(redacted)}")
    result = run.news
    beside = [
        counted(result.damaged, "damaged line") if result.damaged else "",
        counted(result.unknown, "unknown record") if result.unknown else "",
        counted(result.duplicates, "repeated record") if result.duplicates else "",
    ]
    if any(beside):
        lines.append(f"on the way: {', '.join(filter(None, beside))}")
    return lines


def _listed(counts: Counter[str]) -> str:
    return shown(", ".join(f"{kind} ×{count:,}" for kind, count in _sorted(counts).items()))


def _all(run: "ImportRun", what: str) -> Counter[str]:
    return sum((getattr(tally, what) for tally in run.tallies.values()), Counter())


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
