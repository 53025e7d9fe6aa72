"""Checks an evidence bundle: python verify.py [BUNDLE.zip or the folder it was unpacked to].

Needs Python 3.9 or newer and nothing else. Says what it found, and ends with 0 when everything holds, 1 at
the first thing that does not, 2 when there is nothing to check. VERIFY.md tells what that proves.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

FORMAT = "reprise-evidence/1"
MANIFEST = "manifest.json"
NOTHING = bytes(32)
"""The hash before the first event, and the commitment of an event without content."""
PURGED = "session.purged"


class Broken(Exception):
    """The first thing that does not hold; the text names it."""


class Checked(NamedTuple):
    """What a bundle that holds is about."""

    room: str
    session: str
    events: int
    erased: int
    head: str

    def told(self) -> str:
        lost = f", the content of {self.erased} destroyed" if self.erased else ""
        return f"holds: {self.events} events of {self.session} in {self.room}{lost}; head {self.head}"


class Files:
    """The files of a bundle, packed or unpacked."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._zip = None if place.is_dir() else zipfile.ZipFile(place)

    def names(self) -> list[str]:
        if self._zip is not None:
            return [name for name in self._zip.namelist() if not name.endswith("/")]
        found = (path for path in self._place.rglob("*") if path.is_file())
        return [path.relative_to(self._place).as_posix() for path in found if "__pycache__" not in path.parts]

    def read(self, name: str) -> bytes:
        if self._zip is not None:
            return self._zip.read(name)
        return (self._place / name).read_bytes()


def broken(text: str) -> NoReturn:
    raise Broken(text)


