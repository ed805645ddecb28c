"""Plans of small configurations, and what their addresses answer, for tests."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from numpy.typing import NDArray

from service.engine import by_key
from service.engine.errors import Fault, Refusal
from service.engine.scheme import whole
from service.models import Address, Options, Plan, Use, resolve

SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 6, "max_position_embeddings": 4096}


def plan(model_type: str, *, options: Options | None = None, **keys: Any) -> Plan:
    """The plan of a small configuration with these keys."""
    return resolve({"model_type": model_type, **SMALL, **keys}, options or Options())


def use(model_type: str, label: str | None = None, *, options: Options | None = None, **keys: Any) -> Use:
    """Its only use, or that of a type of layer."""
    found = [each for each in plan(model_type, options=options, **keys).uses if label in (None, each.layer_type)]
    assert len(found) == 1, [(each.layer_type, each.encoding) for each in found]
    return found[0]


def refusal(model_type: str, *, options: Options | None = None, **keys: Any) -> Fault:
    """What is wrong with it."""
    with pytest.raises(Refusal) as refused:
        plan(model_type, options=options, **keys)
    (fault,) = refused.value.faults
    return fault


def values(of: Use) -> dict[str, Any]:
    """Its parameters."""
    return {name: value.value for name, value in of.parameters.items()}


def sources(of: Use) -> dict[str, tuple[str, str]]:
    """Where its parameters come from."""
    return {name: (value.source, value.key) for name, value in of.parameters.items()}


def answers(address: Address) -> dict[str, NDArray[Any]]:
    """What this service answers at an address, without HTTP."""
    parts = urlsplit(address.href)
    _, _, family, name = parts.path.split("/")
    query: dict[str, Any] = dict(parse_qsl(parts.query))
    scheme = by_key(family, name)
    assert query.pop("revision") == str(scheme.revision)
    for key, value in ((address.body or {}).get("rope_parameters") or {}).items():
        query[key] = ",".join(map(repr, value)) if isinstance(value, list) else value
    return whole(scheme, scheme.params.model_validate(query))


def frequencies(of: Use) -> NDArray[np.float32]:
    """The inverse frequencies that a use's own address answers with."""
    return answers(of.addresses["frequencies"])["frequencies"]


def inv_freq(base: float, width: int) -> NDArray[np.float64]:
    """The plain formula, written anew."""
    return np.array([base ** (-2 * pair / width) for pair in range(width // 2)])


def said(of: Use, words: str) -> bool:
    """Whether one of its notes says so."""
    return any(words in note for note in of.notes)


def refused(config: object, options: Options | None = None) -> tuple[str, str]:
    """Where a whole file is refused, and why."""
    with pytest.raises(Refusal) as found:
        resolve(config, options or Options())
    (fault,) = found.value.faults
    return fault.parameter, fault.detail
