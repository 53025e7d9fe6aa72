"""docs/behaviour.md says what is tested, and what it says is tested."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
BEHAVIOUR = (CHECKOUT / "docs" / "behaviour.md").read_text("utf-8")
RULE = r"[A-Z][1-9]\d?"


def told_rules() -> list[str]:
    """The rules of the document, in its order."""
    return re.findall(rf"^- \*\*({RULE})\*\* ", BEHAVIOUR, re.MULTILINE)


def docstrings() -> Iterator[tuple[str, str]]:
    """Every test with its docstring."""
    for path in sorted((CHECKOUT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.name}::{node.name}", ast.get_docstring(node) or ""


def rules_of(docstring: str) -> list[str]:
    """The rules that a docstring begins with, as in `T3: …` or `T3, C5: …`."""
    found = re.match(rf"({RULE}(?:, {RULE})*): ", docstring)
    return found.group(1).split(", ") if found else []


def reasons(heading: str) -> set[str]:
    """The reasons in the table below a heading."""
    table = BEHAVIOUR.split(f"\n### {heading}\n")[1].split("\n### ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def words_in(node: ast.expr) -> set[str]:
    """The whole words that an argument may stand for."""
    if isinstance(node, ast.JoinedStr):
        return set()
    inner = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return {word for word in inner if isinstance(word, str) and word}


ARGUMENT = {"ignored": 2, "Outcome": 3, "Rejected": 0, "_Refusal": 0}
"""Which argument of a call is the reason."""


def words_of(*names: str) -> set[str]:
    """The reasons that rules and use cases spell out in calls of these names."""
    found: set[str] = set()
    for path in [*(CHECKOUT / "domain").glob("*.py"), *(CHECKOUT / "application").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                place = ARGUMENT[node.func.id]
                found |= words_in(node.args[place]) if len(node.args) > place else set()
    return found


def test_each_rule_stands_once_in_the_document() -> None:
    assert len(told_rules()) == len(set(told_rules())) > 60


def test_each_rule_of_the_document_is_named_by_a_test() -> None:
    named = {rule for _, docstring in docstrings() for rule in rules_of(docstring)}

    assert [rule for rule in told_rules() if rule not in named] == []


def test_each_rule_that_a_test_names_stands_in_the_document() -> None:
    known = set(told_rules())

    strange = {name: rules_of(text) for name, text in docstrings() if set(rules_of(text)) - known}

    assert strange == {}


def test_each_reason_in_the_code_is_listed() -> None:
    assert words_of("ignored", "Outcome") - reasons("Ignored") == set()
    assert words_of("Rejected", "_Refusal") - reasons("Rejected") == set()


def test_each_listed_reason_is_in_the_code() -> None:
    files = [*(CHECKOUT / "domain").glob("*.py"), *(CHECKOUT / "application").glob("*.py")]
    code = "".join(path.read_text("utf-8") for path in files).replace(
        'f"missing_{name}"', '"missing_role" "missing_kind"'
    )

    assert [one for one in reasons("Ignored") | reasons("Rejected") if f'"{one}"' not in code] == []


def test_the_document_names_sections_that_it_has() -> None:
    anchors = {heading.casefold() for heading in re.findall(r"^#+ (.+)$", BEHAVIOUR, re.MULTILINE)}

    assert [link for link in re.findall(r"\]\(#([\w-]+)\)", BEHAVIOUR) if link not in anchors] == []
