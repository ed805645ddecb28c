"""Files whose sizes are in an object that their type does not read: no defaults of the class pass for them."""

from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import resolve
from tests.models.plans import values

TEXT = {"hidden_size": 2048, "num_attention_heads": 8, "num_hidden_layers": 3, "rope_theta": 500000.0}


@pytest.mark.parametrize("name", ["llama", "bert", "gpt2"])
@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config", "thinker_config"])
def test_sizes_in_an_object_that_is_not_read(name: str, key: str) -> None:
    with pytest.raises(Refusal) as refused:
        resolve({"model_type": name, key: {"model_type": "llama", **TEXT}})
    (fault,) = refused.value.faults
    assert (fault.parameter, fault.code) == (f"/{key}", "conflict")
    assert f"{name} does not read {key}, which has hidden_size, num_attention_heads, num_hidden_layers" in fault.detail
    assert fault.detail.endswith("send that object alone")


def test_within_a_part_and_beside_parts() -> None:
    for config, place in (
        (
            {"model_type": "llava", "text_config": {"model_type": "llama", "text_config": TEXT}},
            "/text_config/text_config",
        ),
        ({"model_type": "llava", "llm_config": {"n_embd": 64}}, "/llm_config"),
    ):
        with pytest.raises(Refusal) as refused:
            resolve(config)
        assert refused.value.faults[0].parameter == place


@pytest.mark.parametrize(
    "keys",
    [
        {"hidden_size": 64, "num_attention_heads": 4, "text_config": TEXT},
        {"rope_theta": 5.0, "text_config": TEXT},
        {"vision_config": TEXT, "quantization_config": TEXT},
        {"text_config": {"rope_theta": 5.0}, "llm_config": "llama"},
        {"rope_parameters": {"rope_theta": 5.0}},
    ],
)
def test_objects_that_hold_no_sizes_of_the_model(keys: dict[str, Any]) -> None:
    assert values(resolve({"model_type": "llama", **keys}).uses[0])["rope_type"] == "default"


def test_a_part_that_is_read() -> None:
    whole = resolve({"model_type": "llava", "text_config": {"model_type": "llama", **TEXT}, "llm_config": TEXT})
    assert values(whole.uses[0])["dim"] == 256
