"""Every model type of transformers with a rotary module: the module itself against the addresses of its plan.

The class is built from its own defaults, then with every scaling; the service gets the same configuration as JSON and
nothing else. Two stages: inverse frequencies within two ulp, and where they are the same bits, cosines and sines within
one ulp, at positions up to 131071. What is not covered is listed with its reason.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.clients import Client
from tests.models.fixtures import JSON, fetched
from tests.oracles.exact import ulps_apart
from tests.oracles.live_models import Array, Known, Module, rotary_classes

pytestmark = pytest.mark.oracle

POSITIONS = np.array([0, 1, 17, 4095, 131071])
NOT_COVERED: dict[str, str] = {}


@pytest.fixture(scope="module")
def known() -> dict[str, Known]:
    return rotary_classes()


def asked(client: Client, config: Mapping[str, Any]) -> Any:
    """(plan, None), or (None, the refusal's text)."""
    answer = client.post("/v1/models/resolve", content=json.dumps(config).encode(), headers=JSON)
    assert answer.status_code in (200, 422), answer.text
    return (answer.json(), None) if answer.status_code == 200 else (None, answer.text)


def turning(plan: Any, label: str | None) -> list[Any]:
    uses = [use for use in plan["uses"] if use["encoding"] in ("rope", "rope-axes") and use["scope"] == ""]
    alike = [use for use in uses if use["layer_type"] == label]
    return alike or ([] if label is not None and any(use["layer_type"] for use in uses) else uses)


LABELS = {"main": "sliding_attention", "compress": "compressed_sparse_attention"}


def check(client: Client, plan: Any, built: Module, positions: Array = POSITIONS) -> int:
    """Frequencies, factor and tables of every kind of layer; how many were held against the plan."""
    checked = 0
    for label, theirs in built.frequencies().items():
        uses = turning(plan, LABELS.get(label or "", label))
        assert uses, (label, [(use["layer_type"], use["encoding"]) for use in plan["uses"]])
        use = uses[0]
        length = {"seq_len": "1"} if "seq_len" in use["parameters"] else {}
        ours = fetched(client, use["addresses"]["frequencies"], **length)["frequencies"].ravel()
        ours = ours[: len(theirs)] if use["encoding"] == "rope-axes" else ours
        assert ours.shape == theirs.shape, (label, ours.shape, theirs.shape)
        apart = ulps_apart(ours, theirs).max()
        assert apart <= 2, (label, apart)
        factor = built.factor(label)
        assert np.isclose(use["facts"]["attention_factor"], factor, rtol=1e-15), (label, factor)
        check_tables(client, use, built, label, ours == theirs, positions)
        checked += 1
    return checked


def check_tables(client: Client, use: Any, built: Module, label: str | None, same: Array, positions: Array) -> None:
    """Cosines and sines where the inverse frequencies are the same bits."""
    stretched = use["parameters"].get("rope_type", {}).get("value") in ("dynamic", "longrope")
    longest = use["parameters"].get("original_max_position_embeddings", {}).get("value", 1)
    if stretched:
        positions = positions[positions < min(2048, longest if longest > 1 else 2048)]
    tables = built.tables(label, positions)
    assert tables is not None, "the module was not understood"
    text = ",".join(map(str, positions))
    if use["encoding"] == "rope-axes":
        ours = axes_tables(client, use, positions)
        for mine, theirs in zip((ours["cos"], ours["sin"]), tables, strict=True):
            assert mine.shape == theirs.shape
            assert np.mean(ulps_apart(mine, theirs) <= 1) > 0.7
            near = np.abs(mine.astype(np.float64) - theirs)[positions < 20]
            assert near.max() <= 1.2e-5
        return
    change = {"length": "", "positions": text, "columns": "half"} | ({"seq_len": str(positions.max() + 1)} if stretched else {})
    ours = fetched(client, use["addresses"]["tables"], **change)
    for name, theirs in zip(("cos", "sin"), tables, strict=True):
        width = len(same)
        mine = ours[name]
        assert mine.shape == (len(positions), width)
        # Doubled tables have each column twice, as blocks or as neighbours.
        choices = [theirs] if theirs.shape[1] == width else [theirs[:, :width], theirs[:, ::2][:, :width]]
        apart = min(ulps_apart(mine[:, same], each[:, same]).max() for each in choices)
        assert apart <= 1, (name, apart)


def axes_tables(client: Client, use: Any, positions: Array) -> dict[str, Array]:
    """The tables of a tower at positions that are alike on every axis."""
    axes = use["facts"]["axes"]
    address = {**use["addresses"]["tables"], "method": "POST", "body": {"positions": [[int(p)] * axes for p in positions]}}
    gone = dict.fromkeys(("grid", "spatial_merge_size", "offset", "class_token", "coordinates", "base_size"), "")
    return fetched(client, address, **gone)


def test_defaults_of_every_class(direct: Client, known: dict[str, Known], capsys: pytest.CaptureFixture[str]) -> None:
    """Class defaults: what the library can build, the plan answers for; what it cannot, the plan may refuse."""
    covered, refused, failed = [], {}, {}
    for name, each in known.items():
        plan, refusal = asked(direct, {"model_type": name})
        try:
            built = each.build()
        except Exception as error:  # whatever stops the library
            refused[name] = f"transformers: {type(error).__name__}: {error}"[:90] + f" / plan: {(refusal or 'answers')[:60]}"
            continue
        if plan is None:
            failed[name] = str(refusal)[80:260]
            continue
        try:
            assert check(direct, plan, built) or not built.frequencies()
            covered.append(name)
        except Exception as error:  # listed with its reason, and held against the list
            failed[name] = str(error).split("\n")[0][:200]
    with capsys.disabled():
        print(f"\nrotary classes: {len(known)}; class defaults covered: {len(covered)}; library cannot build: {len(refused)}")
        for name, why in {**refused, **failed}.items():
            print(f"  not covered: {name}: {NOT_COVERED.get(name, why)}")
    assert set(failed) == set(NOT_COVERED), sorted(set(failed) ^ set(NOT_COVERED))


SCALINGS: Mapping[str, Mapping[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 2048},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 2048,
    },
    "longrope": {"factor": 4.0, "original_max_position_embeddings": 2048},
    "proportional": {"partial_rotary_factor": 0.5},
}
NOT_COVERED_SCALED: dict[str, str] = {}


