"""What plans say of parts that are easily overlooked, against those parts of transformers, live."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.models.fixtures import resolved
from tests.oracles.answers import Array, posted

pytestmark = pytest.mark.oracle


def uses(client: Client, model_type: str, **keys: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = resolved(client, {"model_type": model_type, **keys})["uses"]
    return found


def sent(client: Client, address: dict[str, Any], **tensors: Array) -> dict[str, Array]:
    """What an address that takes arrays answers."""
    parts = urlsplit(address["href"])
    query: dict[str, Any] = dict(parse_qsl(parts.query))
    return posted(client, parts.path, tensors, **query)


def configured(model_type: str, **keys: Any) -> Any:
    return library("transformers").CONFIG_MAPPING[model_type](**json.loads(json.dumps(keys)))


def modeling(folder: str) -> Any:
    return library(f"transformers.models.{folder}.modeling_{folder}")


TURNING = {
    "dinov3_vit": ("dinov3_vit", "DINOv3ViTRopePositionEmbedding"),
    "eomt_dinov3": ("eomt_dinov3", "EomtDinov3RotaryEmbedding"),
    "sapiens2": ("sapiens2", "Sapiens2RopePositionEmbedding"),
}


@pytest.mark.parametrize("name", TURNING)
def test_patches_turn_by_their_centres(direct: Client, name: str) -> None:
    """The rotation's address against the class's own function; class and register tokens stand before the patches."""
    torch, (folder, module) = library("torch"), TURNING[name]
    keys = {"hidden_size": 128, "num_attention_heads": 2, "image_size": 64, "patch_size": 16}
    owner = modeling(folder)
    cos, sin = getattr(owner, module)(configured(name, **keys)).eval()(torch.zeros(1, 3, 64, 64))
    q = np.random.default_rng(1).uniform(-4, 4, (1, 2, 5 + 16, 64)).astype(np.float32)
    theirs = owner.apply_rotary_pos_emb(torch.tensor(q), torch.tensor(q), cos, sin)[0].numpy()
    [use] = [use for use in uses(direct, name, **keys) if use["encoding"] == "rope-axes"]
    ours = sent(direct, use["addresses"]["rotation"], q=np.ascontiguousarray(q[:, :, 5:]))["q"]
    assert np.array_equal(theirs[:, :, :5], q[:, :, :5])
    assert np.abs(ours - theirs[:, :, 5:]).max() <= 1e-4 < np.abs(q[:, :, 5:] - theirs[:, :, 5:]).max()
