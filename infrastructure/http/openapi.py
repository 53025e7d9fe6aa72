"""The OpenAPI document: what the routes say of themselves, and the schemas of what they read and write.

Routes read bodies and spell answers themselves, so the schemas of both are attached here by hand, from the
very models that check and spell them.
"""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from infrastructure.http import problems

DESCRIPTION: Final = (
    "The record of what coding agents did. Hosts report sessions, turns, messages and interactions; others"
    " read them as they are, as they were, and as a stream of changes. `docs/http.md` tells the conventions."
)
REFERENCE: Final = "#/components/schemas/{model}"

_described: Final[set[type[BaseModel]]] = set()
"""Models whose schemas the document has to hold."""


def schema_of(model: type[BaseModel]) -> dict[str, str]:
    """A reference to a model's schema, which the document then holds."""
    _described.add(model)
    return {"$ref": REFERENCE.format(model=model.__name__)}


def content_of(model: type[BaseModel], media_type: str = "application/json") -> dict[str, Any]:
    """A body that is one such model."""
    return {media_type: {"schema": schema_of(model)}}


def described(body: type[BaseModel] | None, reply: type[BaseModel], said: str = "Done.") -> dict[str, Any]:
    """What an operation reads and answers, for its `openapi_extra`."""
    extra: dict[str, Any] = {"responses": {"200": {"description": said, "content": content_of(reply)}}}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": content_of(body)}
    return extra


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
        app.openapi_schema = made
    return app.openapi_schema


def _schemas() -> Mapping[str, Any]:
    """The schemas of all models that routes read or write.

    As they are written: what is read is taken more leniently, which no schema can say (text for numbers,
    snake_case, unknown keys).
    """
    models = sorted(_described, key=lambda model: model.__name__)
    _, made = models_json_schema([(model, "serialization") for model in models], ref_template=REFERENCE)
    found: Mapping[str, Any] = made.get("$defs", {})
    return found
