"""Models without RoPE, family by family: sinusoids, buckets and rotations against the models' own functions."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_grids import timm
from tests.models.fixtures import fetched, resolved
from tests.oracles.exact import ulps_apart
from tests.oracles.live_models import Array

pytestmark = pytest.mark.oracle

DISTANCES = np.arange(-300, 301)


def owner(folder: str) -> Any:
    return library(f"transformers.models.{folder}.modeling_{folder}")


def config_of(name: str, **given: Any) -> Any:
    return library("transformers").CONFIG_MAPPING[name](**given)


def uses_of(client: Client, name: str, encoding: str, **given: Any) -> list[Any]:
    plan = resolved(client, {"model_type": name, **given})
    found = [use for use in plan["uses"] if use["encoding"] == encoding]
    assert found
    return found


def values(use: Any) -> dict[str, Any]:
    return {name: each["value"] for name, each in use["parameters"].items()}


# Buckets of distances from a query to keys.


def of_mpnet(distances: Any, said: Mapping[str, Any]) -> Any:
    # Its distances are counted from the key, and turned round within.
    encoder = owner("mpnet").MPNetEncoder
    return encoder.relative_position_bucket(distances, said["num_buckets"], said["max_distance"])


def of_wavlm(distances: Any, said: Mapping[str, Any]) -> Any:
    sizes = SimpleNamespace(num_buckets=said["num_buckets"], max_distance=said["max_distance"])
    return owner("wavlm").WavLMAttention._relative_positions_bucket(sizes, distances)


def of_prophetnet(distances: Any, said: Mapping[str, Any]) -> Any:
    return owner("prophetnet").compute_relative_buckets(said["num_buckets"], said["max_distance"], distances, False)


def of_layoutlmv2(distances: Any, said: Mapping[str, Any]) -> Any:
    return owner("layoutlmv2").relative_position_bucket(distances, True, said["num_buckets"], said["max_distance"])


def of_layoutlmv3(distances: Any, said: Mapping[str, Any]) -> Any:
    bucket = owner("layoutlmv3").LayoutLMv3Encoder.relative_position_bucket
    return bucket(None, distances, True, said["num_buckets"], said["max_distance"])


def of_cpmant(distances: Any, said: Mapping[str, Any]) -> Any:
    bucket = owner("cpmant").CpmAntSegmentPositionEmbedding._position_bucket
    return bucket(None, distances, said["num_buckets"], said["max_distance"])


def of_udop(distances: Any, said: Mapping[str, Any]) -> Any:
    both = said["direction"] == "bidirectional"
    bucket = owner("udop").UdopAttention._relative_position_bucket
    return bucket(distances, both, said["num_buckets"], said["max_distance"])


BUCKETS: Mapping[str, tuple[Callable[[Any, Mapping[str, Any]], Any], Mapping[str, Any]]] = {
    "cpmant": (of_cpmant, {"position_bias_num_buckets": 40, "position_bias_max_distance": 90}),
    "layoutlmv2": (of_layoutlmv2, {"rel_pos_bins": 20, "max_rel_pos": 77, "rel_2d_pos_bins": 24, "max_rel_2d_pos": 99}),
    "layoutlmv3": (of_layoutlmv3, {"rel_pos_bins": 20, "max_rel_pos": 77, "rel_2d_pos_bins": 24, "max_rel_2d_pos": 99}),
    "mpnet": (of_mpnet, {"relative_attention_num_buckets": 20}),
    "prophetnet": (of_prophetnet, {"num_buckets": 20, "relative_max_distance": 77}),
    "udop": (of_udop, {"relative_attention_num_buckets": 20, "relative_attention_max_distance": 77}),
    "wavlm": (of_wavlm, {"num_buckets": 20, "max_bucket_distance": 77}),
}


@pytest.mark.parametrize("name", BUCKETS)
def test_buckets(direct: Client, name: str) -> None:
    theirs, given = BUCKETS[name]
    size = {"length": "", "queries": "1", "keys": "601", "offset": "300"}
    for use in uses_of(direct, name, "t5", **given):
        [ours] = fetched(direct, use["addresses"]["tables"], **size).values()
        wanted = theirs(library("torch").tensor(DISTANCES), values(use)).numpy()
        assert np.array_equal(ours[0], wanted), values(use)


def test_clipped_and_logarithmic_distances_of_deberta_and_sew_d(direct: Client) -> None:
    torch = library("torch")
    [use] = uses_of(direct, "deberta", "deberta", relative_attention=True, max_relative_positions=40)
    x = torch.zeros(1, 1, 90, 4)
    theirs = owner("deberta").build_relative_position(x, x)[0].numpy()
    [ours] = fetched(direct, use["addresses"]["tables"], length="90").values()
    assert np.array_equal(ours, np.clip(theirs + 40, 0, 79))
    given = {"relative_attention": True, "position_buckets": 20, "max_position_embeddings": 90}
    [use] = uses_of(direct, "sew-d", "deberta", **given)
    theirs = owner("sew_d").build_relative_position(90, 90, 20, values(use)["max_relative_positions"])[0].numpy()
    [ours] = fetched(direct, use["addresses"]["tables"], length="90").values()
    assert np.array_equal(ours, theirs)


# Sinusoids of relative distances, and of positions.


@pytest.mark.parametrize(("attention", "clamped"), [("bi", -1), ("uni", -1), ("bi", 7)])
def test_the_sinusoids_of_xlnet(direct: Client, attention: str, clamped: int) -> None:
    config = SimpleNamespace(d_model=48, attn_type=attention, bi_data=True, clamp_len=clamped)
    model = owner("xlnet").XLNetModel
    config.positional_embedding = model.positional_embedding
    theirs = model.relative_positional_encoding(config, 21, 21).numpy()
    given = {"attn_type": attention, "clamp_len": clamped, "bi_data": True}
    [use] = uses_of(direct, "xlnet", "transformer-xl", d_model=48, n_head=4, **given)
    for half, name in enumerate(("tables", "second_half_of_the_batch")):
        [ours] = fetched(direct, use["addresses"][name], length="21").values()
        assert ours.shape == theirs[:, half].shape
        assert np.abs(ours - theirs[:, half]).max() <= 21 * 2.4e-7


def test_the_sinusoids_of_funnel(direct: Client) -> None:
    """Its table of every distance within twice the length, and the plan's at those positions."""
    torch = library("torch")
    config = config_of("funnel", d_model=48, n_head=4, attention_type="factorized")
    structure = owner("funnel").FunnelAttentionStructure(config).eval()
    _, _, psi, _ = structure.get_position_embeds(20, torch.float32, "cpu")
    [use] = uses_of(direct, "funnel", "transformer-xl", d_model=48, n_head=4)
    [ours] = fetched(direct, use["addresses"]["tables"], length="20").values()
    theirs = np.concatenate([psi[:, 24:].numpy(), psi[:, :24].numpy()], axis=1)
    assert np.abs(ours - theirs).max() <= 20 * 2.4e-7


