"""Rotary tables on several axes against the libraries, live: transformers, timm and diffusers, preset by preset.

The libraries that work in float32 are compared by the two-stage rule: inverse frequencies within 2 ulp, and from equal
ones tables within 1 ulp. Those that work in float64, and those that scale their coordinates, are compared with
`arithmetic=exact`: there the bound is what their float32 angles may be wrong by.
"""

from collections.abc import Callable
from inspect import signature
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_grids import timm
from tests.oracles.answers import Array, asked, posted
from tests.oracles.exact import ulps_apart
from tests.oracles.usages import proves, usage_of

pytestmark = pytest.mark.oracle

ROPE_AXES = "/v1/encodings/rope-axes"
GRID = (3, 4, 6)
EPS = 2.0**-23


def torch() -> Any:
    return library("torch")


def models(name: str) -> Any:
    return library(f"transformers.models.{name}.modeling_{name}")


def diffusion(name: str) -> Any:
    return library(f"diffusers.models.transformers.transformer_{name}")


def cells(*grid: int) -> Array:
    """Every cell of a grid in C order, (cells, axes)."""
    return np.stack([axis.reshape(-1) for axis in np.indices(grid)], axis=-1)


def positions(axes: int) -> Array:
    """Positions that differ on every axis, text and far ones among them."""
    random = np.random.default_rng(axes)
    return np.concatenate([random.integers(0, 40, (20, axes)), np.full((1, axes), 7), np.full((1, axes), 1000)])


