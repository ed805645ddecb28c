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
NOT_COVERED: Mapping[str, str] = {
    "efficientloftr": "its module answers for a feature map: see test_model_tables",
    "musicflamingo": "its module answers for seconds of windows: see test_model_tables",
}


# What a class needs to be said before it turns at all, or can be built.
SAID: Mapping[str, Mapping[str, Any]] = {
    "bamba": {"attn_layer_indices": [1, 3]},
    "esm": {"position_embedding_type": "rotary", "pad_token_id": 1},
    "glm4_moe": {"head_dim": 64},
    "glm4v_moe_text": {"head_dim": 64, "mrope": [4, 6, 6], "mrope_whole": [8, 12, 12]},
    "glm4v_text": {"mrope": [16, 24, 24]},
    "glm_image_text": {"mrope": [16, 24, 24]},
    "granitemoehybrid": {
        "position_embedding_type": "rope",
        "layer_types": ["mamba", "attention"],
        "num_hidden_layers": 2,
    },
    "hunyuan_vl_text": {"mrope": [16, 16, 16, 16]},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "zamba2": {"use_mem_rope": True},
}


def said(name: str, **more: Any) -> dict[str, Any]:
    """What is given of a type: sections go into its RoPE block."""
    given = {**SAID.get(name, {}), **more}
    sections, whole = given.pop("mrope", None), given.pop("mrope_whole", None)
    if whole and "proportional" in (block.get("rope_type") for block in given.values() if isinstance(block, dict)):
        sections = whole  # the exponents run over the whole head
    if sections is not None:
        block = next((key for key in ("rope_parameters", "rope_scaling") if key in given), "rope_parameters")
        plain = {"rope_type": "default", "rope_theta": 10000.0}
        given[block] = {**given.get(block, plain), "mrope_section": sections}
    return given


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
    for label, found in built.frequencies().items():
        own = LABELS.get(label or "", label)
        uses = turning(plan, own)
        if not uses and own is not None and own not in (getattr(built.config, "layer_types", None) or [own]):
            continue  # no layer of that kind
        assert uses, (label, [(use["layer_type"], use["encoding"]) for use in plan["uses"]])
        use, theirs = uses[0], natural(found)
        ours = frequencies(client, use, len(theirs))
        if use["parameters"].get("angle_factor", {}).get("value") == "two-pi":
            assert np.abs(ours / (2 * np.pi * theirs.astype(np.float64)) - 1).max() <= 5e-7
            checked += 1
            continue
        assert ours.shape == theirs.shape, (label, ours.shape, theirs.shape)
        apart = ulps_apart(ours, theirs).max()
        assert apart <= 2, (label, apart)
        factor = built.factor(label)
        if use["model_type"] != "phimoe":  # whose module keeps a factor that its tables do not have
            assert np.isclose(use["facts"]["attention_factor"], factor, rtol=1e-15), (label, factor)
        check_tables(client, use, built, label, ours == theirs, positions)
        checked += 1
    return checked


def natural(theirs: Array) -> Array:
    """Frequencies from the highest to the lowest: some classes keep them in the order of their axes."""
    return theirs if (np.diff(theirs) <= 0).all() else np.sort(theirs)[::-1]


def frequencies(client: Client, use: Any, pairs: int) -> Array:
    """Those of the plan's address; a tower's are every axis's, of which each is one."""
    length = {"seq_len": "1"} if "seq_len" in use["parameters"] else {}
    ours = fetched(client, use["addresses"]["frequencies"], **length)["frequencies"].ravel()
    if use["encoding"] == "rope":
        return ours
    return natural(ours) if len(ours) == pairs else np.unique(ours)[::-1]


