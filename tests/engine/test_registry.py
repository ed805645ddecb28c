"""The records: the tuple holds every file, and every record is complete and true."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import service.engine
from service.engine import SCHEMES, by_key
from service.engine.attention.clipped import table_rows
from service.engine.attention.relative_scores import ends
from service.engine.scheme import Example, Scheme, Usage, whole
from tests.engine.answers import Array

FOLDERS = {name: name for name in ("analyses", "biases", "encodings", "learned", "masks", "permutations")} | {
    "operations": "apply",
    "position_ids": "positions",
}
Records = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "/".join(scheme.key))
ROUNDING = {
    "permutations": {"integer"},
    "analyses": {"correct", "faithful"},
    "encodings": {"correct"},
    "biases": {"correct", "faithful", "integer"},
    "masks": {"correct"},
    "apply": {"faithful"},
    "learned": {"correct", "faithful"},
    "positions": {"integer"},
}
# Schemes whose promise is not their family's.
OTHERWISE = {
    ("encodings", "temperature"): "faithful",
    ("encodings", "age"): "faithful",
    ("encodings", "lags"): "integer",
    ("apply", "permutation"): "correct",
    ("positions", "multimodal"): "correct",
}
# Schemes outside apply that are about the caller's own arrays.
BODY_ONLY = {
    ("masks", "padding"),
    ("masks", "segments"),
    ("masks", "combined"),
    ("encodings", "detr-boxes"),
    ("encodings", "rope-mixed"),
    ("analyses", "norm"),
    ("analyses", "permutation"),
}
# What a usage needs beside its own parameters, by scheme.
NEEDED: dict[tuple[str, str], dict[str, Any]] = {
    ("masks", "packed"): {"segment_lengths": "3,2"},
    ("biases", "temporal-distance"): {"positions": "0,0.5,7"},
    ("encodings", "sinusoidal-2d"): {"grid": "2,3"},
    ("encodings", "sinusoidal-3d"): {"grid": "2,3,4"},
    ("encodings", "detr"): {"grid": "2,3"},
    ("positions", "multimodal"): {
        "segments": [
            {"type": "video", "grid": [4, 2, 4], "seconds_per_grid": 1.5},
            {"type": "video", "grid": [4, 2, 4], "audio_tokens": 30},
            {"type": "text", "tokens": 2},
        ]
    },
    ("encodings", "temperature"): {"length": "3", "offset": "139262"},
    ("learned", "resample"): {"grid": "5,3", "old_grid": "4,7"},
    # Of so many heads some slopes are no powers of two, and the libraries' arithmetics differ.
    ("biases", "alibi"): {"heads": "71", "length": "300"},
    ("biases", "alibi-slopes"): {"heads": "71"},
    ("biases", "t5"): {"seed": "0", "length": "300"},
    ("biases", "shaw-vectors"): {"seed": "0", "dim": "3"},
    ("apply", "t5"): {"seed": "0"},
    ("analyses", "extrapolation"): {"trained_length": "4"},
    ("apply", "permutation"): {"axis": "last"},
}
# What a request may say and a usage of that scheme does not need.
NOT_NEEDED = {
    (("encodings", "learned"), "length"),
    (("learned", "resample"), "length"),
    (("learned", "resample"), "prefix"),
}
# The one of alternative arrays that a usage is shown with.
MARKED = {("positions", "from-mask"): "attention_mask", ("positions", "packed"): "segment_ids"}
# Instead of 3 heads.
SCORES = {
    ("apply", "alibi"): (71, 2, 128),
    ("apply", "kerple"): (2, 5, 128),
    ("analyses", "norm"): (5, 16),
    ("analyses", "permutation"): (5, 16),
}


def network(heads: int) -> dict[str, Array]:
    """FIRE's, with four hidden numbers."""
    shapes = {"weight_in": (4,), "bias_in": (4,), "weight_out": (heads, 4), "bias_out": (heads,)}
    return {name: np.random.default_rng(2).standard_normal(shape) for name, shape in shapes.items()}