@pytest.mark.parametrize("scaling", list(SCALINGS))
@pytest.mark.parametrize("spelling", ["rope_parameters", "rope_scaling"])
def test_every_scaling(
    direct: Client, known: dict[str, Known], scaling: str, spelling: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each type with each scaling that its class takes, in the new spelling and in the old one."""
    covered, failed, declined = 0, {}, []
    for name, each in known.items():
        block = {"rope_type": scaling, **SCALINGS[scaling]}
        try:
            pairs = len(next(iter(each.build().frequencies().values())))
        except Exception:  # the class's defaults cannot be built: the test above lists it
            continue
        if scaling == "longrope":
            block |= {"short_factor": [1.0 + 0.01 * k for k in range(pairs)], "long_factor": [2.0] * pairs}
        given: dict[str, Any]
        if spelling == "rope_parameters":
            given = {"rope_parameters": {**block, "rope_theta": 77777.0}}
        else:
            given = {"rope_scaling": block, "rope_theta": 77777.0}
        plan, refusal = asked(direct, {"model_type": name, **given})
        try:
            built = each.build(**json.loads(json.dumps(given)))
        except Exception:  # the library refuses: so may the service
            declined.append(name if plan is None else f"{name} (plan answers)")
            continue
        if plan is None:
            failed[name] = str(refusal)[80:260]
            continue
        try:
            check(direct, plan, built, POSITIONS[:4])
            covered += 1
        except Exception as error:  # listed with its reason, and held against the list
            failed[name] = str(error).split("\n")[0][:160]
    with capsys.disabled():
        print(f"\n{scaling} as {spelling}: covered {covered}; the library declines {len(declined)}; not covered {len(failed)}")
        for name, why in failed.items():
            print(f"  not covered: {name}: {why}")
    unexpected = {f"{name} {scaling} {spelling}" for name in failed} ^ {
        key for key in NOT_COVERED_SCALED if key.endswith(f" {scaling} {spelling}")
    }
    assert not unexpected, sorted(unexpected)
