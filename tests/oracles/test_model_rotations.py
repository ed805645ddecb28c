"""The rotations of models, live in transformers: their own tables handed to their own functions, preset by preset.

In float32 both sides err by a few roundings. In float16 and bfloat16 every rounding is where the library has it, so
the numbers are equal but for the few whose tables differ by a last place: PyTorch's cosines err by up to an ulp.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from service.engine.rounding import DTYPES
from service.engine.scheme import Usage
from tests.engine.answers import Array, answer
from tests.golden.frozen import library
from tests.oracles.usages import proves

pytestmark = pytest.mark.oracle

POSITIONS = (0, 1, 2, 17, 40, 93)
NEAR = 100 * 2.0**-24 * 8  # what a float32 angle below 100 may be wrong by, after two ulp of its frequency
NARROW = ("float16", "bfloat16")
FORMATS = ("float32", *NARROW)


@dataclass(frozen=True, slots=True)
class Model:
    """A model's rotation: whose configuration and module, how wide heads are, and what its function is called."""

    folder: str
    prefix: str
    dim: int = 24
    config: dict[str, Any] = field(default_factory=dict)
    function: str = "apply_rotary_pos_emb"
    module: str = ""
    base: float = 10000.0
    given: str = "cos-sin"  # what the function takes: cos-sin, or complex numbers by heads-length or length-heads

    def tables(self, dtype: Any) -> Any:
        """The model's own tables, for vectors of that number format."""
        owner = f"transformers.models.{self.folder}"
        configs = library(f"{owner}.configuration_{self.folder}")
        rope = {"rope_type": "default", "rope_theta": self.base, **self.config.get("rope", {})}
        widths = {"hidden_size": self.dim, "num_attention_heads": 1, "head_dim": self.dim}
        chosen = {**widths, **self.config.get("widths", {})}
        config = getattr(configs, f"{self.prefix}Config")(rope_parameters=rope, **chosen)
        module = getattr(library(f"{owner}.modeling_{self.folder}"), self.module or f"{self.prefix}RotaryEmbedding")
        torch = library("torch")
        return module(config)(torch.zeros(1, dtype=dtype), torch.tensor(POSITIONS)[None])

    def turned(self, q: Any, k: Any) -> tuple[Any, Any]:
        """Queries and keys (1, heads, length, dim) as the model turns them."""
        rotate = getattr(library(f"transformers.models.{self.folder}.modeling_{self.folder}"), self.function)
        tables = self.tables(q.dtype)
        if self.given == "cos-sin":
            return tuple(rotate(q, k, *tables))
        if self.given == "length-heads":
            both = rotate(q.transpose(1, 2), k.transpose(1, 2), tables)
            return both[0].transpose(1, 2), both[1].transpose(1, 2)
        return tuple(rotate(q, k, tables))


def to_torch(array: Array) -> Any:
    torch = library("torch")
    if array.dtype == ml_dtypes.bfloat16:
        return torch.tensor(array.view(np.int16)).view(torch.bfloat16)
    return torch.tensor(array)


def to_numpy(tensor: Any) -> Array:
    torch = library("torch")
    tensor = tensor.contiguous()
    if tensor.dtype == torch.bfloat16:
        bits: Array = tensor.view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    array: Array = tensor.numpy()
    return array


def vectors(dim: int, dtype: str) -> tuple[Array, Array]:
    """Five heads of queries, and two of keys."""
    random = np.random.default_rng(dim)
    q, k = (random.uniform(-4, 4, (1, heads, len(POSITIONS), dim)) for heads in (5, 2))
    return q.astype(DTYPES[dtype]), k.astype(DTYPES[dtype])


def compare(dtype: str, ours: dict[str, Array], theirs: dict[str, Any], given: dict[str, Array]) -> None:
    """Equal in 16 bits but for one in a thousand, which is off by an ulp or two; in float32 within the roundings."""
    for name, turned in ours.items():
        library_s = to_numpy(theirs[name])
        assert turned.dtype == library_s.dtype
        assert (turned != given[name]).any()
        difference = np.abs(turned.astype(np.float64) - library_s.astype(np.float64))
        if dtype == "float32":
            assert difference.max() <= 4 * (NEAR + 6 * 2.0**-24)
        else:
            assert (turned != library_s).mean() <= 1e-3
            assert difference.max() <= 8 * 2.0 ** {"float16": -11, "bfloat16": -8}[dtype]


