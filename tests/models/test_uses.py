"""Uses of the parts of models that are easily overlooked, each with numbers that a model gave."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from service.models import Address, Use, resolve
from service.models.families.axial import AXIAL
from tests.engine.answers import Array, only

QUADRUPLE = {"hidden_size": 128, "num_attention_heads": 2, "image_size": 64, "patch_size": 16}


def uses(model_type: str, **keys: Any) -> tuple[Use, ...]:
    return resolve({"model_type": model_type, **keys}).uses


def query(address: Address) -> dict[str, str]:
    """The parameters of an address."""
    found = dict(parse_qsl(urlsplit(address.href).query))
    assert found.pop("revision")
    return found


@pytest.mark.parametrize("name", sorted(AXIAL))
def test_the_rotation_of_a_tower_is_that_of_its_tables(name: str) -> None:
    found = [use for use in uses(name) if use.encoding == "rope-axes"]
    for use in found:
        tables, rotation = (query(use.addresses[each]) for each in ("tables", "rotation"))
        assert {each: value for each, value in tables.items() if each != "dim"} == rotation
    assert found


# The first pairs of transformers' DINOv3ViTRopePositionEmbedding with QUADRUPLE: rows, then columns, at patch (1, 3).
DINOV3 = {0: (-1.570796371, 4.712388992), 1: (-1.177931070, 3.533793211), 15: (-0.020946907, 0.062840723)}


@pytest.mark.parametrize("name", ["dinov3_vit", "eomt_dinov3", "sapiens2"])
def test_queries_turn_by_the_centres_of_patches(name: str) -> None:
    [use] = [use for use in uses(name, **QUADRUPLE) if use.encoding == "rope-axes"]
    q = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    turned = only("apply/rope-axes", {"q": q}, **query(use.addresses["rotation"]))
    first, second = q[7].astype(float).reshape(2, 32)
    for pair, angles in DINOV3.items():
        for place, angle in zip((pair, 16 + pair), angles, strict=True):
            wanted = first[place] * np.cos(angle) - second[place] * np.sin(angle)
            assert turned[7, place] == pytest.approx(wanted, abs=2e-6)
    assert any("do not turn" in note for note in use.notes)
