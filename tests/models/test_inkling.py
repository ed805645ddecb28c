"""Inkling's layers: which see a window, how far their profiles reach, what grows with the position."""

import numpy as np
import pytest

from service.engine.errors import Refusal
from service.models import Use, resolve
from tests.models.plans import answers

BASE = {"model_type": "inkling_text", "num_hidden_layers": 7}


def uses(**keys: object) -> dict[str | None, Use]:
    return {use.layer_type: use for use in resolve({**BASE, **keys}).uses}


def test_a_window_in_most_layers() -> None:
    found = uses(sliding_window_size=4, rel_extent=3)
    near, far = found["hybrid_sliding"], found["hybrid"]
    assert (near.layers, far.layers) == ((0, 1, 2, 3, 4, 6), (5,))
    assert (near.facts["table"], far.facts["table"]) == ([16, 4], [16, 3])
    assert near.window is not None
    assert near.window.size == 4
    [rows] = answers(far.addresses["rows"]).values()
    query, key = np.indices((128, 128))
    assert np.array_equal(rows, np.where((query >= key) & (query - key < 3), query - key, 3))
    [mask] = answers(near.addresses["mask"]).values()
    assert np.array_equal(mask.astype(bool), (query >= key) & (query - key < 4))


def test_layers_that_the_file_names() -> None:
    assert uses(local_layer_ids=[1])["hybrid_sliding"].layers == (1,)
    assert "hybrid_sliding" not in uses(layer_types=["hybrid"] * 7)
    two = resolve({"model_type": "inkling2_text", "num_hidden_layers": 2, "local_layer_ids": []})
    assert [use.layer_type for use in two.uses] == ["hybrid_sliding"]


def test_the_logarithm_of_the_position() -> None:
    assert "temperature" not in uses()["hybrid"].addresses
    found = uses(log_scaling_n_floor=10, log_scaling_alpha=0.5)
    assert "temperature" not in found["hybrid_sliding"].addresses
    [factors] = answers(found["hybrid"].addresses["temperature"]).values()
    wanted = 1 + 0.5 * np.log(np.maximum((np.arange(128) + 1) / 10, 1))
    assert np.abs(factors.ravel() - wanted).max() <= 3e-7


@pytest.mark.parametrize(
    ("keys", "pointer"),
    [
        ({"layer_types": ["hybrid"]}, "/layer_types"),
        ({"layer_types": ["hybrid"] * 6 + ["full_attention"]}, "/layer_types/6"),
        ({"local_layer_ids": [-1]}, "/local_layer_ids/0"),
    ],
)
def test_layers_that_cannot_be(keys: dict[str, object], pointer: str) -> None:
    with pytest.raises(Refusal) as raised:
        uses(**keys)
    assert raised.value.faults[0].parameter == pointer