def check(place: Path) -> Checked:
    """Raise Broken for the first thing that does not hold."""
    try:
        files = Files(place)
        manifest = json.loads(files.read(MANIFEST))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise Broken(f"{place}: no bundle: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        broken(f"{MANIFEST}: not of the format {FORMAT}")
    try:
        check_files(files, manifest)
        erased = check_events(lines(files, "events.ndjson"), manifest)
        check_states(lines(files, "diffs.ndjson"), json.loads(files.read("state.json")), manifest["events"])
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise Broken(f"{place}: not as a bundle is: {error!r}") from None
    return Checked(
        manifest["room"], manifest["session"], manifest["events"], erased, manifest["head"]["hash"]
    )


def lines(files: Files, name: str) -> Iterator[Any]:
    for number, line in enumerate(files.read(name).splitlines(), 1):
        try:
            yield json.loads(line)
        except ValueError:
            broken(f"{name}, line {number}: no JSON")


def check_files(files: Files, manifest: dict[str, Any]) -> None:
    """Every file is the one that the manifest lists, and there is no other."""
    for name, digest in manifest["files"].items():
        try:
            content = files.read(name)
        except (KeyError, OSError):
            broken(f"{name}: missing")
        if hashlib.sha256(content).hexdigest() != digest:
            broken(f"{name}: not the file that the manifest lists")
    names = files.names()
    if len(set(names)) != len(names):
        broken("a file is in the bundle twice")
    for name in sorted(set(names) - set(manifest["files"]) - {MANIFEST}):
        broken(f"{name}: not listed in the manifest")


def check_events(found: Iterator[Any], manifest: dict[str, Any]) -> int:
    """Each event follows the one before it, from the first to the head; how many contents are destroyed."""
    previous, position, version = NOTHING, 0, 0
    erased: list[int] = []
    has_purge = False
    for event in found:
        where = f"events.ndjson, version {event['version']}"
        if event["version"] != version + 1:
            broken(f"{where}: version {version + 1} is missing, or out of order")
        if event["position"] <= position:
            broken(f"{where}: its position is not behind that of the event before it")
        facts = as_stored(event["facts"])
        commitment = check_content(event, json.loads(facts), where)
        text = f"{manifest['stream']}\n{event['version']}\n{event['topic']}\n{len(facts)}\n"
        if bytes.fromhex(event["previousHash"]) != previous:
            broken(f"{where}: it does not follow the event before it")
        if hashlib.sha256(previous + text.encode() + facts + commitment).hexdigest() != event["hash"]:
            broken(f"{where}: its hash is not that of what it says")
        previous, position, version = bytes.fromhex(event["hash"]), event["position"], event["version"]
        has_purge = has_purge or event["topic"] == PURGED
        if event["erased"]:
            erased.append(version)
    if version != manifest["events"] or manifest["head"] != {"version": version, "hash": previous.hex()}:
        broken(f"events.ndjson: it ends at version {version}, the manifest's head is another")
    if erased and not has_purge:
        broken(f"events.ndjson, version {erased[0]}: its content is missing, and nothing was purged")
    return len(erased)


def as_stored(text: str) -> bytes:
    return text.encode("utf-8")


def check_content(event: dict[str, Any], facts: dict[str, Any], where: str) -> bytes:
    """The commitment in an event's facts, which its content has to fit."""
    if "content" not in facts:
        if event["content"] is not None or event["erased"]:
            broken(f"{where}: it has a content, and its facts know of none")
        return NOTHING
    encoded, length = facts["content"]
    commitment = base64.b64decode(encoded)
    if event["erased"]:
        if event["content"] is not None or event["salt"]:
            broken(f"{where}: its content is said to be destroyed, and is there")
        return commitment
    if event["content"] is None:
        broken(f"{where}: its content is missing")
    content = as_stored(event["content"])
    if len(content) != length:
        broken(f"{where}: its content has {len(content)} bytes, its facts say {length}")
    if hashlib.sha256(bytes.fromhex(event["salt"]) + content).digest() != commitment:
        broken(f"{where}: its content is not the one that its facts commit to")
    return commitment


def check_states(diffs: Iterator[Any], state: Any, events: int) -> None:
    """The differences, one after the other, make the state."""
    made: Any = {}
    version = 0
    for diff in diffs:
        if diff["version"] != version + 1:
            broken(f"diffs.ndjson, version {diff['version']}: version {version + 1} is not before it")
        for operation in diff["patch"]:
            try:
                made = patched(made, operation)
            except (KeyError, IndexError, TypeError, ValueError):
                broken(f"diffs.ndjson, version {diff['version']}: {operation['path']} cannot be changed so")
        version = diff["version"]
    if version != events:
        broken(f"diffs.ndjson: it ends at version {version} of {events}")
    if made != state:
        broken("state.json: not what the differences make")


def patched(document: Any, operation: dict[str, Any]) -> Any:
    """The document after one operation of a JSON Patch (RFC 6902)."""
    act = operation["op"]
    if act == "move":
        value = found_at(document, operation["from"])
        document = changed_at(document, operation["from"], lambda here, key: here.pop(key))
        return patched(document, {"op": "add", "path": operation["path"], "value": value})
    if operation["path"] == "":
        return operation["value"]
    if act == "remove":
        return changed_at(document, operation["path"], lambda here, key: here.pop(key))
    if act == "add":
        return changed_at(document, operation["path"], lambda here, key: put(here, key, operation["value"]))
    if act == "replace":
        found_at(document, operation["path"])
        return changed_at(
            document, operation["path"], lambda here, key: here.__setitem__(key, operation["value"])
        )
    raise ValueError(act)


def put(here: Any, key: Any, value: Any) -> None:
    if isinstance(here, list):
        here.insert(key, value)
    else:
        here[key] = value


def steps(path: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def key_in(here: Any, step: str) -> Any:
    if isinstance(here, list):
        return len(here) if step == "-" else int(step)
    return step


def found_at(document: Any, path: str) -> Any:
    for step in steps(path):
        document = document[key_in(document, step)]
    return document


def changed_at(document: Any, path: str, change: Callable[[Any, Any], object]) -> Any:
    *above, last = steps(path)
    here = document
    for step in above:
        here = here[key_in(here, step)]
    change(here, key_in(here, last))
    return document


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        sys.stderr.write("usage: python verify.py [BUNDLE.zip or the folder it was unpacked to]\n")
        return 2
    place = Path(arguments[0]) if arguments else Path(__file__).resolve().parent
    try:
        checked = check(place)
    except Broken as error:
        sys.stdout.write(f"BROKEN: {error}\n")
        return 1
    sys.stdout.write(f"{checked.told()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
