"""The OpenAPI document: what the routes say of themselves, and the schemas of what they read and write.

Routes read bodies and spell answers themselves, so the schemas of both are attached here by hand, from the
very models that check and spell them.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from infrastructure.http import problems, times
from infrastructure.http.bodies import KEY
from infrastructure.http.documents import ImportLine

DESCRIPTION: Final = (
    "The record of what coding agents did. Hosts report sessions, turns, messages and interactions; others"
    " read them as they are, as they were, and as a stream of changes. `docs/http.md` tells the conventions."
)
REFERENCE: Final = "#/components/schemas/{model}"

OPEN: Final = frozenset(("/healthz", "/readyz", "/version", "/problems/{slug}"))
"""What answers everybody."""
TOKEN: Final = MappingProxyType(
    {
        "type": "http",
        "scheme": "bearer",
        "description": "`reprise tokens create` makes one; callers on the same machine may need none.",
    }
)
GATE: Final = MappingProxyType(
    {
        status: said
        for status, said in problems.documented(
            problems.UNAUTHORIZED, problems.FORBIDDEN, problems.WRONG_HOST, problems.STOPPING
        ).items()
        if status != problems.INTERNAL.status
    }
)

_described: Final[set[type[BaseModel]]] = set()
"""Models whose schemas the document has to hold."""
_shown: Final[set[str]] = set()
"""Names of the views among them whose times are told as text."""
READ: Final = "Read"
"""Ends the name of a view whose times are told as text."""


def schema_of(model: type[BaseModel]) -> dict[str, str]:
    """A reference to a model's schema, which the document then holds."""
    _described.add(model)
    return {"$ref": REFERENCE.format(model=model.__name__)}


def reading_schema_of(model: type[BaseModel]) -> dict[str, str]:
    """The same for a view as the reading routes show it."""
    reference = schema_of(model)["$ref"]
    if model.__name__.endswith(READ):
        return {"$ref": reference}
    _shown.add(model.__name__)
    return {"$ref": reference + READ}


def described(
    body: type[BaseModel] | None, reply: type[BaseModel], said: str = "What became of it."
) -> dict[str, Any]:
    """What an operation reads and answers, for its `openapi_extra`."""
    return {**_reading(body, required=True), **_answering(schema_of(reply), said)}


def described_change(
    body: type[BaseModel] | None, reply: type[BaseModel], said: str = "How it is then."
) -> dict[str, Any]:
    """The same for an operation that answers with a view as the reading routes show it."""
    required = body is not None and needs_something(body)
    return {**_reading(body, required=required), **_answering(reading_schema_of(reply), said)}


def needs_something(body: type[BaseModel]) -> bool:
    """Whether there is something that has to be said; else the body may be left out."""
    return any(field.is_required() for field in body.model_fields.values())


def _reading(body: type[BaseModel] | None, *, required: bool) -> dict[str, Any]:
    if body is None:
        return {}
    return {
        "requestBody": {"required": required, "content": {"application/json": {"schema": schema_of(body)}}}
    }


def described_reading(reply: type[BaseModel], said: str) -> dict[str, Any]:
    """What an operation answers that shows a view to readers."""
    return _answering(reading_schema_of(reply), said)


def described_page(item: type[BaseModel], cursor: str = "opaque") -> dict[str, Any]:
    """What an operation answers that lists items page by page."""
    following = {"type": "string" if cursor == "opaque" else "integer", "description": "Asks for more."}
    schema = {
        "type": "object",
        "required": ["items"],
        "properties": {"items": {"type": "array", "items": reading_schema_of(item)}, "next": following},
    }
    return _answering(schema, "A page; the header Link leads to the next one.")


def described_lines() -> dict[str, Any]:
    """What the bulk import reads and answers: lines of JSON."""
    lines = {"type": "string", "description": "One report per line."}
    answers = {"schema": {"type": "string"}, "itemSchema": schema_of(ImportLine)}
    return {
        "requestBody": {"required": False, "content": {"application/x-ndjson": {"schema": lines}}},
        "responses": {
            "200": {"description": "An answer per line.", "content": {"application/x-ndjson": answers}}
        },
    }


