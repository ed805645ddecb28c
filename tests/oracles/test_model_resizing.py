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


def owner_of(folder: str, name: str, **keys: Any) -> tuple[Any, Any]:
    """A module of the class alone, made of a configuration, and that configuration."""
    modeling = library(f"transformers.models.{folder}.modeling_{folder}")
    config = library("transformers").CONFIG_MAPPING[name](**keys)
    return modeling, config


def random(*shape: int) -> Any:
    torch = library("torch")
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def resampled(client: Client, name: str, table: Any, grid: tuple[int, int], **keys: Any) -> Any:
    """What the plan's address makes of a table for another grid."""
    [use] = [use for use in resolved(client, {"model_type": name, **keys})["uses"] if "resample" in use["addresses"]]
    body = {"tensors": {"x": table.reshape(-1, table.shape[-1]).tolist()}}
    rows, columns = grid
    [ours] = fetched(client, {**use["addresses"]["resample"], "body": body}, grid=f"{rows},{columns}").values()
    return ours


GRIDS = [(5, 3), (7, 9), (6, 6)]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("folder", "name", "module"),
    [
        ("hunyuan_vl", "hunyuan_vl_vision", "HunYuanVLVisionPatchEmbed"),
        ("hy_v4_vl", "hy_v4_vl_vision", "HYV4VLVisionPatchEmbed"),
    ],
)
def test_tables_of_tencents(
    direct: Client, folder: str, name: str, module: str, mode: str, grid: tuple[int, int]
) -> None:
    keys = {
        "hidden_size": 24,
        "num_attention_heads": 2,
        "max_image_size": 48,
        "patch_size": 8,
        "interpolate_mode": mode,
    }
    modeling, config = owner_of(folder, name, **keys)
    owner = getattr(modeling, module)(config)
    owner.position_embedding.weight.data = random(37, 24)
    theirs = owner.interpolate_pos_encoding(random(1, 1, 24), *grid)[0].detach().numpy()
    ours = resampled(direct, name, owner.position_embedding.weight.data, grid, **keys)
    if (name, mode, grid) == ("hy_v4_vl_vision", "bicubic", (6, 6)):  # the plan says that the class does not copy it
        theirs = owner.position_embedding.weight.data[1:].numpy()
    assert np.abs(ours[1:] - theirs).max() <= 2e-5


@pytest.mark.parametrize("grid", GRIDS)
def test_the_tiles_of_sam_3(direct: Client, grid: tuple[int, int]) -> None:
    keys = {"hidden_size": 24, "num_attention_heads": 2, "pretrain_image_size": 32, "patch_size": 8, "image_size": 64}
    modeling, config = owner_of("sam3", "sam3_vit_model", **keys)
    table = random(1, 16, 24)
    theirs = modeling.Sam3ViTEmbeddings(config)._tile_position_embeddings(table, *grid)[0].numpy()
    assert np.array_equal(resampled(direct, "sam3_vit_model", table, grid, **keys), theirs)


def test_the_patches_of_vilt(direct: Client) -> None:
    """Its embeddings of a picture of nothing: what is left are the rows, one for each patch."""
    torch = library("torch")
    keys = {"hidden_size": 24, "num_attention_heads": 2, "image_size": 32, "patch_size": 8}
    modeling, config = owner_of("vilt", "vilt", **keys, max_image_length=-1, hidden_dropout_prob=0.0)
    owner = modeling.ViltEmbeddings(config).eval()
    owner.position_embeddings.data = random(1, 17, 24)
    for parameter in (owner.patch_embeddings.projection.weight, owner.patch_embeddings.projection.bias):
        parameter.data.zero_()
    with torch.no_grad():
        pixels, mask = torch.zeros(1, 3, 40, 56), torch.ones(1, 40, 56)
        states, _, (index, _) = owner.visual_embed(pixels, mask, max_image_length=-1)
    ours = resampled(direct, "vilt", owner.position_embeddings.data, (5, 7), **keys)
    patches = states[0, 1:].numpy()
    places = index.reshape(-1, 2)[:, 0] * 7 + index.reshape(-1, 2)[:, 1]
    assert sorted(places.tolist()) == list(range(35))
    assert np.abs(ours[1:][places.numpy()] - patches).max() <= 2e-5
    assert np.abs(ours[0] - states[0, 0].numpy()).max() <= 1e-6


