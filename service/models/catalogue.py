"""Every model that is known by name: model types with their class defaults, and public checkpoints."""

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from service.engine.errors import Refusal
from service.models.context import Options
from service.models.known import known, names
from service.models.nearest import nearest
from service.models.plan import Plan
from service.models.resolve import resolve


@lru_cache(maxsize=1)
def checkpoints() -> Mapping[str, Mapping[str, Any]]:
    """Public checkpoints by name: `config` holds positional keys of the published file, `source` says where from."""
    content: Mapping[str, Mapping[str, Any]] = json.loads(
        (files("service.models.facts") / "checkpoints.json").read_text("utf-8")
    )
    return content


def is_model(name: str) -> bool:
    return name in checkpoints() or known(name)


def nearest_models(name: str) -> list[str]:
    return nearest(name, [*checkpoints(), *names()])


def config_of(name: str) -> Mapping[str, Any]:
    """The configuration of a checkpoint, or of a model type with nothing stated.

    >>> config_of("llama")
    {'model_type': 'llama'}
    """
    found = checkpoints().get(name)
    return {"model_type": name} if found is None else found["config"]


def plan_of(name: str, options: Options) -> Plan:
    return resolve(config_of(name), options)


@lru_cache(maxsize=1)
def entries() -> tuple[Mapping[str, Any], ...]:
    """What the list says of each: its schemes, or why its class defaults make no plan."""
    return tuple(_entry(name) for name in (*checkpoints(), *names()))


def _entry(name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "kind": "checkpoint" if name in checkpoints() else "model type"}
    row["model_type"] = config_of(name)["model_type"]
    try:
        plan = plan_of(name, Options())
    except Refusal as error:
        return row | {"schemes": [], "encodings": [], "refused": str(error)}
    uses = plan.uses
    return row | {
        "schemes": list(dict.fromkeys("/".join(use.scheme) for use in uses if use.scheme)),
        "encodings": list(dict.fromkeys(use.encoding for use in uses)),
    }
