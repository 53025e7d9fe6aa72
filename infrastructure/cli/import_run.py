"""One run of an import: which files are read, what each brought, and what is told of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, Final, Literal

from application.importing import ImportResult, import_transcript
from domain.errors import Malformed, Rejected
from infrastructure.collector import Sweeper, spared
from infrastructure.transcripts.files import FoundFile, TranscriptFile
from infrastructure.transcripts.formats import FORMATS, format_of
from infrastructure.transcripts.memo import Fingerprint, Mark, Memo, fingerprint, is_settled
from infrastructure.transcripts.reading import Reading, read_all

if TYPE_CHECKING:
    from application.ledger import Ledger

SAVE_EVERY_S: Final = 10.0
"""So much reading is done again at most when an import is killed."""

Warned = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one file came to; a file that is read again in the same run has one all the same."""

    status: Literal["new", "grown", "unchanged"]
    met: ImportResult = field(default_factory=ImportResult)
    """Damage and the like, as the file was read last."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    redacted: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Tally:
    """What the files of one agent came to."""

    outcomes: dict[Path, Outcome] = field(default_factory=dict)
    left_out: int = 0
    brought: ImportResult = field(default_factory=ImportResult)
    """Sessions, turns, messages and events that are new."""

    def add(self, path: Path, outcome: Outcome) -> None:
        """A file's first status but "unchanged" stays; the rest is told as it was met last."""
        before = self.outcomes.get(path)
        if before and before.status != "unchanged":
            outcome = replace(outcome, status=before.status)
        if before and outcome.status == "unchanged":
            return
        self.outcomes[path] = outcome

    def count(self, status: str) -> int:
        return sum(outcome.status == status for outcome in self.outcomes.values())

    @property
    def news(self) -> ImportResult:
        return sum((outcome.met for outcome in self.outcomes.values()), self.brought)

    @property
    def unknown(self) -> Counter[str]:
        return sum((Counter(outcome.unknown) for outcome in self.outcomes.values()), Counter())

    @property
    def redacted(self) -> Counter[str]:
        return sum((Counter(outcome.redacted) for outcome in self.outcomes.values()), Counter())


