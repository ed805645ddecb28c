"""Published configurations, varied key by key: the class built of the same file against the plan's own addresses.

Every key is left out and set to null, within the RoPE block too; blocks change their spelling, bases and shares their
place. A plan that is given has the class's frequencies, amplitude, layers and windows; where the class fails, the plan
says so. What is left is listed with its reason.
"""

import copy
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from service.engine.errors import Refusal
from service.models import Plan, Use, resolve
from tests.golden.frozen import library
from tests.models.fixtures import fixtures
from tests.models.plans import answers
from tests.oracles.exact import ulps_apart
from tests.oracles.live_models import Array, Known, Module, rotary_classes
from tests.oracles.test_model_plans import LABELS, natural

pytestmark = pytest.mark.oracle

BLOCKS = ("rope_parameters", "rope_scaling")
Path = tuple[str, ...]
Varied = tuple[str, dict[str, Any]]
# What a class fails on though positions do not depend on it, or by a rule that the plan does not follow, and why.
SILENT: Mapping[str, str] = {
    "kv_lora_rank null": "no position depends on it",
    "q_lora_rank null": "no position depends on it",
    "num_channels null": "no position depends on it",
    "sliding_window_pattern null": "an older key of Cohere 2, of which the plan takes the class's 4",
    "head_dim added": "Falcon's class has no place for it; Qwen's tower holds it against its embed_dim",
    "head_dim null": "HunYuan's alpha and Mistral 4's share are of a stated width alone: the plan is of the quotient",
    "without head_dim": "HunYuan's alpha, likewise",
    "without hidden_size": "a check of the class's own between widths of a default and of the file",
    "without rope_scaling.factor": "HunYuan's alpha does not depend on it",
    "llama4-16e-4layer rope_theta null": "the base of Llama 4's tower is 10000 in the plan",
    "llama4-scout rope_theta null": "likewise",
    "rope_parameters empty": "the class's own blocks stand for an empty one in the plan",
    "without rope_parameters.full_attention.original_max_position_embeddings": "Laguna's longest context stands for it",
}


def parts(config: Mapping[str, Any], known: Mapping[str, Known]) -> Iterator[Path]:
    """Where the objects are whose type has a rotary class."""
    if config.get("model_type") in known:
        yield ()
    for key, value in config.items():
        if isinstance(value, dict):
            yield from ((key, *path) for path in parts(value, known))


def at(config: Any, path: Path) -> Any:
    for key in path:
        config = config[key]
    return config


def variations(config: dict[str, Any], path: Path) -> Iterator[Varied]:
    """Every variation of the object at a path, by name."""

    def changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        other = copy.deepcopy(config)
        change(at(other, path))
        return other

    yield "as it is", config
    own = at(config, path)
    for place in places(own):
        if place[-1] in ("model_type", "architectures"):
            continue
        name = ".".join(place)
        yield f"without {name}", changed(lambda o, place=place: at(o, place[:-1]).pop(place[-1]))  # type: ignore[misc]
        if at(own, place) is not None:
            yield f"{name} null", changed(lambda o, place=place: at(o, place[:-1]).update({place[-1]: None}))  # type: ignore[misc]
    for block in BLOCKS:
        if isinstance(own.get(block), dict):
            for name, change in spellings(own, block):
                yield name, changed(change)
    if own.get("rope_theta") and not isinstance(own.get("rope_scaling"), dict):
        yield from ((name, changed(lambda o, more=more: o.update(more))) for name, more in SCALED.items())  # type: ignore[misc]
    for key, value in {"partial_rotary_factor": 0.5, "rotary_pct": 0.5, "head_dim": 64}.items():
        if key not in own:
            yield f"{key} added", changed(lambda o, more={key: value}: o.update(more))  # type: ignore[misc]
    for key, value in {"num_hidden_layers": 3, "sliding_window": 7, "use_sliding_window": True}.items():
        yield f"{key} {value}", changed(lambda o, more={key: value}: o.update(more))  # type: ignore[misc]


SCALED: Mapping[str, dict[str, Any]] = {
    "linear": {"rope_scaling": {"type": "linear", "factor": 3.0}},
    "yarn": {"rope_scaling": {"type": "yarn", "factor": 3.0, "original_max_position_embeddings": 512}},
    "dynamic": {"rope_scaling": {"type": "dynamic", "factor": 3.0}},
    "yarn, new": {"rope_parameters": {"rope_type": "yarn", "factor": 3.0, "rope_theta": 777.0}},
}


def places(own: Mapping[str, Any]) -> Iterator[Path]:
    """Every key of the object, and those within its RoPE blocks."""
    for key, value in own.items():
        yield (key,)
        for inner in value if key in BLOCKS and isinstance(value, dict) else ():
            yield (key, inner)
            yield from ((key, inner, each) for each in (value[inner] if isinstance(value[inner], dict) else ()))


def spellings(own: Mapping[str, Any], block: str) -> Iterator[tuple[str, Callable[[dict[str, Any]], Any]]]:
    """The same block by its other names, empty, and with its base in another place."""
    other = BLOCKS[1 - BLOCKS.index(block)]
    yield f"{block} empty", lambda o: o.update({block: {}})
    yield f"{block} as {other}", lambda o: o.update({other: o.pop(block)})
    if "type" in own[block]:
        yield f"{block}.type as rope_type", lambda o: o[block].update({"rope_type": o[block].pop("type")})
    if "rope_type" in own[block]:
        yield f"{block}.rope_type as type", lambda o: o[block].update({"type": o[block].pop("rope_type")})
    if "rope_theta" in own[block]:
        yield "theta out", lambda o: o.update({"rope_theta": o[block].pop("rope_theta")})
    elif own.get("rope_theta"):
        yield "theta in", lambda o: o[block].update({"rope_theta": o.pop("rope_theta")})
        yield "theta twice", lambda o: o[block].update({"rope_theta": 2 * o["rope_theta"]})