def relative(scheme: Scheme[Any, Any], usage: Usage, x: Array) -> dict[str, Array]:
    """What scores with relative positions need, of the size that the usage's parameters say."""
    params = scheme.params(**usage.parameters)
    if scheme.name == "shaw":
        return {"q": x[..., :8], "table": np.random.default_rng(2).standard_normal((table_rows(params), 8))}
    first, last = ends(params.span, x.shape[-2], x.shape[-1])
    return {"relative": np.random.default_rng(2).standard_normal((*x.shape[:-1], first - last + 1))}


def _stated(scheme: Scheme[Any, Any], example: Example) -> dict[str, Any]:
    """The parameters that an example's body states."""
    return {name: value for name, value in (example.body or {}).items() if name in scheme.in_body}


def sections(scheme: Scheme[Any, Any], usage: Usage) -> str:
    """The pairs of each axis: of the heads here, where a usage is about scaling alone."""
    return usage.parameters.get("sections", "16,24,24" if scheme.needs_body else "2,3,3")


def sample(scheme: Scheme[Any, Any], example: Example | Usage) -> dict[str, Any]:
    """A small request: what is needed beside an example's or a usage's own parameters."""
    if isinstance(example, Example):
        return {**example.query, **_stated(scheme, example)}
    needed = {
        "dim": "16",
        "heads": "6",
        "length": "5",
        "window": "3",
        "chunk_size": "2",
        "block_size": "2",
        "prefix": "2",
    }
    if scheme.key == ("encodings", "rope-axes"):
        # As many axes as the usage has sections; even sides, for blocks of patches.
        needed["grid"] = ",".join(["3", "2", "4", "6"][-len(sections(scheme, example).split(",")) :])
    if scheme.name == "rope-axes":
        needed["sections"] = sections(scheme, example)
    if scheme.key == ("learned", "resample") and example.parameters["method"] == "linear":
        return {"length": "7", **example.parameters}
    names = [name for name in scheme.params.model_fields if (scheme.key, name) not in NOT_NEEDED]
    fitting = {name: text for name, text in needed.items() if name in names}
    return fitting | NEEDED.get(scheme.key, {}) | dict(example.parameters)


def arrays(scheme: Scheme[Any, Any], example: Example | Usage) -> dict[str, Array]:
    if isinstance(example, Usage):
        shape = SCORES.get(scheme.key, (3, 5, 128))
        first: Array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        if scheme.family == "learned":
            rows = 28 + int(example.parameters.get("prefix", 0))
            return {array.name: first.reshape(-1, 8)[:rows] for array in scheme.inputs if array.required}
        if scheme.key == ("apply", "fire"):
            return {"x": first} | network(3)
        if scheme.key in {("apply", "shaw"), ("apply", "transformer-xl")}:
            return {"x": first} | relative(scheme, example, first)
        if scheme.family == "masks":
            required = [array.name for array in scheme.inputs if array.required]
            return {name: np.roll(np.eye(5, dtype=np.int64), shift) for shift, name in enumerate(required)}
        given = {array.name: first for array in scheme.inputs if array.required}
        if scheme.key in MARKED:
            given[MARKED[scheme.key]] = np.array([0, 1, 1, 0, 1])
        if scheme.name == "rope-mixed":
            random = np.random.default_rng(4)
            given |= {"frequencies": random.standard_normal((2, 3, 8)), "positions": np.arange(10).reshape(5, 2)}
        if scheme.key == ("apply", "rope-axes"):
            axes = len(sections(scheme, example).split(","))
            given["positions"] = np.arange(5 * axes).reshape(5, axes)
        return given | ({"mask": first > 0} if "mask" in given else {})
    body = example.body or {}
    given = {name: np.asarray(value) for name, value in body.get("tensors", {}).items()}
    return given | ({"positions": np.asarray(body["positions"])} if "positions" in body else {})


def result(scheme: Scheme[Any, Any], example: Example | Usage) -> dict[str, Array]:
    return whole(scheme, scheme.params(**sample(scheme, example)), arrays(scheme, example))


def test_the_tuple_holds_every_file() -> None:
    root = Path(service.engine.__path__[0])
    files = {(family, path.stem) for folder, family in FOLDERS.items() for path in (root / folder).glob("[!_]*.py")}
    assert {(scheme.family, scheme.name.replace("-", "_")) for scheme in SCHEMES} == files
    assert len(SCHEMES) == len(files)


