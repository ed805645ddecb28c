"""Timestep embeddings against diffusers: every convention that the catalogue says is somebody's."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers, library
from tests.golden.make_timestep import CASES, TIMES, Case
from tests.oracles.answers import Array, Query, asked
from tests.oracles.usages import proves

TIMESTEP = "/v1/encodings/timestep"
ULP = 2.0**-23


def ours(client: Client, case: Case, arithmetic: str) -> Array:
    named: dict[str, Query] = {"layout": case.layout, "frequency_shift": case.frequency_shift, "scale": case.scale}
    named |= {"positions": TIMES, "dim": case.dim, "base": case.base, "arithmetic": arithmetic}
    return asked(client, TIMESTEP, **named)["embedding"]


def angles(case: Case) -> NDArray[np.float64]:
    """The angle behind each channel (times, dim)."""
    half = case.dim // 2
    w = case.base ** (-np.arange(half) / (half - case.frequency_shift))
    row = np.concatenate([w, w, np.zeros(case.dim % 2)])
    product: NDArray[np.float64] = case.scale * np.array(TIMES)[:, None] * row
    return product


@pytest.mark.parametrize("name", CASES)
def test_float32_steps_follow_the_library(direct: Client, timestep: Numbers, name: str) -> None:
    case, table = CASES[name], timestep[f"{name}.table"]
    # Their exponential may be an ulp off the correctly rounded one, and the angle rounds to its neighbour then.
    bound = 2.5 * ULP * angles(case) + ULP
    got = ours(direct, case, "float32")
    assert (np.abs(got.astype(np.float64) - table) <= bound).all()
    assert (got == table).mean() > 0.75


@pytest.mark.parametrize("name", CASES)
def test_exact_values_lie_within_the_librarys_float32_error(direct: Client, timestep: Numbers, name: str) -> None:
    case, table = CASES[name], timestep[f"{name}.table"]
    # The exponent reaches -ln(base) and is rounded three times, an eighth of an ulp of 8 each.
    bound = (3 * np.log(case.base) + 4) * ULP / 2 * angles(case) + ULP
    assert (np.abs(ours(direct, case, "exact").astype(np.float64) - table) <= bound).all()


@proves(
    "encodings/timestep",
    {
        "ddpm": "defaults",
        "stable-diffusion": "unet",
        "dit-labels": "combined_label_embeddings",
        "aura-flow": "qwen_image",
        "ernie-image": "ernie_image",
        "qwen2-5-omni": "qwen2_5_omni",
    },
)
def test_each_usage_is_its_librarys(direct: Client, timestep: Numbers, usage: Usage, oracle: str) -> None:
    table = timestep[f"{oracle}.table"]
    named: dict[str, Query] = {**usage.parameters, "positions": TIMES, "dim": table.shape[1]}
    exact = asked(direct, TIMESTEP, **named)["embedding"]
    in_steps = asked(direct, TIMESTEP, **named, arithmetic="float32")["embedding"]
    scale, shift = float(usage.parameters.get("scale", 1)), float(usage.parameters.get("frequency_shift", 1))
    bound = angles(Case(table.shape[1], frequency_shift=shift, scale=scale))
    # As above: three roundings of the exponent. Qwen's own code has its steps in another order.
    steps = 16 if oracle == "qwen2_5_omni" else 2.5
    assert (np.abs(in_steps.astype(np.float64) - table) <= steps * ULP * bound + ULP).all()
    assert (np.abs(exact.astype(np.float64) - table) <= 16 * ULP * bound + ULP).all()


@proves("encodings/timestep", {"pi0": "pi0"})
def test_pi0s_periods(direct: Client, timestep: Numbers, usage: Usage, oracle: str) -> None:
    table = timestep[f"{oracle}.table"]
    ours = asked(direct, TIMESTEP, positions=TIMES, dim=table.shape[1], **usage.parameters)["embedding"]
    half = table.shape[1] // 2
    w = 2 * np.pi / (0.004 * 1000 ** (np.arange(half) / (half - 1)))
    # Their float32 powers and quotients are off by four ulp, and the angle is rounded.
    bound = 5 * ULP * np.array(TIMES)[:, None] * np.concatenate([w, w]) + ULP
    assert (np.abs(ours.astype(np.float64) - table) <= bound).all()


@pytest.mark.oracle
@proves(
    "encodings/timestep",
    {
        "stable-diffusion": [
            ("vibevoice", "VibeVoiceDiffusionHeadSinusoidalEmbedding", "compute_default_freq"),
            ("pocket_tts", "PocketTTSTimestepEmbedding", "compute_default_freqs"),
            ("gradium_phonon_tts", "GradiumPhononTTSTimestepEmbedding", "compute_default_freqs"),
        ]
    },
)
def test_frequencies_of_models_that_have_their_own_code(
    direct: Client, usage: Usage, oracle: list[tuple[str, str, str]]
) -> None:
    """Their modules go on to layers of their own, with [cos | sin] of time times frequency."""
    torch = library("torch")
    named: dict[str, Query] = {**usage.parameters, "positions": TIMES, "dim": 256}
    got = asked(direct, TIMESTEP, **named, arithmetic="float32")["embedding"]
    config = SimpleNamespace(frequency_embedding_size=256, max_period=10000, diffusion_max_period=10000)
    for model, name, frequencies in oracle:
        module = library(f"transformers.models.{model}.modeling_{model}")
        angle = torch.tensor(TIMES)[:, None] * getattr(getattr(module, name), frequencies)(config)
        theirs = np.asarray(torch.cat([angle.cos(), angle.sin()], -1))
        bound = 2.5 * ULP * angles(Case(256, frequency_shift=0)) + ULP
        assert (np.abs(got.astype(np.float64) - theirs) <= bound).all()