def built_of(config: dict[str, Any], path: Path, known: Mapping[str, Known]) -> Module:
    part = library("transformers").CONFIG_MAPPING[config["model_type"]](**copy.deepcopy(config))
    for key in path:
        part = getattr(part, key)
    return Module(part, known[at(config, path)["model_type"]].rotary(part))


def frequencies(use: Use, pairs: int) -> Array:
    address = use.addresses["frequencies"]
    address = replace(address, href=re.sub(r"seq_len=\d+", "seq_len=1", address.href))
    found = answers(address)["frequencies"].ravel()
    if use.encoding == "rope":
        return found
    return natural(found) if len(found) == pairs else np.unique(found)[::-1]


def disagreement(plan: Plan, path: Path, built: Module) -> str | None:
    """The first thing that the plan has otherwise than the class."""
    uses = [use for use in plan.uses if use.scope == "".join(f"/{key}" for key in path)]
    if not uses:
        return "no use"
    return of_layers(uses, built.config) or of_numbers(uses, built)


def of_layers(uses: list[Use], config: Any) -> str | None:
    ours = {layer: use.layer_type for use in uses for layer in use.layers or ()}
    count, labels = getattr(config, "num_hidden_layers", None), getattr(config, "layer_types", None)
    if len({use.role for use in uses}) == 1 and ours and count is not None and len(ours) != count:
        return f"{len(ours)} layers, {count} of the class"
    if labels and ours and set(ours.values()) != {None} and [ours.get(n) for n in range(len(labels))] != list(labels):
        return "layer types"
    sizes = {use.window.size for use in uses if use.window is not None and use.window.kind == "sliding"}
    return f"windows {sizes}" if sizes - {getattr(config, "sliding_window", None)} else None


def of_numbers(uses: list[Use], built: Module) -> str | None:
    turning = [use for use in uses if use.encoding in ("rope", "rope-axes")]
    kinds = getattr(built.config, "layer_types", None) or []
    for label, theirs in built.frequencies().items():
        own = LABELS.get(label or "", label)
        found = [use for use in turning if use.layer_type == own]
        found = found or [use for use in turning if own is None or not any(each.layer_type for each in turning)]
        if not found and turning and own in kinds:
            return f"no use of {label}"
        if not found:
            continue  # no layer of that kind turns
        use, wanted = found[0], natural(theirs)
        ours = frequencies(use, len(wanted))
        if ours.shape != wanted.shape or ulps_apart(ours, wanted).max() > 2:
            return f"{label}: {ours.shape} {ours[:3]}, {wanted.shape} {wanted[:3]} of the class"
        factor = built.factor(label)
        # PhiMoE's module keeps a factor that its tables do not have.
        if use.model_type != "phimoe" and not np.isclose(use.facts["attention_factor"], factor, rtol=1e-14):
            return f"{label}: amplitude {use.facts['attention_factor']}, {factor} of the class"
    return None


def says(plan: Plan, words: str) -> bool:
    return any(words in note for note in [*plan.notes, *(note for use in plan.uses for note in use.notes)])


def outcome(config: dict[str, Any], path: Path, known: Mapping[str, Known]) -> tuple[str, str]:
    """What becomes of a file here and there, in a word and with the reason."""
    try:
        plan = resolve(copy.deepcopy(config))
    except Refusal:
        plan = None
    try:
        built = built_of(config, path, known)
    except Exception as error:  # whatever stops the library
        if plan is None:
            return "both refuse", ""
        told = says(plan, "transformers fails")
        return ("the class fails, and the plan says so" if told else "silent"), f"{type(error).__name__}: {error}"[:120]
    if plan is None:
        return "the plan alone is refused", ""
    found = disagreement(plan, path, built)
    if found is None and says(plan, "transformers fails on null") and config.get("sliding_window", 0) is not None:
        found = f"the class does not fail: {plan.notes}"
    return ("alike", "") if found is None else ("otherwise", found)


def silent(name: str, variation: str) -> bool:
    """Whether a plan may say nothing where the class fails."""
    return variation in SILENT or f"{name} {variation}" in SILENT


def test_variations_of_published_configurations(capsys: pytest.CaptureFixture[str]) -> None:
    known, counted, problems = rotary_classes(), Counter[str](), []
    mapping = library("transformers").CONFIG_MAPPING
    seen: set[str] = set()
    library("transformers").logging.set_verbosity_error()
    with warnings.catch_warnings(action="ignore"):
        for name, fixture in fixtures().items():
            config = fixture["config"]
            if config.get("model_type") not in mapping or fixture["status"] == "transformers 5.24 raises":
                continue
            for path in parts(config, known):
                for variation, varied in variations(config, path):
                    key = json.dumps([path, varied], sort_keys=True)
                    if key in seen:
                        continue
                    seen.add(key)
                    word, why = outcome(varied, path, known)
                    counted[word] += 1
                    if word == "otherwise" or (word == "silent" and not silent(name, variation)):
                        problems.append(f"{name} {'/'.join(path)} [{variation}]: {word}: {why}")
    with capsys.disabled():
        print(f"\nvariations of published configurations: {len(seen)}: {dict(counted)}")
        print("\n".join(problems))
    assert not problems
    assert counted["alike"] > 2000
