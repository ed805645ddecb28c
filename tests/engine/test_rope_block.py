"""Hugging Face's block as our parameters: old and new spelling, renamed types, null."""

from typing import Any

import pytest

from service.engine.errors import Refusal
from service.engine.rotation.rope_block import KEYS, parameters_of_block


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({}, {}),
        ({"type": "linear", "factor": 2}, {"rope_type": "linear", "factor": 2}),
        ({"rope_type": "linear", "type": "linear", "factor": 2}, {"rope_type": "linear", "factor": 2}),
        ({"rope_type": None}, {}),
        (
            {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 1.0},
            {"rope_type": "default", "base": 1e6, "partial_rotary_factor": 1.0},
        ),
        ({"rope_theta": None, "rope_type": "default"}, {"rope_type": "default"}),
        ({"type": "su", "rope_type": "longrope"}, {"rope_type": "longrope"}),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, {"rope_type": "default"}),
        ({"type": "default", "rope_type": "mrope"}, {"rope_type": "default"}),
        ({"type": "deepseek_yarn", "factor": 4}, {"rope_type": "yarn", "mscale_rule": "each", "factor": 4}),
        ({"type": "dynamic", "factor": 1.0, "alpha": 1000}, {"rope_type": "ntk_alpha", "factor": 1.0, "alpha": 1000}),
        ({"type": "dynamic", "factor": 2.0, "alpha": 0}, {"rope_type": "dynamic", "factor": 2.0, "alpha": 0}),
        ({"type": "yarn", "truncate": False}, {"rope_type": "yarn", "truncate": False}),
        ({"type": "yarn", "llama_4_scaling_beta": 0.1}, {"rope_type": "yarn"}),
        ({"rope_type": 5}, {"rope_type": 5}),
        ({"rope_type": ["yarn"]}, {"rope_type": ["yarn"]}),
    ],
)
def test_a_block_in_our_words(block: dict[str, Any], expected: dict[str, Any]) -> None:
    assert parameters_of_block(block) == expected
    assert set(block) <= set(KEYS)


def test_two_types_that_differ_are_refused() -> None:
    with pytest.raises(Refusal, match="rope_type is yarn and type is linear") as caught:
        parameters_of_block({"type": "linear", "rope_type": "yarn", "factor": 2})
    assert caught.value.faults[0].parameter == "type"