@pytest.mark.parametrize("grid", [(6, 4), (8, 10)])
def test_the_table_of_inkling_2(direct: Client, grid: tuple[int, int]) -> None:
    """Row after row where nothing is merged."""
    torch = library("torch")
    keys = {"hidden_size": 64, "posemb_grid_size": 5, "num_attention_heads": 1}
    _, config = owner_of("inkling2", "inkling2_vision", **keys)
    table = random(25, 64)
    weigh = library("transformers.vision_utils").get_vision_interpolation_indices_and_weights
    indices, weights = weigh(
        torch.tensor([[1, *grid]]), config.posemb_grid_size, mode="bilinear", align_corners=False, spatial_merge_size=1
    )
    theirs = (table[indices] * weights[:, :, None]).sum(1).numpy()
    assert np.abs(resampled(direct, "inkling2_vision", table, grid, **keys) - theirs).max() <= 2e-5


def test_the_sinusoid_of_aimv2_native(direct: Client) -> None:
    torch = library("torch")
    keys = {"hidden_size": 24, "image_size": 56, "patch_size": 14, "is_native": True, "num_attention_heads": 2}
    modeling, config = owner_of("aimv2", "aimv2_vision_model", **keys)
    owner = modeling.Aimv2VisionEmbeddings(config)
    for parameter in owner.parameters():
        parameter.data.zero_()
    with torch.no_grad():
        theirs = owner(torch.zeros(1, 3, 42, 70))[0].numpy()
    [use] = resolved(direct, {"model_type": "aimv2_vision_model", **keys})["uses"]
    ours = fetched(direct, use["addresses"]["tables"], grid="3,5")["encoding"]
    assert np.abs(ours - theirs).max() <= 2e-7
    assert len(fetched(direct, use["addresses"]["tables"])["encoding"]) == 16


# Modules that add a table of one size, and what makes them small.
UNBENDING: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "aimv2_vision_model": ("aimv2", "Aimv2VisionEmbeddings", {"hidden_size": 24}),
    "eomt": ("eomt", "EomtEmbeddings", {"hidden_size": 24, "num_attention_heads": 3}),
    "ovis2_vision": ("ovis2", "Ovis2VisionEmbeddings", {"hidden_size": 24}),
    "pvt": ("pvt", "PvtModel", {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1], "num_attention_heads": [1] * 4,
                                "patch_sizes": [4, 2, 2, 2], "strides": [4, 2, 2, 2]}),
    "videomt": ("videomt", "VideomtEmbeddings", {"hidden_size": 24, "num_attention_heads": 3}),
    "vivit": ("vivit", "VivitEmbeddings", {"hidden_size": 24, "num_frames": 8, "tubelet_size": [2, 8, 8]}),
}  # fmt: skip


@pytest.mark.parametrize("name", UNBENDING)
def test_a_table_that_fits_one_picture(direct: Client, name: str) -> None:
    """The class takes a picture of its own size, and fails of another; the plan says that it does."""
    torch = library("torch")
    folder, module, more = UNBENDING[name]
    keys = {"image_size": 32, **({} if name in ("pvt", "vivit") else {"patch_size": 8}), **more}
    modeling, config = owner_of(folder, name, **json.loads(json.dumps(keys)))
    owner = getattr(modeling, module)(config).eval()
    frames = (8,) if name == "vivit" else ()
    with torch.no_grad():
        owner(torch.zeros(1, *frames, 3, 32, 32))
        for given in ({}, {"interpolate_pos_encoding": True}) if name == "vivit" else ({},):
            with pytest.raises((RuntimeError, ValueError)):
                owner(torch.zeros(1, *frames, 3, 48, 40), **given)
    said = [note for use in resolved(direct, {"model_type": name, **keys})["uses"] for note in use["notes"]]
    assert any("refuses a picture of another size" in note for note in said)