def with_parameters(extra: dict[str, Any], *parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The same operation with parameters that its function reads from the request itself."""
    return {**extra, "parameters": [dict(one) for one in parameters]}


def _parameter(name: str, where: str, said: str, **schema: Any) -> Mapping[str, Any]:
    described = {"name": name, "in": where, "required": False, "description": said}
    return MappingProxyType({**described, "schema": {"type": "string", **schema}})


IDEMPOTENCY_KEY: Final = _parameter(
    "Idempotency-Key",
    "header",
    "Stands for this request: sent again with the same key, it is answered as before and does nothing.",
    pattern=KEY,
)
IF_MATCH: Final = _parameter(
    "If-Match",
    "header",
    "The ETag of what the command is meant for.",
    pattern=r'^(\*|"[0-9]{1,18}")$',
)
SESSION_ORIGIN: Final = _parameter(
    "session_origin", "query", "Where the session comes from, unless the body says so.", maxLength=512
)
DEVICE_ID: Final = _parameter("device_id", "query", "The device, unless the body names one.", maxLength=512)


def _answering(schema: Mapping[str, Any], said: str) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"responses": {"200": {"description": said, "content": content}}}


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of an application."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        schemas["Problem"] = dict(problems.SCHEMA)
        schemas.update(_schemas())
        made["components"]["schemas"] = dict(sorted(schemas.items()))
        made["components"]["securitySchemes"] = {"token": dict(TOKEN)}
        for path, methods in made["paths"].items():
            if path not in OPEN:
                for operation in methods.values():
                    _add_gate(operation)
        app.openapi_schema = made
    return app.openapi_schema


def _add_gate(operation: dict[str, Any]) -> None:
    """Say what stands before every route: it may want a token, and refuse for reasons of its own."""
    operation["security"] = [{"token": []}, {}]
    responses = operation["responses"]
    for status, gate in GATE.items():
        before = responses.get(str(status))
        said = f"{before['description']}; or: {gate['description']}" if before else gate["description"]
        responses[str(status)] = {**gate, "description": said}
    operation["responses"] = dict(sorted(responses.items()))


def _schemas() -> Mapping[str, Any]:
    """The schemas of all models that routes read or write.

    As they are written: what is read is taken more leniently, which no schema can say (text for numbers,
    snake_case, unknown keys).
    """
    models = sorted(_described, key=lambda model: model.__name__)
    _, made = models_json_schema([(model, "serialization") for model in models], ref_template=REFERENCE)
    found: dict[str, Any] = made.get("$defs", {})
    shown = set(_shown)
    for name in _shown:
        shown.update(part for part in found if f"/{part}'" in str(found[name]) and _tells_times(found[part]))
    return {**found, **{name + READ: _as_read(found[name], shown) for name in shown}}


def _tells_times(schema: Mapping[str, Any]) -> bool:
    return any(name.endswith(times.SUFFIX) for name in schema.get("properties", ()))


def _as_read(schema: Any, shown: Collection[str]) -> Any:
    """A schema with times as text, which are left out where they are unknown."""
    if isinstance(schema, list):
        return [_as_read(item, shown) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {"$ref": REFERENCE.format(model=name + READ if name in shown else name)}
    said = {key: _as_read(value, shown) for key, value in schema.items()}
    if isinstance(said.get("properties"), dict):
        told = {"type": "string", "format": "date-time"}
        said["properties"] = {
            name.removesuffix(times.SUFFIX): {**told, "title": value.get("title", name)}
            if name.endswith(times.SUFFIX)
            else value
            for name, value in said["properties"].items()
        }
        said["required"] = [name for name in said.get("required", ()) if not name.endswith(times.SUFFIX)]
    return said
