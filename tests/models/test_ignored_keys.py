"""Keys that a model's own code does not read, reads another way, or that contradict each other."""

from math import log, sqrt

import pytest

from service.models import Options
from tests.models.plans import refusal, said, use, values

LISTS = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "original_max_position_embeddings": 4096}
AMPLITUDES = {"short_mscale": 1.3, "long_mscale": 1.4}


@pytest.mark.parametrize("name", ["llama", "phi3"])
def test_only_phimoe_reads_amplitudes_of_its_own(name: str) -> None:
    keys = {"rope_scaling": {"type": "longrope", **LISTS, **AMPLITUDES}, "max_position_embeddings": 131072}
    found = use(name, **keys)
    assert found.facts["attention_factor"] == pytest.approx(sqrt(1 + log(32) / log(4096)), rel=1e-7)
    assert said(found, "/rope_scaling/short_mscale and /rope_scaling/long_mscale have no effect: only phimoe")
    assert not {"short_mscale", "long_mscale"} & set(values(found))
    # vLLM hands both on, whatever the type.
    assert use(name, options=Options(preset="vllm"), **keys).facts["attention_factor"] == 1.4
