"""M-RoPE with a scaling against transformers, live: a pasted block of each kind, handed to the library's own module.

The two-stage rule: inverse frequencies within 2 ulp, and from equal ones tables within 1 ulp (2 where an attention
factor multiplies them). And to a hundred digits: the formulas of `oracle_scaling`, an axis for each pair.
"""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_scaling import lists
from tests.oracles import oracle_scaling
from tests.oracles.answers import Array, posted
from tests.oracles.exact import PRECISION_BITS, real, rounded_rows, ulps_apart
from tests.oracles.usages import proves

ROPE_AXES = "/v1/encodings/rope-axes"
LENGTHS = {"original_max_position_embeddings": 4096}
BLOCKS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 8.3},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, **LENGTHS},
    "yarn between pairs": {"rope_type": "yarn", "factor": 4.0, "truncate": False, "mscale": 1.2,
                           "mscale_all_dim": 0.4, **LENGTHS},
    "longrope": {"factor": 8.0, **LENGTHS},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **LENGTHS},
}  # fmt: skip
MODELS = {
    "qwen2-vl": ("qwen2_vl", "Qwen2VLRotaryEmbedding"),
    "qwen3-vl": ("qwen3_vl", "Qwen3VLTextRotaryEmbedding"),
    "qwen3-5": ("qwen3_5", "Qwen3_5TextRotaryEmbedding"),
    "glm-4v": ("glm4v", "Glm4vTextRotaryEmbedding"),
}
LARGEST, LAST = 8192, 9000


def positions(axes: int) -> Array:
    random = np.random.default_rng(axes)
    return np.concatenate([random.integers(0, 60, (20, axes)), np.full((1, axes), 7), [[LAST, 100, 4000, 1][:axes]]])


def block_of(usage: Usage, name: str) -> dict[str, Any]:
    """What a caller pastes: the scaling, and the sections of the model's preset."""
    given = usage.parameters
    dim, rotary = int(given["dim"]), int(given.get("rotary_dim", given["dim"]))
    scaling = lists(rotary) if name == "longrope" else {}
    return {"rope_type": name, **BLOCKS[name], **scaling, "rope_theta": float(given.get("base", "10000")),
            "mrope_section": [int(n) for n in given["sections"].split(",")],
            "partial_rotary_factor": rotary / dim}  # fmt: skip


def theirs(model: str, owner: str, dim: int, block: dict[str, Any], at: Array) -> tuple[Array, Array, Array]:
    """cos, sin and inverse frequencies after a call with these positions."""
    torch = library("torch")
    config = SimpleNamespace(rope_parameters=dict(block), head_dim=dim, hidden_size=dim, num_attention_heads=1,
                             max_position_embeddings=LARGEST, standardize_rope_params=lambda: None)  # fmt: skip
    module = getattr(library(f"transformers.models.{model}.modeling_{model}"), owner)(config)
    cos, sin = module(torch.zeros(1), torch.tensor(at.T[:, None]))
    return cos.reshape(len(at), -1).numpy(), sin.reshape(len(at), -1).numpy(), module.inv_freq.numpy()


def ours(direct: Client, usage: Usage, block: dict[str, Any], at: Array, **more: Any) -> dict[str, Array]:
    """The same block pasted beside the parameters that a configuration does not tell."""
    own = {name: value for name, value in usage.parameters.items()
           if name not in ("base", "sections", "rotary_dim")}  # fmt: skip
    lengths = {"max_position_embeddings": LARGEST, "seq_len": LAST + 1}
    return posted(direct, ROPE_AXES, {"positions": at}, **own, **lengths, rope_parameters=json.dumps(block), **more)


@pytest.mark.oracle
@pytest.mark.parametrize("name", BLOCKS)
@proves("encodings/rope-axes", MODELS)
def test_a_pasted_block_is_the_librarys_module(
    direct: Client, usage: Usage, oracle: tuple[str, str], name: str
) -> None:
    block, at = block_of(usage, name), positions(3)
    cos, sin, inv_freq = theirs(*oracle, int(usage.parameters["dim"]), block, at)
    frequencies = ours(direct, usage, block, at, arithmetic="float32", output="frequencies")["frequencies"]
    assert ulps_apart(frequencies, inv_freq).max() <= 2
    tables = ours(direct, usage, block, at, arithmetic="float32")
    assert tables["cos"].shape == cos.shape
    pairing = usage.parameters.get("pairing", "half")
    pair = np.arange(cos.shape[1]) % len(inv_freq) if pairing == "half" else np.arange(cos.shape[1]) // 2
    same = (frequencies == inv_freq)[pair]
    # A module hands its length on as an array, so that its dynamic base is a float32 power.
    assert same.mean() > (0.4 if name == "dynamic" else 0.6)
    for wave, library_s in (("cos", cos), ("sin", sin)):
        apart = ulps_apart(tables[wave][:, same], library_s[:, same])
        assert apart.max() <= (2 if name.startswith(("yarn", "longrope")) else 1)
        assert (apart > 1).mean() < 0.01
        # 2 ulp of a frequency move its angle by as much, and the largest position is 9000.
        assert np.abs(tables[wave] - library_s).max() <= LAST * 3 * 2.0**-23