@pytest.mark.parametrize("name", ["wav2vec2-conformer", "wav2vec2-bert", "seamless_m4t"])
def test_the_relative_sinusoids_of_conformers(direct: Client, name: str) -> None:
    torch, folder = library("torch"), name.replace("-", "_")
    given: dict[str, Any] = {"hidden_size": 48, "max_source_positions": 30, "position_embeddings_type": "relative"}
    [module] = [each for key, each in vars(owner(folder)).items() if key.endswith("ConformerRelPositionalEmbedding")
                or key.endswith("BertRelPositionalEmbedding")]  # fmt: skip
    theirs = module(config_of(name, **given))(torch.zeros(1, 11, 48))[0].numpy()
    use = uses_of(direct, name, "transformer-xl", **given)[0]
    [ours] = fetched(direct, use["addresses"]["tables"], length="11").values()
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-5


@pytest.mark.parametrize("name", ["wav2vec2-conformer", "wav2vec2-bert", "seamless_m4t"])
def test_the_rotation_of_conformers(direct: Client, name: str) -> None:
    torch, folder = library("torch"), name.replace("-", "_")
    given = {"hidden_size": 48, "position_embeddings_type": "rotary", "rotary_embedding_base": 5000}
    heads = {"speech_encoder_attention_heads": 4} if name == "seamless_m4t" else {"num_attention_heads": 4}
    [module] = [each for key, each in vars(owner(folder)).items() if key.endswith("RotaryPositionalEmbedding")]
    theirs = module(config_of(name, **given, **heads))(torch.zeros(1, 9, 48)).numpy().reshape(2, 9, 12)
    [use] = uses_of(direct, name, "rope", **given, **heads)
    ours = fetched(direct, use["addresses"]["tables"], length="9")
    for table, wave in zip(theirs, ("cos", "sin"), strict=True):
        assert np.abs(ours[wave] - table).max() <= 9 * 2.4e-7


