"""Which layers attend, in models whose attention knows no positions: the list that the class makes against the plan."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import resolve
from tests.golden.frozen import library

pytestmark = pytest.mark.oracle

CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "jamba": {"model_type": "jamba"},
    "jamba of 8": {"model_type": "jamba", "num_hidden_layers": 8, "attn_layer_period": 3, "attn_layer_offset": 1},
    "jamba offset": {"model_type": "jamba", "attn_layer_offset": 8},
    "jamba list": {"model_type": "jamba", "layer_types": ["full_attention"] * 32},
    "zamba": {"model_type": "zamba"},
    "zamba of 14": {"model_type": "zamba", "num_hidden_layers": 14, "attn_layer_period": 4, "attn_layer_offset": 0},
    "zamba of 2": {"model_type": "zamba", "num_hidden_layers": 2},
    "zamba listed": {"model_type": "zamba", "num_hidden_layers": 2, "layers_block_type": ["mamba", "hybrid"]},
    "zamba2": {"model_type": "zamba2", "use_mem_rope": True},
    "zamba2 of 12": {"model_type": "zamba2", "num_hidden_layers": 12, "use_mem_rope": True},
    "nemotron": {"model_type": "nemotron_h"},
    "nemotron letters": {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*-E", "num_hidden_layers": 6},
    "nemotron letter": {"model_type": "nemotron_h", "hybrid_override_pattern": "MX"},
    "kimi": {"model_type": "kimi_linear"},
    "kimi lists": {
        "model_type": "kimi_linear",
        "num_hidden_layers": 4,
        "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3]},
    },
    "olmo of 1": {"model_type": "olmo_hybrid", "num_hidden_layers": 1},
    "olmo of 2": {"model_type": "olmo_hybrid", "num_hidden_layers": 2},
    "olmo of 3": {"model_type": "olmo_hybrid", "num_hidden_layers": 3},
    "muse of 3": {"model_type": "muse_spark_audio", "num_hidden_layers": 3},
    "moonshine of 3": {"model_type": "moonshine_streaming_encoder", "num_hidden_layers": 3},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_layers_that_attend(name: str) -> None:
    given = {key: value for key, value in CONFIGS[name].items() if key != "model_type"}
    model_type = CONFIGS[name]["model_type"]
    owner = library("transformers.models.moonshine_streaming.configuration_moonshine_streaming")
    known = library("transformers").CONFIG_MAPPING
    made = owner.MoonshineStreamingEncoderConfig if "encoder" in model_type else known[model_type]
    try:
        config = made(**given)
    except Exception:  # whatever stops the library must stop the plan
        with pytest.raises(Refusal):
            resolve(CONFIGS[name])
        return
    ours = {layer: use.layer_type for use in resolve(CONFIGS[name]).uses for layer in use.layers or ()}
    theirs = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    assert [ours[layer] for layer in sorted(ours)] == list(theirs)