@pytest.mark.oracle
@proves("encodings/rope-axes", {"hunyuan-vl": "HunYuanVLRotaryEmbedding"})
def test_hunyuan_vls_own_block(direct: Client, usage: Usage, oracle: str) -> None:
    """`xdrope` with an alpha, and the older name of its sections, which the library's configuration renames."""
    sections = [int(n) for n in usage.parameters["sections"].split(",")]
    scaling = {"type": "xdrope", "alpha": 1000.0, "factor": 1.0, "rope_theta": 10000.0}
    renamed = {"rope_type": "dynamic", "alpha": 1000.0, "rope_theta": 10000.0, "mrope_section": sections}
    at = positions(4)[:-1]
    cos, sin, inv_freq = theirs("hunyuan_vl", oracle, int(usage.parameters["dim"]), renamed, at)
    tables = posted(direct, ROPE_AXES, {"positions": at}, dim=usage.parameters["dim"], arithmetic="float32",
                    rope_scaling=json.dumps({**scaling, "xdrope_section": sections}))  # fmt: skip
    frequencies = posted(direct, "/v1/encodings/rope", {"positions": at}, dim=usage.parameters["dim"],
                         arithmetic="float32", output="frequencies", rope_scaling=json.dumps(scaling))  # fmt: skip
    assert ulps_apart(frequencies["frequencies"], inv_freq).max() <= 2
    for wave, library_s in (("cos", cos), ("sin", sin)):
        assert np.abs(tables[wave] - library_s).max() <= 60 * 3 * 2.0**-23


# To a hundred digits

RULES = {
    "linear": oracle_scaling.linear(8.3),
    "yarn": oracle_scaling.yarn(4.0, 4096),
    "llama3": oracle_scaling.by_turns(8.0, 4096, 1.0, 4.0),
    "dynamic": oracle_scaling.dynamic(2.0, LARGEST, LAST + 1),
}
AXIS: dict[str, tuple[list[int], Callable[[int], int]]] = {
    "chunked": ([2, 3, 5], lambda k: 0 if k < 2 else 1 if k < 5 else 2),
    "interleaved": ([5, 3, 2], lambda k: k % 3 if k < 3 * [10, 3, 2][k % 3] else 0),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("section_rule", AXIS)
@pytest.mark.parametrize("name", RULES)
def test_every_value_is_the_real_number_rounded_once(direct: Client, name: str, section_rule: str, dtype: str) -> None:
    sections, axis = AXIS[section_rule]
    given = {"max_position_embeddings": LARGEST, "seq_len": LAST + 1} if name == "dynamic" else {}
    at = positions(3)
    got = posted(direct, ROPE_AXES, {"positions": at}, dim=20, base=5e5, columns="half", dtype=dtype, **given,
                 rope_parameters=json.dumps({"rope_type": name, **BLOCKS[name], "mrope_section": sections,
                                             "mrope_interleaved": section_rule == "interleaved"}))  # fmt: skip
    factor = oracle_scaling.magnitude(4.0) if name == "yarn" else 1
    with mpmath.workprec(PRECISION_BITS):
        scaled = oracle_scaling.frequencies(RULES[name], 20, 5e5)
        angles = [[real(float(row[axis(k)])) * scaled[k] for k in range(10)] for row in at]
        waves = {"cos": [[factor * mpmath.cos(angle) for angle in row] for row in angles],
                 "sin": [[factor * mpmath.sin(angle) for angle in row] for row in angles]}  # fmt: skip
        for wave, exact in waves.items():
            expected = rounded_rows(exact, dtype)
            apart = ulps_apart(got[wave], expected, "float64") if dtype == "float64" else got[wave] != expected
            assert apart.max() <= (1 if dtype == "float64" else 0)