def test_the_sinusoids_of_pegasus_x_and_timesfm(direct: Client) -> None:
    torch = library("torch")
    theirs = owner("pegasus_x").PegasusXSinusoidalPositionalEmbedding(48)(torch.zeros(1, 40, 48))[0].numpy()
    for use in uses_of(direct, "pegasus_x", "sinusoidal", d_model=48, max_position_embeddings=40):
        ours = fetched(direct, use["addresses"]["tables"], length="40")["encoding"]
        assert np.abs(ours - theirs).max() <= 40 * 2.4e-7
    given = {"hidden_size": 48, "min_timescale": 2, "max_timescale": 500, "use_positional_embedding": True}
    theirs = owner("timesfm").TimesFmPositionalEmbedding(config_of("timesfm", **given))(seq_length=30)[0].numpy()
    [use] = uses_of(direct, "timesfm", "sinusoidal", **given)
    ours = fetched(direct, use["addresses"]["tables"], length="30")["encoding"]
    assert np.abs(ours - theirs).max() <= 60 * 2.4e-7


# Rotations without a rotary class.


@pytest.mark.parametrize("name", ["gptj", "codegen"])
def test_gptjs_table(direct: Client, name: str) -> None:
    given = {"n_embd": 96, "n_head": 4, "rotary_dim": 16}
    theirs = owner(name).create_sinusoidal_positions(60, 16).numpy()
    [use] = uses_of(direct, name, "rope", **given)
    ours = fetched(direct, use["addresses"]["tables"], length="60", columns="half")
    for wave, table in (("sin", theirs[:, :8]), ("cos", theirs[:, 8:])):
        assert ulps_apart(ours[wave], table).max() <= 2


def test_roformers_table(direct: Client) -> None:
    """A float64 sinusoid, sines and then cosines, whose pairs turn neighbours."""
    module = owner("roformer").RoFormerSinusoidalPositionalEmbedding(60, 16)
    theirs = module.create_weight().numpy() if hasattr(module, "create_weight") else module.weight.detach().numpy()
    [use] = uses_of(direct, "roformer", "rope", hidden_size=64, num_attention_heads=4)
    ours = fetched(direct, use["addresses"]["tables"], length="60", columns="half")
    for wave, table in (("sin", theirs[:, :8]), ("cos", theirs[:, 8:])):
        assert ulps_apart(ours[wave], table).max() <= 1
    assert values(use)["pairing"] == "interleaved"


def test_the_atoms_of_esmfold_2(direct: Client) -> None:
    torch, files = library("torch"), owner("esmfold2")
    config = SimpleNamespace(num_spatial_rope_pairs_per_axis=2, num_uid_rope_pairs=5, spatial_rope_base_frequency=20.0,
                             uid_rope_base_frequency=10000.0, head_dim=24)  # fmt: skip
    places = np.random.default_rng(4).uniform(-9, 9, (6, 3)).astype(np.float32)
    residues = np.arange(6)
    theirs = files.EsmFold2RotaryEmbedding(config)(
        torch.tensor(places)[None], torch.tensor(residues)[None], torch.float32
    )
    atoms = {"hidden_size": 96, "num_attention_heads": 4, "num_uid_rope_pairs": 5}
    use = uses_of(direct, "esmfold2", "rope-axes", atom_encoder=atoms)[0]
    positions = np.concatenate([places.astype(np.float64), residues[:, None]], axis=1)
    waves = fetched(direct, {**use["addresses"]["tables"], "body": {"positions": positions.tolist()}})
    for wave, table in zip(("cos", "sin"), theirs, strict=True):
        assert np.abs(waves[wave] - table[0].numpy()).max() <= 4e-6
    sizes = SimpleNamespace(embed=SimpleNamespace(weight=torch.zeros(1)))
    one_hot = files.EsmFold2RelativePositionEncoding._relative_position_one_hot
    index = torch.arange(50)
    kept = torch.ones(50, 50, dtype=torch.bool)
    rows = one_hot(sizes, index[:, None] - index[None], 8, kept).argmax(-1).numpy()
    [use] = uses_of(direct, "esmfold2", "shaw", num_relative_residx_bins=8)
    [ours] = fetched(direct, use["addresses"]["tables"], length="50").values()
    assert np.array_equal(ours, rows)