def check_tables(client: Client, use: Any, built: Module, label: str | None, same: Array, positions: Array) -> None:
    """Cosines and sines where the inverse frequencies are the same bits: an ulp, two with an amplitude."""
    stretched = use["parameters"].get("rope_type", {}).get("value") in ("dynamic", "longrope")
    longest = use["parameters"].get("original_max_position_embeddings", {}).get("value", 2048)
    if stretched:
        positions = positions[positions < min(2048, longest)]
    width = len(same)
    if use["encoding"] == "rope-axes":
        mine = axes_tables(client, use, positions)
        towers = built.tables(label, positions, (mine["cos"].shape[1],))
        assert towers is not None, "the module was not understood"
        for name, table in zip(("cos", "sin"), towers, strict=True):
            near = 2.4e-7 + np.abs(positions)[:, None] * 2.4e-7  # two ulp of a frequency, times the position
            assert (np.abs(mine[name].astype(np.float64) - table) <= near).all(), name
            assert (ulps_apart(mine[name], table) <= 1).mean() > 0.6
        return
    tables = built.tables(label, positions, (width, 2 * width))
    assert tables is not None, "the module was not understood"
    change = {"length": "", "positions": ",".join(map(str, positions)), "columns": "half"}
    change |= {"seq_len": str(positions.max() + 1)} if stretched else {}
    ours = fetched(client, use["addresses"]["tables"], **change)
    turns_back = use["parameters"].get("angle_sign", {}).get("value") == "negative"
    for name, theirs in zip(("cos", "sin"), tables, strict=True):
        waves = -ours[name] if turns_back and name == "sin" else ours[name]
        assert waves.shape == (len(positions), width)
        # Doubled tables have each column twice, as blocks or as neighbours.
        choices = [theirs] if theirs.shape[1] == width else [theirs[:, :width], theirs[:, ::2]]
        apart = min(ulps_apart(waves[:, same], each[:, same]).max() for each in choices)
        assert apart <= (1 if use["facts"]["attention_factor"] == 1 else 2), (name, apart)


def axes_tables(client: Client, use: Any, positions: Array) -> dict[str, Array]:
    """The tables of a tower at positions that are alike on every axis."""
    axes = use["facts"]["axes"]
    body = {"positions": [[int(position)] * axes for position in positions]}
    gone = dict.fromkeys(("grid", "spatial_merge_size", "offset", "class_token", "coordinates", "base_size"), "")
    return fetched(client, {**use["addresses"]["tables"], "method": "POST", "body": body}, **gone)


def test_defaults_of_every_class(direct: Client, known: dict[str, Known], capsys: pytest.CaptureFixture[str]) -> None:
    """Class defaults: what the library can build, the plan answers for; what it cannot, the plan may refuse."""
    covered, refused, failed = [], {}, {}
    for name, each in known.items():
        plan, refusal = asked(direct, {"model_type": name, **said(name)})
        try:
            built = each.build(**said(name))
        except Exception as error:  # whatever stops the library
            refused[name] = (
                f"transformers: {type(error).__name__}: {error}"[:90] + f" / plan: {(refusal or 'answers')[:60]}"
            )
            continue
        if plan is None:
            failed[name] = str(refusal)[80:260]
            continue
        try:
            assert check(direct, plan, built) or not built.frequencies()
            assert saved_alike(direct, name, plan, built.config)
            covered.append(name)
        except Exception as error:  # listed with its reason, and held against the list
            failed[name] = str(error).split("\n")[0][:200]
    with capsys.disabled():
        print(
            f"\nrotary types: {len(known)}; defaults covered: {len(covered)}; the library cannot build: {len(refused)}"
        )
        for name, why in {**refused, **failed}.items():
            print(f"  not covered: {name}: {NOT_COVERED.get(name, why)}")
    assert set(failed) == set(NOT_COVERED), sorted(set(failed) ^ set(NOT_COVERED))


def saved_alike(client: Client, name: str, plan: Any, config: Any) -> bool:
    """Whether the file that the library writes of the configuration, every key of it, gives the same plan."""
    document = json.loads(config.to_json_string(use_diff=False))
    again, refusal = asked(client, {**document, "model_type": name})
    assert again is not None, refusal

    def essence(plan: Any) -> list[Any]:
        said = ("layer_type", "layers", "encoding", "window")
        uses = [use for use in plan["uses"] if use["scope"] == ""]
        return [
            [*(use[key] for key in said), {key: each["value"] for key, each in use["parameters"].items()}]
            for use in uses
        ]

    assert essence(again) == essence(plan), "the saved file has another plan"
    return True


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


def notes_of(plan: Any) -> list[str]:
    return [note for use in plan["uses"] for note in use["notes"]]


