"""Scaled rotations against transformers 5.24 by the two-stage rule, and against x-transformers.

Every entry of `ROPE_INIT_FUNCTIONS` over widths, bases and lengths: (i) inverse frequencies by ulp, (ii) tables where
the inverse frequencies are the same bits. The attention factor is a Python float on both sides.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.rotation.rope_block import parameters_of_block
from tests.clients import Client
from tests.engine.answers import answer, only
from tests.golden import make_scaling
from tests.golden.frozen import Numbers, library
from tests.golden.make_scaling import CASES, TABLE_BASE, TABLE_WIDTH, TABLES, of_grid
from tests.oracles.answers import posted_json
from tests.oracles.exact import ulps_apart
from tests.oracles.usages import proves

ROPE = "encodings/rope"


def parameters(name: str, width: int, base: float, length: int | None = None) -> dict[str, Any]:
    """The case as a caller pastes it, with the lengths that stand elsewhere in a configuration."""
    block, largest, own_length = CASES[name]
    found = parameters_of_block(make_scaling.block_of(block, width, base))
    return found | {"max_position_embeddings": largest, "seq_len": length or own_length, "dim": width}


@proves(ROPE, {"transformers-5.24": 2})
@pytest.mark.parametrize("name", CASES)
def test_frequencies_and_attention_factors(scaling: Numbers, name: str, usage: Any, oracle: int) -> None:
    scheme = by_key("encodings", "rope")
    factors = scaling[f"{name}.attention_factor"]
    for (place, theirs), attention in zip(of_grid(scaling, name).items(), factors, strict=True):
        given = {**usage.parameters, **parameters(name, *place)}
        ours = only(ROPE, **given, output="frequencies")
        assert ulps_apart(ours, theirs).max() <= oracle, place
        factor: Any = scheme.facts(scheme.params(**given), {})["attention_factor"]
        np.testing.assert_allclose(factor, attention, rtol=1e-15)


def test_most_frequencies_are_the_same_bits(scaling: Numbers) -> None:
    # Two ulp are for processors: the steps are the library's own, one by one.
    same, total = 0, 0
    for name in CASES:
        for place, theirs in of_grid(scaling, name).items():
            ours = only(ROPE, **parameters(name, *place), arithmetic="float32", output="frequencies")
            same += int((ours == theirs).sum())
            total += ours.size
    assert same >= 0.9 * total


@pytest.mark.parametrize("name", TABLES)
def test_tables_within_an_ulp_where_the_frequencies_are_the_same_bits(scaling: Numbers, name: str) -> None:
    positions = scaling["positions"]
    given = parameters(name, TABLE_WIDTH, TABLE_BASE, int(positions.max()) + 1) | {"arithmetic": "float32"}
    frequencies = only(ROPE, **given, output="frequencies")
    assert ulps_apart(frequencies, scaling[f"table.{name}.inv_freq"]).max() <= 2
    same = frequencies == scaling[f"table.{name}.inv_freq"]
    # A module hands its length on as an array, so that its dynamic base is a float32 power.
    assert same.mean() > (0.5 if name.startswith("dynamic") else 0.75)
    ours = answer(ROPE, **given, positions=tuple(map(float, positions)), columns="half")
    for wave in ("cos", "sin"):
        apart = ulps_apart(ours[wave][:, same], scaling[f"table.{name}.{wave}"][:, same])
        # Where cos is an ulp off, as PyTorch's may be, times an attention factor can make it two.
        assert apart.max() <= (2 if name.startswith(("yarn", "longrope")) else 1)
        assert (apart > 1).mean() < 0.01


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("dynamic")])
def test_exact_frequencies_are_near_the_librarys(scaling: Numbers, name: str) -> None:
    # The other way round: what rounds once must not be far from what rounds at every step.
    for place, theirs in of_grid(scaling, name).items():
        exact = only(ROPE, **parameters(name, *place), output="frequencies", dtype="float64")
        np.testing.assert_allclose(theirs, exact, rtol=2e-5)


def test_hunyuan_has_a_base_of_its_own(scaling: Numbers) -> None:
    given = parameters_of_block({"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "rope_theta": 10_000.0})
    ours = only(ROPE, dim=128, **given, arithmetic="float32", output="frequencies")
    assert ulps_apart(ours, scaling["hunyuan.inv_freq"]).max() <= 2


@pytest.mark.oracle
@pytest.mark.parametrize("rescale", [1.0, 4.0, 8.3])
def test_x_transformers_rescales_the_base_and_divides_the_angle(rescale: float) -> None:
    torch = library("torch")
    embedding = library("x_transformers.x_transformers").RotaryEmbedding
    theirs = embedding(64, base_rescale_factor=rescale)
    given = {"dim": 64, "arithmetic": "float32", "rope_type": "ntk_aware", "factor": rescale}
    ours = only(ROPE, **given, output="frequencies")
    assert ulps_apart(ours, theirs.inv_freq.numpy()).max() <= 2
    angles, _ = embedding(64, interpolation_factor=rescale)(torch.arange(4096))
    exact = only(ROPE, dim=64, length=4096, rope_type="linear", factor=rescale, output="angles", dtype="float64")
    np.testing.assert_allclose(angles[0, :, ::2].numpy(), exact, rtol=2e-6)


@pytest.mark.oracle
@pytest.mark.parametrize("length", [64, 65, 4097])
def test_xpos_of_x_transformers(length: int) -> None:
    torch = library("torch")
    angles, scale = library("x_transformers.x_transformers").RotaryEmbedding(64, use_xpos=True)(torch.arange(length))
    given: dict[str, Any] = {"dim": 64, "length": length, "xpos_scale_base": 512, "xpos_center": length // 2}
    for role, factor in (("query", scale), ("key", scale**-1.0)):
        exact = answer(ROPE, pairing="interleaved", dtype="float64", xpos_role=role, **given)
        single = answer(ROPE, pairing="interleaved", arithmetic="float32", xpos_role=role, **given)
        theirs = (angles.cos() * factor)[0].numpy()
        size = np.abs(factor[0].numpy())
        # Its frequencies may be two ulp away: at the far end that is seen. The steps are the same.
        assert (np.abs(theirs - exact["cos"]) <= 1e-3 * size).all()
        assert (np.abs(theirs - single["cos"]) <= 1e-6 * size).mean() > 0.99


@pytest.mark.oracle
@pytest.mark.parametrize("beside", [{}, {"truncate": False}, {"truncate": True}], ids=["within", "false", "true"])
@proves(ROPE, {"transformers-5.24": "full_attention"})
def test_truncate_in_a_block_of_each_type_of_layer(
    direct: Client, usage: Any, oracle: str, beside: dict[str, bool]
) -> None:
    """The library asks it beside the types of layer alone."""
    own = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 16.0, "original_max_position_embeddings": 4096}
    nested = {**beside, oracle: {**own, "truncate": False}, "sliding_attention": {"rope_type": "default",
                                                                                 "rope_theta": 1e4}}  # fmt: skip
    rule = library("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS["yarn"]
    config = SimpleNamespace(
        rope_parameters=nested,
        head_dim=64,
        hidden_size=64,
        num_attention_heads=1,
        max_position_embeddings=65536,
        standardize_rope_params=lambda: None,
    )
    config.per_layer_config = {oracle: config}
    theirs, _ = rule(config, None, layer_type=oracle)
    ours = posted_json(direct, "/v1/encodings/rope", {"rope_parameters": nested}, preset=usage.preset, dim=64,
                       layer_type=oracle, output="frequencies")["frequencies"]  # fmt: skip
    assert ulps_apart(ours.astype(np.float32), theirs.numpy()).max() <= 2


@pytest.mark.oracle
@pytest.mark.parametrize(("width", "base"), [(2, 1e4), (4, 1e3), (4, 1.2e7), (96, 1.5e5), (128, 1e6), (256, 1e6)])
def test_more_widths_and_bases(width: int, base: float) -> None:
    """Every case, live; but a single pair has no dynamic base, and no share of it turns."""
    scheme = by_key("encodings", "rope")
    for name, (block, largest, length) in CASES.items():
        if width == 2 and (block["rope_type"] == "dynamic" or name == "proportional_share"):
            continue
        rule = library("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS[block["rope_type"]]
        config = make_scaling.config_of(block, width, base, largest)
        theirs, attention = rule(config, None, seq_len=length)
        given = {**scheme.presets["transformers-5.24"], **parameters(name, width, base)}
        ours = only(ROPE, **given, output="frequencies")
        assert ulps_apart(ours, theirs.numpy()).max() <= 2, name
        found: Any = scheme.facts(scheme.params.model_validate(given), {})["attention_factor"]
        np.testing.assert_allclose(found, attention, rtol=1e-15)


@pytest.mark.oracle
@pytest.mark.parametrize(("width", "share"), [(96, 0.25), (192, 0.334), (128, 0.5), (128, 0.75), (80, 0.9), (80, 0.4)])
def test_every_type_on_a_share_of_the_head(width: int, share: float) -> None:
    """int(head width * share) channels turn, by exponents over so many; a list has an entry for each of their pairs."""
    scheme = by_key("encodings", "rope")
    turning = int(width * share)
    for name, (block, largest, length) in CASES.items():
        if block["rope_type"] == "proportional":
            continue
        rule = library("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS[block["rope_type"]]
        config = make_scaling.config_of(block, width, 5e5, largest)
        lists = make_scaling.lists(turning) if "lists" in block else {}
        config.rope_parameters = {**config.rope_parameters, **lists, "partial_rotary_factor": share}
        theirs, attention = rule(config, None, seq_len=length)
        pasted = {**make_scaling.block_of(block, turning, 5e5), "partial_rotary_factor": share}
        given = {**parameters_of_block(pasted), "max_position_embeddings": largest, "seq_len": length, "dim": width}
        ours = only(ROPE, **scheme.presets["transformers-5.24"], **given, output="frequencies")
        assert ours.shape == theirs.shape == (turning // 2,), name
        assert ulps_apart(ours, theirs.numpy()).max() <= 2, name
        found: Any = scheme.facts(scheme.params.model_validate(given), {})["attention_factor"]
        np.testing.assert_allclose(found, attention, rtol=1e-15)