@pytest.mark.parametrize(
    ("name", "dim", "side", "offset"), [("core_large_patch14_336", 64, 24, 1), ("lang_gigantic_patch14_448", 96, 32, 0)]
)
def test_timms_perception_encoder(direct: Client, name: str, dim: int, side: int, offset: int) -> None:
    module = timm().RotaryEmbeddingCat(
        dim,
        in_pixels=False,
        feat_shape=[side, side],
        ref_feat_shape=[side, side],
        grid_offset=offset,
        grid_indexing="xy",
    )
    sines, cosines = (part.numpy() for part in module.get_embed().chunk(2, -1))
    [use] = uses_of(direct, "timm_wrapper", "rope-axes", architecture=f"vit_pe_{name}")
    ours = fetched(direct, use["addresses"]["tables"])
    token = len(ours["cos"]) - side * side
    assert token == (1 if offset else 0)
    for wave, table in (("cos", cosines), ("sin", sines)):
        assert ulps_apart(ours[wave][token:], table).max() <= 2


# Maps of detectors.

DETECTORS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "conditional_detr": ("conditional_detr", "ConditionalDetrSinePositionEmbedding", {"d_model": 48}),
    "dab-detr": ("dab_detr", "DabDetrSinePositionEmbedding", {"hidden_size": 48}),
    "deformable_detr": ("deformable_detr", "DeformableDetrSinePositionEmbedding", {"d_model": 48}),
    "detr": ("detr", "DetrSinePositionEmbedding", {"d_model": 48}),
    "grounding-dino": ("grounding_dino", "GroundingDinoSinePositionEmbedding", {"d_model": 48}),
}


@pytest.mark.parametrize("name", DETECTORS)
def test_maps_of_detectors(direct: Client, name: str) -> None:
    torch = library("torch")
    folder, module, given = DETECTORS[name]
    config = config_of(name, **given)
    files = owner(folder)
    build = next((each for key, each in vars(files).items() if key.startswith("build_position_enc")), None)
    if build is not None:
        embedding = build(config)
    elif name == "dab-detr":
        embedding = getattr(files, module)(config)
    else:
        embedding = getattr(files, module)(num_position_features=24, normalize=True)
    mask = torch.ones(1, 5, 7, dtype=torch.bool)
    theirs = called(embedding, mask)
    use = uses_of(direct, name, "detr", **given)[0]
    ours = next(iter(fetched(direct, use["addresses"]["tables"], grid="5,7").values())).reshape(35, 48)
    assert (
        np.abs(ours - theirs.reshape(48, 35).T if theirs.shape[0] == 48 else ours - theirs.reshape(35, 48)).max()
        <= 2e-5
    )


def called(embedding: Any, mask: Any) -> Array:
    """The map of a picture of 5 by 7 without padding; what a module takes differs."""
    torch = library("torch")
    pixels = torch.zeros(1, 3, 5, 7)
    tries: list[Callable[[], Any]] = [
        lambda: embedding(shape=pixels.shape, device="cpu", dtype=torch.float32, mask=mask),
        lambda: embedding(pixels.shape, "cpu", torch.float32),
        lambda: embedding(pixels, mask),
    ]
    for attempt in tries:
        try:
            table: Array = attempt()[0].detach().numpy()
        except TypeError:
            continue
        return table
    raise AssertionError("the module was not understood")


@pytest.mark.parametrize(
    ("name", "folder", "module"), [("rt_detr", "rt_detr", "RTDetr"), ("d_fine", "d_fine", "DFine")]
)
def test_maps_of_rt_detr(direct: Client, name: str, folder: str, module: str) -> None:
    torch = library("torch")
    embedding = getattr(owner(folder), f"{module}SinePositionEmbedding")(embed_dim=48)
    theirs = embedding(7, 5, torch.device("cpu"), torch.float32)[0].numpy()
    [use] = uses_of(direct, name, "sinusoidal-2d", encoder_hidden_dim=48)
    ours = next(iter(fetched(direct, use["addresses"]["tables"], grid="5,7").values()))
    assert ulps_apart(ours.reshape(35, 48), theirs).max() <= 1