def pairs_of(usage: Usage, width: int) -> Array:
    """The pair that each channel of a table belongs to, by the layouts' definitions."""
    pairing, half = usage.parameters.get("pairing", "half"), width // 2
    if pairing == "half":
        return np.arange(width) % half
    if pairing == "interleaved":
        return np.arange(width) // 2
    found: list[int] = []
    for section in map(int, usage.parameters["sections"].split(",")):
        found += list(range(len(found) // 2, len(found) // 2 + section)) * 2
    return np.array(found)


# transformers


def numbers(usage: Usage) -> tuple[int, float, list[int]]:
    given = usage.parameters
    return int(given["dim"]), float(given.get("base", "10000")), [int(n) for n in given["sections"].split(",")]


def text_tables(usage: Usage, model: str, owner: str, at: Array) -> tuple[Any, Any, Array]:
    """cos, sin and inverse frequencies of a language model's module."""
    dim, base, sections = numbers(usage)
    partial = int(usage.parameters.get("rotary_dim", dim)) / dim
    rope = {"rope_type": "default", "rope_theta": base, "mrope_section": sections, "partial_rotary_factor": partial}
    config = SimpleNamespace(rope_parameters=rope, head_dim=dim, hidden_size=dim, num_attention_heads=1,
                             max_position_embeddings=4096)  # fmt: skip
    module = getattr(models(model), owner)(config)
    given = torch().tensor(at.T[:, None])
    cos, sin = module(torch().zeros(1), given)
    return cos.reshape(len(at), -1), sin.reshape(len(at), -1), module.inv_freq.numpy()


def vision_tables(usage: Usage, model: str, owner: str, at: Array) -> tuple[Any, Any, Array]:
    """The same of a vision tower's module."""
    dim, base, _ = numbers(usage)
    rope = {"rope_type": "axial", "rope_theta": base}
    config = SimpleNamespace(rope_parameters=rope, head_dim=dim, hidden_size=dim, embed_dim=dim,
                             num_attention_heads=1, memory_attention_hidden_size=dim,
                             memory_attention_downsample_rate=1, memory_attention_num_attention_heads=1)  # fmt: skip
    module = getattr(models(model), owner)(config)
    given = torch().tensor(at)
    cos, sin = module(torch().zeros(1), given[None] if model == "gemma4" else given)
    return cos.reshape(len(at), -1), sin.reshape(len(at), -1), module.inv_freq.numpy()


def whole(inv_freq: Array, _usage: Usage) -> Array:
    return inv_freq


def on_each_axis(inv_freq: Array, usage: Usage) -> Array:
    return np.tile(inv_freq, len(usage.parameters["sections"].split(",")))


def on_alternating_axes(inv_freq: Array, usage: Usage) -> Array:
    return np.repeat(inv_freq, len(usage.parameters["sections"].split(",")))


def ernie(inv_freq: Array, _usage: Usage) -> Array:
    """ERNIE keeps the frequencies of its two spatial sections apart and weaves them later."""
    return np.concatenate([np.stack([inv_freq[:22], inv_freq[22:44]], axis=-1).reshape(-1), inv_freq[44:]])


def swapped(at: Array) -> Array:
    return at[:, ::-1].copy()


def as_they_are(at: Array) -> Array:
    return at


Build = Callable[[Usage, str, str, Array], tuple[Any, Any, Array]]
Told = tuple[Build, str, str, Callable[[Array, Usage], Array], Callable[[Array], Array]]

TRANSFORMERS: dict[str, Told] = {
    "qwen2-vl": (text_tables, "qwen2_vl", "Qwen2VLRotaryEmbedding", whole, as_they_are),
    "qwen3-vl": (text_tables, "qwen3_vl", "Qwen3VLTextRotaryEmbedding", whole, as_they_are),
    "qwen3-5": (text_tables, "qwen3_5", "Qwen3_5TextRotaryEmbedding", whole, as_they_are),
    "glm-4v": (text_tables, "glm4v", "Glm4vTextRotaryEmbedding", whole, as_they_are),
    "ernie-4-5-vl": (text_tables, "ernie4_5_vl_moe", "Ernie4_5_VLMoeTextRotaryEmbedding", ernie, as_they_are),
    "qwen2-vl-vision": (vision_tables, "qwen2_vl", "Qwen2VLVisionRotaryEmbedding", on_each_axis, as_they_are),
    "pixtral": (vision_tables, "pixtral", "PixtralVisionRotaryEmbedding", whole, as_they_are),
    "kimi-k2-5": (vision_tables, "kimi_k25", "Kimi_K25VisionRotaryEmbedding", on_alternating_axes, as_they_are),
    "minimax-m3-vl": (vision_tables, "minimax_m3_vl", "MiniMaxM3VLVisionRotaryEmbedding", on_each_axis, as_they_are),
    # These two are given columns and rows, in this order.
    "gemma-4-vision": (vision_tables, "gemma4", "Gemma4VisionRotaryEmbedding", on_each_axis, swapped),
    "sam-2": (vision_tables, "sam2_video", "Sam2VideoVisionRotaryEmbedding", on_each_axis, swapped),
    "step-3-7-vision": (vision_tables, "step3p7", "Step3p7VisionRotaryEmbedding", on_each_axis, as_they_are),
}


@proves("encodings/rope-axes", TRANSFORMERS)
def test_transformers_by_the_two_stages(direct: Client, usage: Usage, oracle: Told) -> None:
    build, model, owner, by_pair, given = oracle
    at = positions(len(usage.parameters["sections"].split(",")))
    cos, sin, inv_freq = build(usage, model, owner, given(at))
    preset = {"preset": usage.preset, "arithmetic": "float32"}
    ours_inv = asked(direct, ROPE_AXES, **preset, output="frequencies")["frequencies"]
    theirs_inv = by_pair(inv_freq, usage)
    assert ulps_apart(ours_inv, theirs_inv).max() <= 2
    tables = posted(direct, ROPE_AXES, {"positions": at}, **preset)
    assert tables["cos"].shape == tuple(cos.shape)
    same = (ours_inv == theirs_inv)[pairs_of(usage, cos.shape[1])]
    assert same.mean() > 0.5
    for ours, theirs in ((tables["cos"], cos.numpy()), (tables["sin"], sin.numpy())):
        assert np.abs(ours - theirs)[:, same].max() <= 1.2e-7
        # A frequency that is 2 ulp off moves its angle by as much, at positions up to 1000.
        assert np.abs(ours - theirs).max() <= 1000 * 3 * EPS


def test_qwen_vision_patches_come_in_the_order_of_their_blocks(direct: Client) -> None:
    """A whole tower: the library's own position ids of two frames, for the grid that is asked for."""
    at = library("transformers.vision_utils").get_vision_position_ids(torch().tensor([[1, 4, 6]]), 2).numpy()
    by_hand = posted(direct, ROPE_AXES, {"positions": at}, preset="qwen2-vl-vision", spatial_merge_size=1)
    on_grid = asked(direct, ROPE_AXES, preset="qwen2-vl-vision", grid=[4, 6])
    assert np.array_equal(by_hand["cos"], on_grid["cos"])
    assert np.array_equal(by_hand["sin"], on_grid["sin"])


# Channels, not pairs: HunYuan-VL


@proves("encodings/rope-axes", {"hunyuan-vl": "HunYuanVLRotaryEmbedding"})
def test_hunyuan(direct: Client, usage: Usage, oracle: str) -> None:
    at = positions(4)
    cos, sin, _ = text_tables(usage, "hunyuan_vl", oracle, at)
    tables = posted(direct, ROPE_AXES, {"positions": at}, preset=usage.preset, arithmetic="float32")
    assert np.abs(tables["cos"] - cos.numpy()).max() <= 1000 * 3 * EPS
    near = at.max(axis=1) <= 40
    for ours, theirs in ((tables["cos"], cos.numpy()), (tables["sin"], sin.numpy())):
        assert np.abs(ours - theirs)[near].max() <= 40 * 3 * EPS


@proves("encodings/rope-axes", {"neomme": "NeoMMERotaryEmbedding"})
def test_neomme(direct: Client, usage: Usage, oracle: str) -> None:
    dim, base, _ = numbers(usage)
    rope = {"full_attention": {"rope_type": "default", "rope_theta": base}}
    config = SimpleNamespace(rope_parameters=rope, head_dim=dim, layer_types=["full_attention"],
                             max_position_embeddings=4096)  # fmt: skip
    at = positions(2)
    module = getattr(models("neomme"), oracle)(config)
    cos, sin = module(torch().zeros(1), torch().tensor(at.T[:, None]), layer_type="full_attention")
    tables = posted(direct, ROPE_AXES, {"positions": at}, preset=usage.preset, arithmetic="float32")
    near = at.max(axis=1) <= 40
    for ours, theirs in ((tables["cos"], cos[0].numpy()), (tables["sin"], sin[0].numpy())):
        assert np.abs(ours - theirs)[near].max() <= 40 * 3 * EPS


# Grids of their own


def close_to_their_angles(direct: Client, usage: Usage, grid: tuple[int, ...], cos: Any, sin: Any, **more: Any) -> None:
    """Exact tables, within what float32 angles may be wrong by: 4 roundings of each."""
    tables = asked(direct, ROPE_AXES, preset=usage.preset, grid=list(grid), **more)
    angles = asked(direct, ROPE_AXES, preset=usage.preset, grid=list(grid), output="angles", dtype="float64",
                   rest="left-out", **more)["angles"]  # fmt: skip
    width = 2 * angles.shape[1]
    columns = pairs_of(usage, width) if tables["cos"].shape[1] >= width else np.arange(width // 2)
    # By column: a coordinate near 0 may be wrong by as much as one near 1.
    bound = np.broadcast_to(np.abs(angles).max(axis=0) * 4 * EPS + EPS, angles.shape)[:, columns]
    beside = tables["cos"].shape[1] - bound.shape[1]
    bound = np.concatenate([np.zeros((len(bound), beside)), bound], axis=1)
    for ours, theirs in ((tables["cos"], cos), (tables["sin"], sin)):
        assert ours.shape == theirs.shape
        assert (np.abs(ours.astype(np.float64) - np.asarray(theirs)) <= bound).all()


@proves("encodings/rope-axes", {"llama-4-vision": "Llama4VisionRotaryEmbedding"})
def test_llama_4_vision(direct: Client, usage: Usage, oracle: str) -> None:
    dim, base, _ = numbers(usage)
    config = SimpleNamespace(image_size=6 * 14, patch_size=14, hidden_size=dim, num_attention_heads=1,
                             rope_parameters={"rope_theta": base})  # fmt: skip
    table = getattr(models("llama4"), oracle)._compute_freqs_ci(config)[:, 0]
    close_to_their_angles(direct, usage, (6, 6), table.real.numpy(), table.imag.numpy(), columns="half")


@proves("encodings/rope-axes", {"dinov3": "DINOv3ViTRopePositionEmbedding"})
@pytest.mark.parametrize("grid", [(3, 5), (4, 4), (1, 7)])
def test_dinov3(direct: Client, usage: Usage, oracle: str, grid: tuple[int, int]) -> None:
    dim, base, _ = numbers(usage)
    config = SimpleNamespace(rope_theta=base, hidden_size=dim, num_attention_heads=1, image_size=224, patch_size=16)
    module = getattr(models("dinov3_vit"), oracle)(config).eval()
    cos, sin = module(torch().zeros(1, 3, 16 * grid[0], 16 * grid[1]))
    close_to_their_angles(direct, usage, grid, cos.numpy(), sin.numpy())


@proves("encodings/rope-axes", {"sam-3-vision": "Sam3ViTLayer"})
@pytest.mark.parametrize("side", [24, 72])
def test_sam_3(direct: Client, usage: Usage, oracle: str, side: int) -> None:
    """Its own positions, of a window or of the whole image: columns first, and scaled to those of a window."""
    config = SimpleNamespace(rope_parameters={"rope_type": "axial", "rope_theta": 10000.0}, head_dim=64,
                             image_size=72 * 14, patch_size=14, window_size=24)  # fmt: skip
    at = getattr(models("sam3"), oracle).precompute_positions(config, 24 if side == 24 else 0)
    cos, sin = models("sam3").Sam3ViTRotaryEmbedding(config)(torch().zeros(1), at)
    close_to_their_angles(direct, usage, (side, side), cos[0].numpy(), sin[0].numpy())


@proves("encodings/rope-axes", {"efficientloftr": "EfficientLoFTRRotaryEmbedding"})
def test_efficientloftr(direct: Client, usage: Usage, oracle: str) -> None:
    configuration = library("transformers").EfficientLoFTRConfig()
    module = getattr(models("efficientloftr"), oracle)(configuration)
    step, size = configuration.q_aggregation_stride, configuration.q_aggregation_kernel_size
    cos, sin = module(torch().zeros(1, 1, 3 * step + size, 5 * step + size))
    assert cos.shape == (1, 4, 6, configuration.hidden_size)
    tables = [table.reshape(24, -1).numpy() for table in (cos, sin)]
    close_to_their_angles(direct, usage, (4, 6), *tables)


TIMM: dict[str, dict[str, Any]] = {
    "eva-02": {"in_pixels": False, "ref_feat_shape": [16, 16]},
    "timm-pixels": {"in_pixels": True, "max_res": 224},
    "timm-pixels-linear": {"in_pixels": True, "max_res": 224, "linear_bands": True},
}


@proves("encodings/rope-axes", TIMM)
@pytest.mark.parametrize("grid", [(3, 5), (16, 16)])
def test_timm(direct: Client, usage: Usage, oracle: dict[str, Any], grid: tuple[int, int]) -> None:
    dim, _, _ = numbers(usage)
    sin, cos = timm().RotaryEmbeddingCat(dim, feat_shape=list(grid), **oracle).get_embed(list(grid)).chunk(2, dim=-1)
    close_to_their_angles(direct, usage, grid, cos.numpy(), sin.numpy())


@proves("encodings/rope-axes", {"genlip": "RotaryEmbeddingMRope"})
@pytest.mark.parametrize("grid", [(3, 5), (16, 16)])
def test_genlip(direct: Client, usage: Usage, oracle: str, grid: tuple[int, int]) -> None:
    sin, cos = getattr(timm(), oracle)(64, mrope_section=(8, 12, 12)).get_embed(list(grid)).chunk(2, dim=-1)
    close_to_their_angles(direct, usage, (1, *grid), cos.numpy(), sin.numpy())
    wide = getattr(timm(), oracle)(72, mrope_section=(8, 12, 12)).get_embed(list(grid)).chunk(2, dim=-1)
    more = {"dim": 72, "sections": "12,12,12"}
    close_to_their_angles(direct, usage, (1, *grid), wide[1].numpy(), wide[0].numpy(), **more)


# diffusers


def of_video(grid: tuple[int, ...]) -> Any:
    """A latent video of one patch a cell."""
    return torch().zeros(1, 1, *grid)


def wan(_usage: Usage) -> Any:
    cos, sin = diffusion("wan").WanRotaryPosEmbed(128, (1, 1, 1), 64)(of_video(GRID))
    return cos[0, :, 0], sin[0, :, 0]


def flux(usage: Usage) -> Any:
    _, base, sections = numbers(usage)
    return diffusion("flux").FluxPosEmbed(int(base), [2 * n for n in sections])(torch().tensor(cells(*GRID)))


def hunyuan_video(usage: Usage) -> Any:
    _, base, sections = numbers(usage)
    module = diffusion("hunyuan_video").HunyuanVideoRotaryPosEmbed(1, 1, [2 * n for n in sections], base)
    return module(of_video(GRID))


def cogvideox(usage: Usage) -> Any:
    embeddings = library("diffusers.models.embeddings")
    frames, height, width = GRID
    return embeddings.get_3d_rotary_pos_embed(
        int(usage.parameters["dim"]), None, (height, width), frames, grid_type="slice", max_size=(9, 9)
    )


def cosmos(_usage: Usage) -> Any:
    return diffusion("cosmos").CosmosRotaryPosEmbed(128, patch_size=(1, 1, 1))(of_video(GRID))


def qwen_image(usage: Usage) -> Any:
    _, base, sections = numbers(usage)
    module = diffusion("qwenimage").QwenEmbedRope(int(base), [2 * n for n in sections], scale_rope=True)
    table, _ = module(GRID, torch().device("cpu"), max_txt_seq_len=1)
    return table.real, table.imag


def allegro(usage: Usage) -> Any:
    """Three tables, one an axis: the rotation takes each for a third of the channels."""
    frames, height, width = GRID
    *tables, _, _, _ = library("diffusers.models.embeddings").get_3d_rotary_pos_embed_allegro(
        int(usage.parameters["dim"]), ((0, 0), (height, width)), (height, width), frames
    )
    at = cells(*GRID)
    cos, sin = (torch().cat([table[form][at[:, axis]] for axis, table in enumerate(tables)], dim=-1) for form in (0, 1))
    return cos, sin


@proves(
    "encodings/rope-axes",
    {
        "wan": wan,
        "flux": flux,
        "hunyuan-video": hunyuan_video,
        "cogvideox": cogvideox,
        "cosmos": cosmos,
        "qwen-image": qwen_image,
        "allegro": allegro,
    },
)
def test_diffusers_on_a_grid(direct: Client, usage: Usage, oracle: Callable[[Usage], Any]) -> None:
    cos, sin = oracle(usage)
    close_to_their_angles(direct, usage, GRID, cos.numpy(), sin.numpy())


@pytest.mark.parametrize(("preset", "build"), [("wan", wan), ("flux", flux)])
def test_what_works_in_float64_is_the_exact_table(direct: Client, preset: str, build: Callable[[Usage], Any]) -> None:
    tables = asked(direct, ROPE_AXES, preset=preset, grid=list(GRID))
    cos, sin = build(usage_of(by_key("encodings", "rope-axes"), preset))
    assert ulps_apart(tables["cos"], cos.numpy()).max() <= 1
    assert ulps_apart(tables["sin"], sin.numpy()).max() <= 1
    assert (tables["cos"] == cos.numpy()).mean() > 0.99


# What the classes of the models take for bases and channels of axes, where nobody says otherwise.
CLASSES = {
    "hunyuan-video": ("hunyuan_video", "HunyuanVideoTransformer3DModel", "rope_theta", "rope_axes_dim"),
    "flux": ("flux", "FluxTransformer2DModel", None, "axes_dims_rope"),
    "flux-2": ("flux2", "Flux2Transformer2DModel", "rope_theta", "axes_dims_rope"),
    "qwen-image": ("qwenimage", "QwenImageTransformer2DModel", None, "axes_dims_rope"),
    "z-image": ("z_image", "ZImageTransformer2DModel", "rope_theta", "axes_dims"),
    "lumina-2": ("lumina2", "Lumina2Transformer2DModel", None, "axes_dim_rope"),
}
CONFIGS = {
    "pixtral": "PixtralVisionConfig",
    "gemma-4-vision": "Gemma4VisionConfig",
    "llama-4-vision": "Llama4VisionConfig",
    "sam-2": "Sam2VideoConfig",
    "sam-3-vision": "Sam3ViTConfig",
    "dinov3": "DINOv3ViTConfig",
    "efficientloftr": "EfficientLoFTRConfig",
    "minimax-m3-vl": "MiniMaxM3VLVisionConfig",
    "qwen2-vl": "Qwen2VLTextConfig",
    "ernie-4-5-vl": "Ernie4_5_VLMoeTextConfig",
}


@proves("encodings/rope-axes", CLASSES)
def test_bases_and_axes_are_those_of_the_models(usage: Usage, oracle: tuple[str, str, str | None, str]) -> None:
    """The tables above are made with the numbers of the presets: those must be the models' own."""
    module, owner, theta, widths = oracle
    given = signature(getattr(diffusion(module), owner).__init__).parameters
    _, base, sections = numbers(usage)
    assert base == (10_000 if theta is None else given[theta].default)
    assert [2 * pairs for pairs in sections] == list(given[widths].default)


@proves("encodings/rope-axes", CONFIGS)
def test_bases_are_those_of_the_configurations(usage: Usage, oracle: str) -> None:
    config = getattr(library("transformers"), oracle)()
    stated = getattr(config, "rope_parameters", None)
    assert numbers(usage)[1] == (config.rope_theta if stated is None else stated["rope_theta"])


def test_interpolated_grids(direct: Client) -> None:
    """CogVideoX's other grid, and Cosmos' frame rate, scale the coordinates."""
    scheme = by_key("encodings", "rope-axes")
    embeddings = library("diffusers.models.embeddings")
    cos, sin = embeddings.get_3d_rotary_pos_embed(64, ((0, 0), (12, 9)), (4, 6), 3)
    usage = usage_of(scheme, "cogvideox")
    close_to_their_angles(direct, usage, GRID, cos.numpy(), sin.numpy(), base_size=[3, 12, 9])
    cos, sin = diffusion("cosmos").CosmosRotaryPosEmbed(128, patch_size=(1, 1, 1))(of_video(GRID), fps=30)
    usage = usage_of(scheme, "cosmos")
    close_to_their_angles(direct, usage, GRID, cos.numpy(), sin.numpy(), interpolation_scale=[1.25, 1, 1])


@proves("encodings/rope-axes", {"flux-2": "Flux2PosEmbed"})
def test_flux_2(direct: Client, usage: Usage, oracle: str) -> None:
    at = positions(4)
    cos, sin = getattr(diffusion("flux2"), oracle)(2000, [32, 32, 32, 32])(torch().tensor(at))
    tables = posted(direct, ROPE_AXES, {"positions": at}, preset=usage.preset)
    assert ulps_apart(tables["cos"], cos.numpy()).max() <= 1
    assert ulps_apart(tables["sin"], sin.numpy()).max() <= 1


def gathered(tables: list[Any], at: Array) -> Any:
    return torch().cat([table[torch().tensor(at[:, axis])] for axis, table in enumerate(tables)], dim=-1)


def lumina_2(usage: Usage, at: Array) -> Any:
    _, base, sections = numbers(usage)
    module = diffusion("lumina2").Lumina2RotaryPosEmbed(int(base), [2 * n for n in sections])
    table = gathered(module.freqs_cis, at)
    return table.real, table.imag


def z_image(usage: Usage, at: Array) -> Any:
    _, base, sections = numbers(usage)
    module = diffusion("z_image").RopeEmbedder(base, [2 * n for n in sections], [1024, 512, 512])
    table = module(torch().tensor(at))
    return table.real, table.imag


def hidream(usage: Usage, at: Array) -> Any:
    """Matrices [[cos, -sin], [sin, cos]], one a pair."""
    _, base, sections = numbers(usage)
    module = diffusion("hidream_image").HiDreamImageEmbedND(int(base), [2 * n for n in sections])
    turns = module(torch().tensor(at)[None].double())[0, :, 0]
    assert (turns[..., 0, 1] == -turns[..., 1, 0]).all()
    return turns[..., 0, 0], turns[..., 1, 0]


@proves("encodings/rope-axes", {"lumina-2": lumina_2, "z-image": z_image, "hidream": hidream})
def test_image_models_that_look_positions_up(
    direct: Client, usage: Usage, oracle: Callable[[Usage, Array], Any]
) -> None:
    """Frequencies in float64, and angles in float64 or rounded to float32."""
    at = np.random.default_rng(3).integers(0, 300, (20, 3))
    cos, sin = oracle(usage, at)
    tables = posted(direct, ROPE_AXES, {"positions": at}, preset=usage.preset)
    for ours, theirs in ((tables["cos"], cos.numpy()), (tables["sin"], sin.numpy())):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= 300 * 2.0**-24


@proves("encodings/rope-axes", {"cogview4": "CogView4RotaryPosEmbed"})
@pytest.mark.parametrize("grid", [(3, 5), (16, 10)])
def test_cogview4(direct: Client, usage: Usage, oracle: str, grid: tuple[int, int]) -> None:
    module = getattr(diffusion("cogview4"), oracle)(64, 1, (256, 256))
    cos, sin = module(torch().zeros(1, 1, *grid))
    close_to_their_angles(direct, usage, grid, cos.numpy(), sin.numpy())


@proves("encodings/rope-axes", {"ltx-video": "LTXVideoRotaryPosEmbed"})
def test_ltx_video(direct: Client, usage: Usage, oracle: str) -> None:
    module = getattr(diffusion("ltx"), oracle)(2048, base_num_frames=16, base_height=64, base_width=32)
    scale = (2.0, 8.0, 4.0)
    cos, sin = module(torch().zeros(1, 1), 3, 4, 6, rope_interpolation_scale=scale)
    # All quotients are dyadic fractions: their float32 and our float64 are the same numbers.
    at = cells(*GRID) * np.array(scale) / np.array([16, 64, 32]) - 0.5
    tables = posted(direct, ROPE_AXES, {"positions": at}, preset=usage.preset)
    frequencies = asked(direct, ROPE_AXES, preset=usage.preset, output="frequencies", rest="left-out", dtype="float64")
    angles = at[:, np.arange(1023) % 3] * frequencies["frequencies"]
    # linspace, power and two products in float32; the power's error grows with its exponent, ln(10^4) = 9.2.
    bound = np.repeat(np.abs(angles), 2, axis=1) * 14 * EPS + EPS
    for ours, theirs in ((tables["cos"], cos[0].numpy()), (tables["sin"], sin[0].numpy())):
        assert np.array_equal(ours[:, :2], theirs[:, :2])
        assert (np.abs(ours[:, 2:].astype(np.float64) - theirs[:, 2:]) <= bound).all()


def test_ltx_videos_own_grid(direct: Client) -> None:
    """The pipeline's scales: 8 frames a patch at 25 a second, 32 pixels along a patch's side."""
    module = diffusion("ltx").LTXVideoRotaryPosEmbed(2048)
    cos, sin = module(torch().zeros(1, 1), *GRID, rope_interpolation_scale=(8 / 25, 32, 32))
    tables = asked(direct, ROPE_AXES, preset="ltx-video", grid=list(GRID))
    angles = asked(direct, ROPE_AXES, preset="ltx-video", grid=list(GRID), output="angles", rest="left-out",
                   dtype="float64")["angles"]  # fmt: skip
    at = cells(*GRID) * np.array([8 / 25, 32, 32]) / np.array([20, 2048, 2048]) - 0.5
    frequencies = asked(direct, ROPE_AXES, preset="ltx-video", output="frequencies", rest="left-out", dtype="float64")
    np.testing.assert_allclose(angles, at[:, np.arange(1023) % 3] * frequencies["frequencies"], rtol=1e-14)
    # A position near 0 is a difference of numbers near 1/2: it may be wrong by as much as they are.
    bound = np.repeat(frequencies["frequencies"] * 8 * EPS + np.abs(angles) * 14 * EPS, 2, axis=1) + EPS
    for ours, theirs in ((tables["cos"], cos[0].numpy()), (tables["sin"], sin[0].numpy())):
        assert np.array_equal(ours[:, :2], theirs[:, :2])
        assert (np.abs(ours[:, 2:].astype(np.float64) - theirs[:, 2:]) <= bound).all()


# The rotations themselves

APPLY = "/v1/apply/rope-axes"
WITHIN = 3 * 2.0**-24 * 8  # three roundings of sums of two numbers below 4


def vectors(dim: int, count: int) -> Array:
    return np.random.default_rng(dim).uniform(-4, 4, (1, 3, count, dim)).astype(np.float32)


@proves(
    "apply/rope-axes",
    {
        "qwen2-vl": ("qwen2_vl", "Qwen2VLRotaryEmbedding", "qwen2-vl"),
        "ernie-4-5-vl": ("ernie4_5_vl_moe", "Ernie4_5_VLMoeTextRotaryEmbedding", "ernie-4-5-vl"),
    },
)
def test_transformers_rotations(direct: Client, usage: Usage, oracle: tuple[str, str, str]) -> None:
    model, owner, tables_of = oracle
    at = positions(3)
    q = vectors(128, len(at))
    cos, sin, _ = text_tables(usage_of(by_key("encodings", "rope-axes"), tables_of), model, owner, at)
    given = torch().tensor(q)
    theirs, _ = models(model).apply_rotary_pos_emb(given, given, cos[None], sin[None])
    turned = posted(direct, APPLY, {"q": q, "positions": at}, preset=usage.preset)["q"]
    # Where the frequencies differ by 2 ulp, the angles at 1000 do by three times their last place.
    bound = np.where(at.max(axis=1) > 40, 1000 * 3 * EPS * 8, WITHIN + 40 * 3 * EPS * 8)
    assert (np.abs(turned - theirs.numpy()).max(axis=-1) <= bound).all()


@proves("apply/rope-axes", {"wan": "apply_rotary_emb"})
def test_wans_rotation(direct: Client, usage: Usage, oracle: str) -> None:
    at = cells(*GRID)
    q = vectors(128, len(at))
    cos, sin = wan(usage)
    rotate = getattr(library("diffusers.models.embeddings"), oracle)
    theirs = rotate(torch().tensor(q), (cos, sin), use_real_unbind_dim=-1)
    turned = posted(direct, APPLY, {"q": q}, preset=usage.preset, grid=list(GRID))["q"]
    assert np.abs(turned - theirs.numpy()).max() <= WITHIN + 8 * EPS