@pytest.mark.parametrize("scaling", list(SCALINGS))
@pytest.mark.parametrize("spelling", ["rope_parameters", "rope_scaling"])
def test_every_scaling(
    direct: Client, known: dict[str, Known], scaling: str, spelling: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each type with each scaling that its class takes, in the new spelling and in the old one."""
    covered, failed, declined, guessed = 0, {}, [], []
    for name, each in known.items():
        # dots3.note's proportional frequencies are those of a head of which only a part turns: refused.
        if name in NOT_COVERED or (name, scaling) == ("dots3_note_text", "proportional"):
            continue
        block = {"rope_type": scaling, **SCALINGS[scaling]}
        try:
            pairs = len(next(iter(each.build(**said(name)).frequencies().values())))
        except Exception:  # the class's defaults cannot be built: the test above lists it
            continue
        if scaling == "longrope":
            block |= {"short_factor": [1.0 + 0.01 * k for k in range(pairs)], "long_factor": [2.0] * pairs}
            # Only PhiMoE reads these: of all others they must change nothing.
            block |= {"short_mscale": 1.25, "long_mscale": 1.5}
        given: dict[str, Any]
        if spelling == "rope_parameters":
            given = {"rope_parameters": {**block, "rope_theta": 77777.0}}
        else:
            given = {"rope_scaling": block, "rope_theta": 77777.0}
        given = said(name, **given)
        plan, refusal = asked(direct, {"model_type": name, **given})
        try:
            built = each.build(**json.loads(json.dumps(given)))
        except Exception:  # the library refuses: so may the service
            declined.append(name)
            guessed += [name] if plan is not None else []
            if plan is not None and not any("transformers fails on" in note for note in notes_of(plan)):
                failed[name] = "the library declines, and the plan does not say so"
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
        print(
            f"\n{scaling} as {spelling}: {covered} covered; {len(declined)} declined by the library; {len(failed)} not"
        )
        print(f"  the library declines and the plan answers: {' '.join(guessed)}")
        for name, why in failed.items():
            print(f"  not covered: {name}: {why}")
    assert not failed


def nested(config: Any) -> dict[str, Any] | None:
    """A block for each type of layer with bases of their own; None where the class has one type."""
    labels = sorted(set(getattr(config, "layer_types", None) or ()))
    turned = [label for label in labels if label not in ("linear_attention", "conv", "recurrent", "moe", "mlp")]
    if len(turned) < 2:
        return None
    bases = {label: 1000.0 * (place + 2) for place, label in enumerate(turned)}
    return {label: {"rope_type": "default", "rope_theta": base} for label, base in bases.items()}


def test_layer_patterns_and_nested_blocks(
    direct: Client, known: dict[str, Known], capsys: pytest.CaptureFixture[str]
) -> None:
    """The kinds of layers that every class assumes, and a block for each kind where there are several."""
    patterns, blocks, failed = 0, 0, {}
    for name, each in known.items():
        if name in NOT_COVERED:
            continue
        try:
            config = each.build(**said(name)).config
        except Exception:  # the class's defaults cannot be built: the first test lists it
            continue
        plan, _ = asked(direct, {"model_type": name, **said(name)})
        theirs = getattr(config, "layer_types", None)
        if theirs and plan is not None:
            patterns += 1
            ours = {
                layer: use["layer_type"] for use in plan["uses"] if use["scope"] == "" for layer in use["layers"] or ()
            }
            if (
                ours
                and set(ours.values()) != {None}
                and [ours.get(layer) for layer in range(len(theirs))] != list(theirs)
            ):
                failed[name] = "pattern"
        block = nested(config) if name != "deepseek_v4" else None  # its labels are main and compress
        if block is None:
            continue
        given = said(name, rope_parameters=block)
        try:
            built = each.build(**json.loads(json.dumps(given)))
        except Exception:  # the library refuses: so may the service
            continue
        plan, refusal = asked(direct, {"model_type": name, **given})
        try:
            assert plan is not None, refusal
            check(direct, plan, built, POSITIONS[:4])
            blocks += 1
        except Exception as error:  # listed with its reason, and held against the list
            failed[name] = str(error).split("\n")[0][:160]
    with capsys.disabled():
        print(f"\nlayer patterns alike: {patterns}; nested blocks covered: {blocks}; not: {len(failed)}")
        for name, why in failed.items():
            print(f"  not covered: {name}: {why}")
    assert not failed
