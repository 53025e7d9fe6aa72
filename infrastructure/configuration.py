"""Everything that can be set, checked at once, and where each value came from."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from infrastructure import settings
from infrastructure.settings import BadSetting

FLAG: Final = "flag"
ENVIRONMENT: Final = "environment"
FILE: Final = "file"
DEFAULT: Final = "default"
PREFIX: Final = "REPRISE_"
FLAGS: Final[Mapping[str, str]] = {"database_url": "--db", "workers": "--no-workers"}
"""How options are spelled that are not spelled like their setting."""


def _separated(value: object) -> object:
    """A list, which the environment spells with commas."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _store(url: str) -> str:
    """A store's address; what is wrong with it is told without repeating it."""
    try:
        return settings.store_url("it", url)
    except BadSetting as error:
        raise ValueError(str(error)) from None


def _service(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.password:
        raise ValueError("give http://host:port or https://host, without a password")
    return url.rstrip("/")


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_separated)]


class Settings(BaseSettings):
    """The settings of the service and of the verbs that ask one."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, validate_default=False
    )

    database_url: Annotated[str, AfterValidator(_store)] = ""
    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8765, ge=0, le=65_535)
    read_only: bool = False
    workers: bool = True
    require_token: bool = False
    allowed_hosts: Names = ()
    cors_origins: Names = ()
    drain_seconds: float = Field(default=10.0, gt=0, le=300)
    require_if_match: bool = False
    lag_seconds_max: float = Field(default=30.0, ge=0)
    allow_private_targets: bool = False
    nats_credentials: SecretStr = SecretStr("")
    url: Annotated[str, AfterValidator(_service)] = ""
    token: SecretStr = SecretStr("")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        *_: PydanticBaseSettingsSource,
        **__: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flag, then environment, then file."""
        file = InitSettingsSource(settings_cls, dict(settings.configured()))
        return (init_settings, env_settings, file)


class Setting(NamedTuple):
    """A setting as it is shown."""

    name: str
    value: Any
    """As JSON has it; without a secret."""
    source: str


def resolve(**flags: Any) -> Settings:
    """The settings; flags that are None were not given.

    Raises BadSetting with a line for each setting that means nothing; none of them repeats a value.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        found = Settings(**given)
    except ValidationError as error:
        raise BadSetting(*_lines(error, _sources(given))) from None
    if not found.database_url:
        return found.model_copy(update={"database_url": settings.database_url(None)})
    return found


def shown(found: Settings, **flags: Any) -> Iterable[Setting]:
    """Each setting with where it came from, secrets masked."""
    sources = _sources({name: value for name, value in flags.items() if value is not None})
    for name, value in found.model_dump(mode="json").items():
        masked = masked_url(value) if name.endswith("url") else value
        yield Setting(name, masked, sources.get(name, DEFAULT))


def masked_url(url: str) -> str:
    """The address without its password."""
    parts = urlsplit(url)
    if parts.password is not None:
        before, _, host = parts.netloc.rpartition("@")
        parts = parts._replace(netloc=f"{before.partition(':')[0]}:***@{host}")
    query = "&".join(
        f"{key}=***" if "pass" in key.lower() else f"{key}={value}" if equals else key
        for key, equals, value in (part.partition("=") for part in parts.query.split("&"))
    )
    # urlunsplit would take a slash from sqlite:////path.
    return url if parts.password is None and query == parts.query else parts._replace(query=query).geturl()


def _sources(flags: Mapping[str, Any]) -> dict[str, str]:
    """Which of the places each setting is taken from that is set anywhere."""
    places = ((FILE, settings.configured()), (ENVIRONMENT, EnvSettingsSource(Settings)()), (FLAG, flags))
    return {name: place for place, values in places for name in values}


def _lines(error: ValidationError, sources: Mapping[str, str]) -> Iterable[str]:
    for wrong in error.errors(include_input=False, include_url=False):
        name = ".".join(map(str, wrong["loc"]))
        what = "there is no such setting" if wrong["type"] == "extra_forbidden" else wrong["msg"]
        yield f"{_spelled(name, sources.get(name.split('.')[0], FILE))}: {what.removeprefix('Value error, ')}"


def _spelled(name: str, source: str) -> str:
    """The setting as whoever set it knows it."""
    match source:
        case "flag":
            return FLAGS.get(name, f"--{name.replace('_', '-')}")
        case "environment":
            return f"{PREFIX}{name.upper()}"
        case _:
            return f"{name} in {settings.config_file()}"