def test_by_key_finds_each_and_nothing_else() -> None:
    assert [by_key(*scheme.key) for scheme in SCHEMES] == list(SCHEMES)
    with pytest.raises(KeyError):
        by_key("biases", "sinusoidal")


@Records
def test_it_says_what_it_is(scheme: Scheme[Any, Any]) -> None:
    assert scheme.title
    assert scheme.title[0].isupper()
    assert "**Axes**" in scheme.description or "Axes: (" in scheme.description or "(…" in scheme.description
    assert "`" in scheme.description
    assert re.search(r"\b(19|20)\d\d\b", scheme.reference)
    promised = {OTHERWISE[scheme.key]} if scheme.key in OTHERWISE else ROUNDING[scheme.family]
    assert scheme.rounding in promised
    assert scheme.revision >= 1
    assert scheme.properties["learned parameters"]
    assert scheme.needs_body == (scheme.family in ("apply", "learned", "positions") or scheme.key in BODY_ONLY)


@Records
def test_integers_are_promised_where_every_usage_has_them(scheme: Scheme[Any, Any]) -> None:
    if scheme.rounding != "integer":
        return
    requests: list[Example | Usage] = [*scheme.examples, *scheme.used_by]
    for each in requests:
        found = scheme.tensors(scheme.params(**sample(scheme, each)), arrays(scheme, each)).values()
        assert all(tensor.dtype.startswith("int") for tensor in found), each


@Records
def test_parameters_explain_themselves(scheme: Scheme[Any, Any]) -> None:
    for name, field in scheme.params.model_json_schema()["properties"].items():
        kinds = [field, *field.get("anyOf", [])]
        assert any(kind.get("description") for kind in kinds), f"{name} has no description"


@Records
def test_examples_work_and_tensors_are_as_announced(scheme: Scheme[Any, Any]) -> None:
    assert scheme.examples
    for example in scheme.examples:
        params, inputs = scheme.params(**sample(scheme, example)), arrays(scheme, example)
        announced = scheme.tensors(params, inputs)
        got = whole(scheme, params, inputs)
        assert list(got) == list(announced)
        for name, tensor in announced.items():
            assert len(tensor.axes) == len(tensor.shape)
            assert (got[name].shape, got[name].dtype.name, got[name].nbytes) == (
                tensor.shape,
                tensor.dtype,
                tensor.nbytes,
            )


@Records
def test_facts_and_notes_are_plain_values(scheme: Scheme[Any, Any]) -> None:
    params, inputs = scheme.params(**sample(scheme, scheme.examples[0])), arrays(scheme, scheme.examples[0])
    assert all(isinstance(value, int | float | str | list) for value in scheme.facts(params, inputs).values())
    assert all(isinstance(note, str) for note in scheme.notes(params, inputs))
    assert scheme.state_bytes(params, inputs) >= 0


@Records
def test_a_bias_states_what_memory_it_takes(scheme: Scheme[Any, Any]) -> None:
    if scheme.family != "biases":
        return
    for example in scheme.examples:
        facts = scheme.facts(scheme.params(**sample(scheme, example)), arrays(scheme, example))
        stated = [value for name, value in facts.items() if "bytes" in name]
        assert stated
        assert all(isinstance(value, int) and value > 0 for value in stated)


@Records
def test_every_usage_is_a_convention_of_its_own(scheme: Scheme[Any, Any]) -> None:
    assert scheme.used_by
    # Two libraries with one convention are one usage, unless each is to be asked for by name.
    results = [
        (b"".join(array.tobytes() for array in result(scheme, usage).values()), usage.preset)
        for usage in scheme.used_by
    ]
    assert len(set(results)) == len(results)
    assert len({usage.who for usage in scheme.used_by}) == len(results)


@Records
def test_a_preset_has_a_plain_name_of_its_own(scheme: Scheme[Any, Any]) -> None:
    named = [usage.preset for usage in scheme.used_by if usage.preset]
    assert len(set(named)) == len(named)
    assert all(re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", name) for name in named)
    assert "preset" not in scheme.params.model_fields
    assert list(scheme.presets) == named