LATENT = {"widths": {"qk_rope_head_dim": 24}}
MODELS = {
    "llama": Model("llama", "Llama"),
    "gpt-neox": Model("gpt_neox", "GPTNeoX", config={"rope": {"partial_rotary_factor": 0.25}}),
    "phi-4-mini": Model("phi3", "Phi3", config={"rope": {"partial_rotary_factor": 0.75}}),
    "olmo": Model("olmo2", "Olmo2"),
    "cohere": Model("cohere", "Cohere"),
    "glm": Model("glm", "Glm", config={"rope": {"partial_rotary_factor": 0.5}}),
    "ernie-4-5": Model("ernie4_5", "Ernie4_5"),
    "llama-4": Model(
        "llama4", "Llama4Text", function="apply_rotary_emb", module="Llama4TextRotaryEmbedding", given="length-heads"
    ),
    "deepseek-v2": Model("deepseek_v2", "DeepseekV2", config=LATENT, function="apply_rotary_emb", given="complex"),
    "deepseek-v3": Model("deepseek_v3", "DeepseekV3", config=LATENT, function="apply_rotary_pos_emb_interleave"),
    "nanochat": Model("nanochat", "NanoChat"),
}


@pytest.mark.parametrize("dtype", FORMATS)
@proves("apply/rope", MODELS)
def test_a_model_turns_as_its_preset(usage: Usage, oracle: Model, dtype: str) -> None:
    q, k = vectors(oracle.dim, dtype)
    theirs = dict(zip("qk", oracle.turned(to_torch(q), to_torch(k)), strict=True))
    ours = answer("apply/rope", {"q": q, "k": k}, positions=POSITIONS, **usage.parameters)
    compare(dtype, ours, theirs, {"q": q, "k": k})


# Both are set in every file that DeepSeek released; A is not 1 here, so that it shows.
DEEPSEEK_YARN = {
    "rope_type": "yarn",
    "factor": 40.0,
    "original_max_position_embeddings": 64,
    "mscale": 1.0,
    "mscale_all_dim": 0.5,
}


@pytest.mark.parametrize("scaling", [{}, DEEPSEEK_YARN], ids=["default", "yarn"])
@pytest.mark.parametrize("dtype", FORMATS)
@proves("apply/rope", {"deepseek": "deepseek-v2"})
def test_the_preset_of_deepseek_turns_as_deepseek(
    usage: Usage, oracle: str, dtype: str, scaling: dict[str, Any]
) -> None:
    model = replace(
        MODELS[oracle], config={"widths": {**LATENT["widths"], "max_position_embeddings": 2560}, "rope": scaling}
    )
    q, k = vectors(model.dim, dtype)
    theirs = dict(zip("qk", model.turned(to_torch(q), to_torch(k)), strict=True))
    ours = answer("apply/rope", {"q": q, "k": k}, positions=POSITIONS, **usage.parameters, **scaling)
    compare(dtype, ours, theirs, {"q": q, "k": k})


@pytest.mark.parametrize("length", [16, 20])
@proves("encodings/rope", {"transformers-5.24": ("phimoe", "Phimoe")})
def test_phimoes_own_module(usage: Usage, oracle: tuple[str, str], length: int) -> None:
    """Beyond the trained length it still divides by the short list, and takes the amplitude of the long one."""
    folder, prefix = oracle
    block = {
        "rope_type": "longrope",
        "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [2.0, 3.0, 4.0, 5.0],
        "short_mscale": 1.1,
        "long_mscale": 1.3,
        "original_max_position_embeddings": 16,
    }
    owner = f"transformers.models.{folder}"
    config = getattr(library(f"{owner}.configuration_{folder}"), f"{prefix}Config")(
        hidden_size=8, num_attention_heads=1, max_position_embeddings=64, rope_parameters={"rope_theta": 1e4, **block}
    )
    torch = library("torch")
    module = getattr(library(f"{owner}.modeling_{folder}"), f"{prefix}RotaryEmbedding")(config)
    theirs = module(torch.zeros(1), torch.arange(length)[None])
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in block.items()}
    given = {**usage.parameters, **own, "max_position_embeddings": 64, "seq_len": length}
    ours = answer("encodings/rope", dim=8, length=length, **given)
    for wave, table in zip(("cos", "sin"), theirs, strict=True):
        assert np.abs(ours[wave] - table[0].numpy()).max() <= 1e-6