@dataclass
class ImportRun:
    """Takes files in, one after the other, and keeps count."""

    ledger: "Ledger"
    memo: Memo
    room: str = ""
    dry_run: bool = False
    redacts: bool = True
    tallies: dict[str, Tally] = field(default_factory=dict)
    """By the kind of format; blank for files whose format was not found out."""
    warned: list[Warned] = field(default_factory=list)
    _warned_of: set[Path] = field(default_factory=set)
    records: int = 0
    live: bool = False
    """What is read is being written: turns go on where files end, and have to be ended later."""
    _seen: Memo = field(default_factory=lambda: Memo(None, ""))
    """What was read in this run, as live or not."""
    _sweeper: Sweeper = field(default_factory=Sweeper)

    def take(self, files: Iterable[FoundFile], went_on: Callable[[Path, int], None]) -> None:
        """Take in what is not remembered as it is; raises what ends the whole import."""
        work = [(found, fingerprint(found.path, _beside(found))) for found in files]
        unread = []
        for found, print_ in work:
            if kind := self._known(found.path, print_):
                self._tally(kind).add(found.path, Outcome("unchanged"))
                went_on(found.path, self.records)
            else:
                unread.append((found, print_))
        saved_at = monotonic()
        try:
            for reading, print_ in self._read(unread):
                self._take_one(reading, print_)
                self._sweeper.worked_on(print_[0] if print_ else 0)
                went_on(reading.found.path, self.records)
                if monotonic() - saved_at > SAVE_EVERY_S:
                    self.save()
                    saved_at = monotonic()
        finally:
            self.save()

    def save(self) -> None:
        if not self.dry_run:
            self.memo.save(last_commit(self.ledger))

    def trouble(self, text: str, kind: str = "", code: str = "unreadable") -> None:
        """Something could not be taken in; the others are."""
        self._tally(kind).left_out += 1
        self.warned.append({"code": code, "text": text})

    @property
    def news(self) -> ImportResult:
        return sum((tally.news for tally in self.tallies.values()), ImportResult())

    @property
    def left_out(self) -> int:
        return sum(tally.left_out for tally in self.tallies.values())

    def _read(
        self, unread: list[tuple[FoundFile, Fingerprint | None]]
    ) -> Iterator[tuple[Reading, Fingerprint | None]]:
        sized = [(found, print_[0] if print_ else 0) for found, print_ in unread]
        readings = read_all(sized, redacts=self.redacts)
        yield from zip(readings, (print_ for _, print_ in unread), strict=True)

    def _take_one(self, reading: Reading, print_: Fingerprint | None) -> None:
        path, file = reading.found.path, reading.file
        if file is None:
            self.trouble(reading.trouble, reading.found.format.kind if reading.found.format else "")
            return
        try:
            news = self._import(file)
        except (Malformed, Rejected) as error:
            self.trouble(f"{path}: {error}", file.kind, "refused")
            return
        tally = self._tally(file.kind)
        tally.brought += ImportResult(news.sessions, news.messages, news.turns, news.events)
        status: Literal["new", "grown", "unchanged"] = "unchanged"
        if news.events:
            status = "new" if news.sessions else "grown"
        met = ImportResult(damaged=news.damaged, unknown=news.unknown, duplicates=news.duplicates)
        tally.add(path, Outcome(status, met, file.transcript.unknown, reading.redacted))
        self.records += file.transcript.records
        if path not in self._warned_of:
            self._warned_of.add(path)
            self.warned += [_warned(path, remark) for remark in news.warnings]
        if print_:
            self._seen.remember(path, file.kind, print_)
        if self.live:
            self.memo.forget(path)
        elif print_ and is_settled(print_, time_ns()) and not self.dry_run:
            self.memo.remember(path, file.kind, print_)

    def _known(self, path: Path, print_: Fingerprint | None) -> str:
        """The kind of a file that was read as it is; blank for any other."""
        kind = self.memo.kind_of(path, print_)
        return kind or (self._seen.kind_of(path, print_) if self.live else "")

    def _import(self, file: TranscriptFile) -> ImportResult:
        with spared():
            return import_transcript(
                self.ledger,
                file.transcript,
                import_id=file.import_id,
                digest=file.digest,
                variant="" if self.redacts else ":unredacted",
                live=self.live,
                room=self.room,
                dry_run=self.dry_run,
            )

    def _tally(self, kind: str) -> Tally:
        return self.tallies.setdefault(kind, Tally())


def _beside(found: FoundFile) -> Path | None:
    format_ = found.format or format_of(found.path, b"")
    return format_.beside(found.path)


def _warned(path: Path, remark: Any) -> Warned:
    place = {"offset": remark.place.offset, "length": remark.place.length} if remark.place else {}
    return {"code": remark.code, "text": remark.text, "file": str(path), **place}


def last_commit(ledger: "Ledger") -> Mark | None:
    """The store's last commit that changed a session."""
    last = next(ledger.deltas(max(ledger.delivery.deliveries.end() - 1, 0)), None)
    return Mark(last.transaction_id, last.last_position) if last else None


def holds(ledger: "Ledger", mark: Mark) -> bool:
    """Whether the store still has a commit where it was."""
    from domain.ids import TransactionId

    found = ledger.store.delta(TransactionId(mark.transaction))
    return found is not None and found.last_position == mark.position


def deleting_agents(environment: Mapping[str, str], home: Path) -> list[Warned]:
    """The agents that are here and set to delete what is to be imported."""
    return [
        {"code": "deletes", "text": f"{one.title} {told}"}
        for one in FORMATS
        if any(folder.is_dir() for folder in one.folders(environment, home))
        and (told := one.deletes(environment, home))
    ]