def test_distances_of_beit_and_vits(direct: Client) -> None:
    given = {"image_size": 24, "patch_size": 8, "use_relative_position_bias": True}
    module = owner("beit").BeitRelativePositionBias(config_of("beit", **given))
    theirs = module.generate_relative_position_index((3, 3))
    [use] = uses_of(direct, "beit", "swin", **given)
    [ours] = fetched(direct, use["addresses"]["tables"]).values()
    assert np.array_equal(ours, theirs.numpy())
    [use] = uses_of(direct, "vits", "shaw", window_size=3)
    [ours] = fetched(direct, use["addresses"]["tables"], length="9").values()
    steps = np.arange(9)[None] - np.arange(9)[:, None]
    inside = abs(steps) <= 3
    assert np.array_equal(ours[inside], steps[inside] + 3)


@pytest.mark.parametrize(("label", "extent"), [("hybrid_sliding", 5), ("hybrid", 3)])
def test_the_profiles_of_inkling_2(direct: Client, label: str, extent: int) -> None:
    """The class's own bias, from its mixed profiles and the plan's rows, and factors behind the floor."""
    torch, length = library("torch"), 12
    keys = {"num_hidden_layers": 6, "sliding_window_size": 5, "rel_extent": 3, "log_scaling_n_floor": 4, "d_rel": 4}
    config = config_of("inkling2_text", **keys, hidden_size=16)
    grows = label == "hybrid"
    module = owner("inkling2").Inkling2RelativePositionBias(config, 2, extent, log_scaling=grows)
    torch.manual_seed(2)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    states, at = torch.randn(1, length, 16), torch.arange(length)
    distance = at[:, None] - at
    with torch.no_grad():
        theirs = module(states, distance, at[None])[0].numpy()
        scaled = module.linear(states).view(1, length, 2, -1)
        own = (
            module.norm.l2_clip(scaled.float() * module.norm.scale.float()) if grows else module.norm(scaled, at[None])
        )
        profiles = (own @ module.proj)[0].transpose(0, 1).numpy()
    [use] = [use for use in uses_of(direct, "inkling2_text", "relative", **keys) if use["layer_type"] == label]
    [rows] = fetched(direct, use["addresses"]["rows"], length=str(length)).values()
    bank = np.concatenate([profiles, np.zeros((2, length, 1), np.float32)], axis=-1)
    ours = np.take_along_axis(bank, np.broadcast_to(rows, (2, length, length)), axis=-1)
    if grows:
        [factors] = fetched(direct, use["addresses"]["temperature"], length=str(length)).values()
        ours = ours * factors.reshape(1, length, 1)
    assert np.abs(ours - theirs).max() <= 1e-5
    assert ("temperature" in use["addresses"]) == grows


def test_the_keypoints_of_lightglue(direct: Client) -> None:
    """Its projected places, and the rotation of its heads: pixels less the middle of the picture, over its half."""
    torch, files = library("torch"), owner("lightglue")
    config = config_of("lightglue", descriptor_dim=64, num_attention_heads=4)
    torch.manual_seed(3)
    module = files.LightGluePositionalEncoder(config)
    pixels = torch.rand(1, 9, 2) * torch.tensor([640.0, 480.0])
    places = files.normalize_keypoints(pixels, 480, 640)
    cosines, sines = (table[0].detach() for table in module(places)[0])
    use = uses_of(direct, "lightglue", "rope-mixed", descriptor_dim=64, num_attention_heads=4)[0]
    assert use["facts"]["table"] == list(module.projector.weight.shape)
    weights = module.projector.weight.detach().T
    at = ((pixels - torch.tensor([320.0, 240.0])) / 320)[0]
    tensors = {"frequencies": weights.tolist()}
    body = {"tensors": tensors, "positions": at.tolist()}
    ours = fetched(direct, {**use["addresses"]["tables"], "body": body})
    for wave, table in (("cos", cosines), ("sin", sines)):
        assert np.abs(ours[wave] - table.numpy()).max() <= 1e-6
    q = torch.randn(1, 4, 9, 16)
    theirs = files.apply_rotary_pos_emb(q, q, cosines[None], sines[None])[0].numpy()
    body = {"tensors": {**tensors, "q": q.tolist()}, "positions": at.tolist()}
    turned = fetched(direct, {**use["addresses"]["rotation"], "body": body})["q"]
    assert np.abs(turned - theirs).max() <= 1e-5
