"""Secrets are taken out of everything that a transcript has stored."""

import json
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from application.transcript import KeptRecord
from infrastructure.transcripts.claude_code import read_claude_code
from infrastructure.transcripts.redaction import Redactor, known_secrets, marked
from tests.infrastructure.transcripts.outcome import messages_of
from tests.infrastructure.transcripts.script import SESSION, Script

TOKEN = "sesame-open-0123456789"


def tokens(text: str) -> Iterable[tuple[str, str]]:
    """Finds one secret wherever it stands."""
    return [("door", TOKEN)] if TOKEN in text else []


def test_nothing_of_a_transcript_keeps_a_secret() -> None:
    """J7: Texts, calls, results, titles, questions, errors and kept bytes: a mark stands everywhere."""
    script = Script()
    script.user(f"say {TOKEN}")
    script.call("m1", "c1", "AskUserQuestion", questions=[{"question": TOKEN}])
    script.result("c1", TOKEN, toolUseResult={"answers": {"q": TOKEN}})
    script.text("m2", f"{TOKEN} and {TOKEN}")
    script.row("assistant", isApiErrorMessage=True, message={"content": [{"type": "text", "text": TOKEN}]})
    script.raw({"type": "custom-title", "customTitle": TOKEN, "sessionId": SESSION})
    script.raw({"type": "brand-new", "x": TOKEN})
    script.rows.append(f'{{"type":"user" {TOKEN}'.encode() + b"\xff")
    redactor = Redactor(tokens)

    told = redactor.transcript(read_claude_code(script.data, f"{SESSION}.jsonl"))

    assert TOKEN not in repr(told)
    (session,) = told.sessions
    assert session.title == marked("door")
    assert messages_of(session)[0].payload["text"] == f"say {marked('door')}"
    raw = [entry.raw for entry in session.entries if isinstance(entry, KeptRecord)]
    assert raw[1].endswith(marked("door").encode() + b"\xff")
    assert redactor.counts["door"] >= 9


def test_a_transcript_without_secrets_is_left_as_it_is() -> None:
    script = Script()
    script.user("hello")
    script.call("m1", "c1", command="ls -l /usr/share/some/long/path")
    told = read_claude_code(script.data, f"{SESSION}.jsonl")

    assert Redactor(tokens).transcript(told) == told


@given(st.text(max_size=200))
def test_what_becomes_of_a_text_depends_on_it_alone(text: str) -> None:
    first, second = Redactor(known_secrets()), Redactor(known_secrets())
    second.text(f"something {TOKEN} else")

    assert first.text(text) == second.text(text)
    assert first.text(first.text(text)) == first.text(text)


def test_keys_and_tokens_of_many_kinds_are_known() -> None:
    redactor = Redactor(known_secrets())
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA2a2rwplBQLF29amygykEMmYz0+Kcj3bKBp29WNxkZ4\n"
    secrets = [
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
        "xoxb-123456789012-123456789012-abcdefghijklmnopqrstuvwx",
        key + "abcdEFGH\n-----END RSA PRIVATE KEY-----",
    ]

    for secret in secrets:
        text = redactor.text(f"here it is: {secret} and so on")
        assert secret not in text
        assert text.startswith("here it is: [redacted: ")
        assert text.endswith("] and so on")
    told = json.dumps(redactor.counts)
    assert all(kind in told for kind in ("github-pat", "gcp-api-key", "slack-bot-token", "private-key"))
