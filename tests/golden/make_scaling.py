"""Scaled rotary frequencies of transformers, frozen: `python -m tests.golden.make_scaling`.

Keyed `case.inv_freq` (float32, those of every width and base of `GRID` one after the other) and `case.attention_factor`
(float64, one each) for every case of `CASES`; `table.case` has `.cos`, `.sin` (positions, pairs; float32) and
`.inv_freq` of whole rotary modules, at `positions`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.golden.frozen import Numbers, library, save
from tests.golden.make_rope import POSITIONS, half_width

WIDTHS = (6, 34, 64, 80, 96, 128)
BASES = (100.0, 10_000.0, 500_000.0, 12_000_000.0)
GRID = [(width, base) for width in WIDTHS for base in BASES]

Block = Mapping[str, Any]

YARN: Block = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}
LLAMA3: Block = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LONGROPE: Block = {"rope_type": "longrope", "original_max_position_embeddings": 4096, "lists": True}
DYNAMIC: Block = {"rope_type": "dynamic", "factor": 2.0}
PROPORTIONAL: Block = {"rope_type": "proportional"}

# A block, the model's max_position_embeddings and the length of the call.
CASES: Mapping[str, tuple[Block, int, int | None]] = {
    "linear": ({"rope_type": "linear", "factor": 8.3}, 4096, None),
    "linear_1": ({"rope_type": "linear", "factor": 1.0}, 4096, None),
    "dynamic_before": (DYNAMIC, 2048, 2047),
    "dynamic_at": (DYNAMIC, 2048, 2048),
    "dynamic_after": (DYNAMIC, 2048, 2049),
    "dynamic_far": ({**DYNAMIC, "factor": 4.7}, 2048, 100_000),
    "dynamic_none": (DYNAMIC, 2048, None),
    "yarn": (YARN, 65536, None),
    "yarn_1": ({**YARN, "factor": 1.0}, 65536, None),
    "yarn_real_ends": ({**YARN, "truncate": False}, 65536, None),
    "yarn_short": ({**YARN, "original_max_position_embeddings": 64}, 65536, None),
    "yarn_both": ({**YARN, "mscale": 1.2, "mscale_all_dim": 0.4}, 65536, None),
    "yarn_mscale": ({**YARN, "mscale": 0.707}, 65536, None),
    "yarn_all_dim": ({**YARN, "mscale_all_dim": 0.707}, 65536, None),
    "yarn_zero": ({**YARN, "mscale": 1.0, "mscale_all_dim": 0.0}, 65536, None),
    "yarn_attention_0": ({**YARN, "attention_factor": 0.0}, 65536, None),
    "yarn_attention_1": ({**YARN, "attention_factor": 1.0}, 65536, None),
    "yarn_attention": ({**YARN, "attention_factor": 1.2079441541679836, "beta_fast": 64.0}, 65536, None),
    "yarn_betas_meet": ({**YARN, "beta_fast": 1.0, "beta_slow": 1.0}, 65536, None),
    "yarn_betas_0": ({**YARN, "beta_fast": 0.0, "beta_slow": 0.0}, 65536, None),
    "yarn_betas": ({**YARN, "beta_fast": 64.0, "beta_slow": 2.5, "truncate": False}, 65536, None),
    "longrope_before": (LONGROPE, 131_072, 4095),
    "longrope_at": (LONGROPE, 131_072, 4096),
    "longrope_after": (LONGROPE, 131_072, 4097),
    "longrope_none": (LONGROPE, 131_072, None),
    "longrope_factor": ({**LONGROPE, "factor": 2.0}, 131_072, 4097),
    "longrope_attention": ({**LONGROPE, "factor": 2.0, "attention_factor": 1.3}, 131_072, 4097),
    "llama3": (LLAMA3, 131_072, None),
    "llama3_32": ({**LLAMA3, "factor": 32.0}, 131_072, None),
    "llama3_1": ({**LLAMA3, "factor": 1.0}, 131_072, None),
    "llama3_equal": ({**LLAMA3, "factor": 16.0, "high_freq_factor": 1.0}, 131_072, None),
    "llama3_short": (
        {**LLAMA3, "low_freq_factor": 0.125, "high_freq_factor": 0.5, "original_max_position_embeddings": 1024},
        2048,
        None,
    ),
    "proportional": (PROPORTIONAL, 131_072, None),
    "proportional_share": ({**PROPORTIONAL, "partial_rotary_factor": 0.5, "factor": 8.0}, 131_072, None),
}
TABLES = ("linear", "dynamic_far", "yarn_real_ends", "yarn_both", "longrope_after", "llama3", "proportional_share")
TABLE_WIDTH, TABLE_BASE = 96, 500_000.0


def lists(width: int) -> dict[str, list[float]]:
    """LongRoPE lists for a width: growing, and no binary fractions."""
    steps = [pair / max(1, width // 2 - 1) for pair in range(width // 2)]
    return {"short_factor": [1.05 + step for step in steps], "long_factor": [1.1 + 63 * step**2 for step in steps]}


def block_of(block: Block, width: int, base: float) -> dict[str, Any]:
    """The block as a configuration has it."""
    given = {key: value for key, value in block.items() if key != "lists"}
    return {**given, **(lists(width) if "lists" in block else {}), "rope_theta": base}


def config_of(block: Block, width: int, base: float, largest: int) -> Any:
    """A Llama configuration of one head."""
    return library("transformers").LlamaConfig(
        hidden_size=width,
        num_attention_heads=1,
        head_dim=width,
        max_position_embeddings=largest,
        rope_parameters=block_of(block, width, base),
    )


def frequencies(name: str) -> Numbers:
    """What the library's own function for the type answers, over the grid."""
    block, largest, length = CASES[name]
    rule = library("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS[block["rope_type"]]
    found = [rule(config_of(block, width, base, largest), None, seq_len=length) for width, base in GRID]
    return {
        "inv_freq": np.concatenate([inv_freq.numpy() for inv_freq, _ in found]),
        "attention_factor": np.array([factor for _, factor in found], np.float64),
    }


def of_grid(flat: Numbers, name: str) -> dict[tuple[int, float], Any]:
    """The inverse frequencies of a case by width and base."""
    ends = np.cumsum([width // 2 for width, _ in GRID])[:-1]
    return dict(zip(GRID, np.split(flat[f"{name}.inv_freq"], ends), strict=True))


def table(name: str) -> Numbers:
    """A whole rotary module, called once with all positions: the length of that call is theirs."""
    torch = library("torch")
    block, largest, _ = CASES[name]
    config = config_of(block, TABLE_WIDTH, TABLE_BASE, largest)
    module = library("transformers.models.llama.modeling_llama").LlamaRotaryEmbedding(config)
    cos, sin = module(torch.zeros(1, dtype=torch.float32), torch.from_numpy(POSITIONS)[None, :])
    return {
        "inv_freq": module.inv_freq.numpy(),
        **{wave: half_width(rows[0].numpy()) for wave, rows in (("cos", cos), ("sin", sin))},
    }


def hunyuan(width: int, base: float, alpha: float) -> Numbers:
    """HunYuan's `dynamic` with a fixed alpha."""
    modeling = library("transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense")
    config = library("transformers").HunYuanDenseV1Config(
        hidden_size=width,
        num_attention_heads=1,
        head_dim=width,
        rope_parameters={"rope_type": "dynamic", "alpha": alpha, "factor": 1.0, "rope_theta": base},
    )
    return {"inv_freq": modeling.HunYuanDenseV1RotaryEmbedding(config).inv_freq.numpy()}


def build() -> Numbers:
    """Everything the file holds, by name."""
    arrays: Numbers = {"positions": POSITIONS}
    for name in CASES:
        arrays |= {f"{name}.{key}": value for key, value in frequencies(name).items()}
    for name in TABLES:
        arrays |= {f"table.{name}.{key}": value for key, value in table(name).items()}
    arrays |= {f"hunyuan.{key}": value for key, value in hunyuan(128, 10_000.0, 1000.0).items()}
    return arrays


if __name__ == "__main__":
    save("scaling", build(), "torch", "transformers", "numpy")
