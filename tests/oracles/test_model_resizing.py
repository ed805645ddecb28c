"""Tables of patches for a picture of another size: each class's own resizing against the address of its plan."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_model_tables import classes
from tests.models.fixtures import fetched, resolved
from tests.oracles.test_model_tables import built

pytestmark = pytest.mark.oracle

SMALL: Mapping[str, Any] = {"image_size": 32, "patch_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
PICTURE = (48, 40)  # pixels, of which the configuration knows nothing
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 12, "depths": [1], "num_heads": [2], "window_size": 4,
        "use_absolute_embeddings": True}  # fmt: skip
# What each needs besides; the table is taken from the embeddings, or from the method's own arguments.
TYPES: Mapping[str, Mapping[str, Any]] = {
    "altclip_vision_model": {"hidden_size": 24},
    "beit": {"hidden_size": 24, "use_absolute_position_embeddings": True},
    "blip_vision_model": {"hidden_size": 24},
    "blip_2_vision_model": {"hidden_size": 24},
    "clip_vision_model": {"hidden_size": 24},
    "deit": {"hidden_size": 24},
    "dinov2": {"hidden_size": 24},
    "dinov2_with_registers": {"hidden_size": 24},
    "flava_image_model": {"hidden_size": 24},
    "ijepa": {"hidden_size": 24},
    "instructblip_vision_model": {"hidden_size": 24},
    "internvl_vision": {"hidden_size": 24, "image_size": [32, 32], "patch_size": [8, 8]},
    "janus_vision_model": {"hidden_size": 24},
    "kosmos_2_vision_model": {"hidden_size": 24},
    "metaclip_2_vision_model": {"hidden_size": 24},
    "owlvit_vision_model": {"hidden_size": 24},
    "siglip_vision_model": {"hidden_size": 24},
    "swin": SWIN,
    "tipsv2_vision_model": {"hidden_size": 24},
    "vit": {"hidden_size": 24},
    "vit_msn": {"hidden_size": 24},
    "xclip_vision_model": {"hidden_size": 24},
}


@pytest.fixture(scope="module")
def by_config() -> dict[str, list[Any]]:
    return classes()


def embeddings(model: Any) -> Any:
    """The part of a model that can resize its table."""
    found = [module for module in model.modules() if hasattr(module, "interpolate_pos_encoding")]
    assert found
    return found[0]


def trained(owner: Any) -> Any:
    """Its table, filled with numbers of a normal distribution."""
    torch = library("torch")
    table: Any = getattr(owner, "position_embeddings", None)
    table = getattr(owner, "position_embedding", None) if table is None else table
    table = getattr(table, "weight", table)
    with torch.no_grad():
        table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(5)))
    return table


@pytest.mark.parametrize("name", TYPES)
def test_a_table_for_another_picture(direct: Client, by_config: dict[str, list[Any]], name: str) -> None:
    fields = library("transformers").CONFIG_MAPPING[name].__dataclass_fields__
    given = {**{key: value for key, value in SMALL.items() if key in fields}, **TYPES[name]}
    torch, model = library("torch"), built(name, given, by_config)
    owner = embeddings(model)
    table = trained(owner)
    patch = given["patch_size"] if isinstance(given["patch_size"], int) else given["patch_size"][0]
    rows, columns = (pixels // patch for pixels in PICTURE)
    plan = resolved(direct, {"model_type": name, **json.loads(json.dumps(given))})
    [use] = [use for use in plan["uses"] if "resample" in use["addresses"]]
    prefix = use["facts"]["table"][-2] - (32 // patch) ** 2
    with torch.no_grad():
        tokens = torch.zeros(1, prefix + rows * columns, table.shape[-1])
        theirs = owner.interpolate_pos_encoding(tokens, *PICTURE).numpy().reshape(-1, table.shape[-1])
    body = {"tensors": {"x": table.detach().numpy().reshape(-1, table.shape[-1]).tolist()}}
    [ours] = fetched(direct, {**use["addresses"]["resample"], "body": body}, grid=f"{rows},{columns}").values()
    assert ours.shape == theirs.shape == (prefix + rows * columns, table.shape[-1])
    assert np.abs(ours - theirs).max() <= 2e-5
    assert np.abs(theirs[prefix:] - theirs[-1]).max() > 0.1