@proves("encodings/rope", {"llama-4": MODELS["llama-4"]})
def test_llama_4s_complex_table(usage: Usage, oracle: Model) -> None:
    theirs = library("torch").view_as_real(replace(oracle, base=500_000.0).tables(library("torch").float32)).numpy()[0]
    ours = answer("encodings/rope", dim=oracle.dim, positions=POSITIONS, **usage.parameters)["complex"]
    assert ours.shape == theirs.shape == (len(POSITIONS), oracle.dim // 2, 2)
    assert np.abs(ours - theirs).max() <= NEAR
    assert np.abs(theirs[..., 1]).max() > 0.5


@pytest.mark.parametrize("dtype", FORMATS)
def test_phi_3_and_interleaving_switched_off_in_deepseek(dtype: str) -> None:
    for model in (Model("phi3", "Phi3"), Model("deepseek_v3", "DeepseekV3", config=LATENT)):
        q, k = vectors(model.dim, dtype)
        theirs = dict(zip("qk", model.turned(to_torch(q), to_torch(k)), strict=True))
        ours = answer("apply/rope", {"q": q, "k": k}, positions=POSITIONS, arithmetic="float32")
        compare(dtype, ours, theirs, {"q": q, "k": k})


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(("layer", "base"), [("sliding_attention", 10_000.0), ("full_attention", 1_000_000.0)])
def test_gemma_3_has_a_base_for_each_type_of_layer(dtype: str, layer: str, base: float) -> None:
    torch, owner = library("torch"), library("transformers.models.gemma3.modeling_gemma3")
    config = library("transformers.models.gemma3.configuration_gemma3").Gemma3TextConfig(
        hidden_size=24, num_attention_heads=1, head_dim=24
    )
    q, k = vectors(24, dtype)
    at = torch.tensor(POSITIONS)[None]
    tables = owner.Gemma3RotaryEmbedding(config)(to_torch(q), at, layer_type=layer)
    theirs = dict(zip("qk", owner.apply_rotary_pos_emb(to_torch(q), to_torch(k), *tables), strict=True))
    ours = answer("apply/rope", {"q": q, "k": k}, positions=POSITIONS, base=base, arithmetic="float32")
    compare(dtype, ours, theirs, {"q": q, "k": k})


@pytest.mark.parametrize("dtype", FORMATS)
@proves("apply/rope", {"deepseek-v4": 96})
def test_deepseek_v4_turns_the_last_channels(usage: Usage, oracle: int, dtype: str) -> None:
    owner = library("transformers.models.deepseek_v4.modeling_deepseek_v4")
    q, k = vectors(oracle, dtype)
    # Its module reads widths from a whole configuration: Llama's tables of 64 channels are the same numbers.
    cos, sin = (table[..., :32] for table in Model("llama", "Llama", dim=64).tables(to_torch(q).dtype))
    theirs = {name: owner.apply_rotary_pos_emb(to_torch(x), cos, sin) for name, x in (("q", q), ("k", k))}
    ours = answer("apply/rope", {"q": q, "k": k}, positions=POSITIONS, **usage.parameters)
    compare(dtype, ours, theirs, {"q": q, "k": k})
    assert np.array_equal(ours["q"][..., :32], q[..., :32])


@pytest.mark.parametrize("dtype", FORMATS)
def test_gptj_in_every_format(dtype: str) -> None:
    owner = library("transformers.models.gptj.modeling_gptj")
    q, k = vectors(24, dtype)
    table = to_torch(np.zeros(1, DTYPES[dtype])).dtype
    sin, cos = owner.create_sinusoidal_positions(100, 16)[list(POSITIONS)].to(table).chunk(2, dim=-1)
    ours = answer(
        "apply/rope", {"q": q, "k": k}, positions=POSITIONS, pairing="interleaved", rotary_dim=16, arithmetic="float32"
    )
    for name, x in (("q", q), ("k", k)):
        rows = to_torch(x).transpose(1, 2)
        turned = owner.apply_rotary_pos_emb(rows[..., :16], sin[None], cos[None]).transpose(1, 2)
        compare(dtype, {name: ours[name][..., :16]}, {name: turned}, {name: x[..., :16]})
        assert np.array_equal(ours[name][..., 16:], x[..., 16:])


AXES = np.random.default_rng(8).integers(0, 40, (len(POSITIONS), 4))
# The module of each, and how wide its heads are.
ON_AXES = {
    "qwen2-vl": ("qwen2_vl", "Qwen2VLRotaryEmbedding", 128),
    "qwen3-vl": ("qwen3_vl", "Qwen3VLTextRotaryEmbedding", 128),
    "qwen3-5": ("qwen3_5", "Qwen3_5TextRotaryEmbedding", 256),
    "glm-4v": ("glm4v", "Glm4vTextRotaryEmbedding", 128),
    "ernie-4-5-vl": ("ernie4_5_vl_moe", "Ernie4_5_VLMoeTextRotaryEmbedding", 128),
    "hunyuan-vl": ("hunyuan_vl", "HunYuanVLRotaryEmbedding", 128),
}


@pytest.mark.parametrize("dtype", FORMATS)
@proves("apply/rope-axes", ON_AXES)
def test_a_model_turns_on_several_axes_as_its_preset(usage: Usage, oracle: tuple[str, str, int], dtype: str) -> None:
    folder, name, dim = oracle
    torch, owner = library("torch"), library(f"transformers.models.{folder}.modeling_{folder}")
    sections = [int(section) for section in usage.parameters["sections"].split(",")]
    rope = {"rope_type": "default", "rope_theta": float(usage.parameters.get("base", "10000")),
            "mrope_section": sections,
            "partial_rotary_factor": int(usage.parameters.get("rotary_dim", dim)) / dim}  # fmt: skip
    config = SimpleNamespace(rope_parameters=rope, head_dim=dim, hidden_size=dim, num_attention_heads=1,
                             max_position_embeddings=4096)  # fmt: skip
    at = AXES[:, : len(sections)]
    q, k = vectors(dim, dtype)
    cos, sin = getattr(owner, name)(config)(to_torch(q), torch.tensor(at.T[:, None]))
    tables = [table.reshape(1, len(at), -1) for table in (cos, sin)]
    theirs = dict(zip("qk", owner.apply_rotary_pos_emb(to_torch(q), to_torch(k), *tables), strict=True))
    given = {"q": q, "k": k, "positions": at}
    ours = answer("apply/rope-axes", given, **usage.parameters)
    compare(dtype, ours, {name: turned.to(to_torch(q).dtype) for name, turned in theirs.items()}, given)


@pytest.mark.parametrize("dtype", FORMATS)
@proves("apply/rope-axes", {"wan": "apply_rotary_emb"})
def test_wan_turns_in_float32(usage: Usage, oracle: str, dtype: str) -> None:
    """Its module takes latents in patches of 1 x 2 x 2, and hands float32 tables to diffusers' rotation."""
    torch, grid = library("torch"), (2, 3, 4)
    wan = library("diffusers.models.transformers.transformer_wan")
    frames, rows, columns = grid
    random = np.random.default_rng(2)
    q = random.uniform(-4, 4, (1, 3, frames * rows * columns, 128)).astype(DTYPES[dtype])
    cos, sin = wan.WanRotaryPosEmbed(128, (1, 2, 2), 1024)(torch.zeros(1, 16, frames, 2 * rows, 2 * columns))
    tables = cos.reshape(len(q[0, 0]), 128), sin.reshape(len(q[0, 0]), 128)
    theirs = getattr(library("diffusers.models.embeddings"), oracle)(to_torch(q), tables, use_real_unbind_dim=-1)
    ours = answer("apply/rope-axes", {"q": q}, **usage.parameters, grid=grid)
    compare(dtype, ours, {"q": theirs}, {"q": q})


@pytest.mark.parametrize("dtype", FORMATS)
@proves("apply/rope-axes", {"qwen2-vl-vision": ("qwen2_vl", "qwen3_vl")})
def test_vision_towers_turn_in_float32(usage: Usage, oracle: tuple[str, ...], dtype: str) -> None:
    torch, at = library("torch"), AXES[:, :2]
    q, k = (array[0].swapaxes(0, 1) for array in vectors(80, dtype))  # (length, heads, dim)
    inverse: Callable[..., Any] = torch.arange
    frequencies = 1.0 / (10000.0 ** (inverse(0, 40, 2, dtype=torch.float) / 40))
    angles = (torch.tensor(at)[..., None].float() * frequencies).flatten(1)
    tables = (torch.cat([angles, angles], dim=-1).cos(), torch.cat([angles, angles], dim=-1).sin())
    given = {"q": q, "k": k, "positions": at}
    ours = answer("apply/rope-axes", given, axes="length-heads", **usage.parameters)
    for folder in oracle:
        owner = library(f"transformers.models.{folder}.modeling_{folder}")
        turned = owner.apply_rotary_pos_emb_vision(to_torch(q), to_torch(k), *tables)
        compare(dtype, ours, dict(zip("qk", turned, strict=True)), given)


@pytest.mark.parametrize("dtype", ["float64", *FORMATS])
@proves("apply/rope-axes", {"v-jepa-2": "rotate_queries_or_keys"})
def test_v_jepa_2_has_every_step_in_the_format_of_the_vectors(usage: Usage, oracle: str, dtype: str) -> None:
    """Frequencies, angles and cosines too: in 16 bits all are the same bits."""
    at = AXES[:, :3] + (290, 0, 0)  # where bfloat16 has even numbers only
    q, _ = vectors(128, dtype)
    torch, given = library("torch"), to_torch(q)
    rotate = getattr(library("transformers.models.vjepa2.modeling_vjepa2"), oracle)
    parts = [rotate(given[..., 42 * axis : 42 * axis + 42], torch.tensor(at[:, axis])) for axis in range(3)]
    theirs = to_numpy(torch.cat([*parts, given[..., 126:]], dim=-1))
    turned = answer("apply/rope-axes", {"q": q, "positions": at}, **usage.parameters)["q"]
    assert turned.dtype == theirs.dtype
    bound = {"float64": 1e-11, "float32": 4 * (4 * NEAR + 6 * 2.0**-24)}.get(dtype, 0.0)
    assert np.abs(turned.astype(np.float64) - theirs.astype(np.float64)).max() <= bound
    lengths = [np.linalg.norm(each.astype(np.float64), axis=-1) for each in (theirs, q)]
    assert np.abs(lengths[0] - lengths[1]).max() > 0.1


@pytest.mark.parametrize("dtype", FORMATS)
def test_an_odd_partial_width_turns_a_channel_more(dtype: str) -> None:
    """int(26 * 0.35) = 9: what `left_out` says of it holds."""
    model = Model("phi3", "Phi3", dim=26, config={"rope": {"partial_rotary_factor": 0.35}})
    q, k = vectors(model.dim, dtype)
    theirs = dict(zip("qk", model.turned(to_torch(q), to_torch(k)), strict=True))
    own = tuple(10_000.0 ** (-2 * pair / 9) for pair in range(5))
    chosen = {"rotary_dim": 10, "rope_type": "frequencies", "frequencies": own, "arithmetic": "float32"}
    ours = answer("apply/rope", {"q": q, "k": k}, positions=POSITIONS, **chosen)
    compare(dtype, ours, theirs, {"q": q, "k": k})
