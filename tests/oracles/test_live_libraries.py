"""What only the installed libraries can say: that the frozen files are theirs, and many more tables.

A missing library is a failure here, not a skip: these tests run where they were asked for (`-m oracle`).
"""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from tests.clients import Client
from tests.golden import (
    make_alibi,
    make_fourier,
    make_grids,
    make_learned,
    make_masks,
    make_relative,
    make_rope,
    make_scores,
    make_sinusoidal,
    make_sinusoids,
    make_timestep,
    make_usages,
)
from tests.golden.frozen import Numbers, library, load
from tests.golden.make_rope import POSITIONS, Table
from tests.oracles.answers import Query, asked, posted
from tests.oracles.exact import ulps_apart
from tests.oracles.two_stage import ROPE, check_float32_tables, check_library, parameters

pytestmark = pytest.mark.oracle

WIDTHS = (2, 4, 6, 34, 64, 80, 96, 128, 256)
BASES = (100.0, 1e3, 1e4, 1.5e5, 5e5, 1e6, 1.2e7)
# Whose timesteps, up to 999, are multiplied by 1000.
TIMES_1000 = ("aura_flow", "qwen_image")


@pytest.mark.parametrize(
    ("name", "live"),
    [
        ("rope", make_rope.build),
        ("sinusoidal", make_sinusoidal.build),
        ("sinusoids", make_sinusoids.build),
        ("alibi", make_alibi.build),
        ("relative", make_relative.build),
        ("timestep", make_timestep.build),
        ("fourier", make_fourier.build),
        ("masks", make_masks.build),
        ("usages", make_usages.build),
        ("grids", make_grids.build),
        ("learned", make_learned.build),
        ("scores", make_scores.build),
    ],
)
def test_the_frozen_numbers_are_the_librarys(name: str, live: Callable[[], Numbers]) -> None:
    frozen = load(name)
    numbers = live()
    assert frozen.keys() == {*numbers, "provenance"}
    for key, array in numbers.items():
        assert array.dtype == frozen[key].dtype, key
        if key.endswith("inv_freq"):
            assert ulps_apart(array, frozen[key]).max() <= 2, key
        else:
            # Another C library or processor may round another way; an angle of 131071, or of a million, may then move
            # by an ulp of its own.
            ulp = 0.02 if name == "rope" else 0.0625 if key.startswith(TIMES_1000) else 1e-4
            assert array == pytest.approx(frozen[key], rel=1e-6, abs=ulp), key


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("width", WIDTHS)
def test_llama_tables_of_every_width_and_base(direct: Client, width: int, base: float) -> None:
    case = Table("llama", width, base)
    live = make_rope.tables(case, POSITIONS)
    ours = asked(direct, ROPE, **parameters(case), output="frequencies", arithmetic="float32")
    assert ulps_apart(ours["frequencies"], live["inv_freq"]).max() <= 2
    check_library(live)
    check_float32_tables(direct, case, live)


FAR = (999_999.0, 2.0**24 - 1, 2.0**24, 2.0**24 + 1, 2.0**24 + 2, -1.0, -4097.0, 0.5, -2047.75)


@pytest.mark.parametrize("width", [34, 96, 128])
def test_llama_tables_far_out_below_zero_and_between(direct: Client, width: int) -> None:
    """Where the inverse frequencies are the same bits; 2^24 + 1 is 2^24 in float32."""
    module, torch = make_rope.rotary_module(Table("llama", width, 1e4)), library("torch")
    cos, sin = module(torch.zeros(1), torch.tensor(FAR, dtype=torch.float64)[None])
    given: dict[str, Query] = {"dim": width, "arithmetic": "float32"}
    same = asked(direct, ROPE, **given, output="frequencies")["frequencies"] == module.inv_freq.numpy()
    ours = asked(direct, ROPE, **given, columns="half", positions=list(FAR))
    for name, theirs in (("cos", cos), ("sin", sin)):
        assert ulps_apart(ours[name][:, same], theirs[0, :, : width // 2].numpy()[:, same]).max() <= 1
    assert same.mean() > 0.75
    assert (ours["cos"][2] == ours["cos"][3]).all()


def test_whispers_whole_table(direct: Client) -> None:
    theirs = np.asarray(library("transformers.models.whisper.modeling_whisper").sinusoids(1500, 384))
    ours = asked(direct, "/v1/encodings/sinusoidal", length=1500, dim=384, layout="sin-cos", frequency_shift=1)
    # Their float32 frequencies (four ulp at most) and angles, at positions below 1500.
    angle_error = np.arange(1500)[:, None] * 5 * 2.0**-23
    assert (np.abs(ours["encoding"].astype(np.float64) - theirs) <= angle_error + 2.0**-23).all()


@pytest.mark.parametrize("heads", range(1, 130, 3))
def test_bloom_slopes_of_every_head_count(direct: Client, heads: int) -> None:
    ours = asked(direct, "/v1/biases/alibi-slopes", heads=heads)["slopes"]
    theirs = make_alibi.bloom(heads, 2)[:, 0, 1]
    assert ours == pytest.approx(theirs, rel=(heads + 3) * 2.0**-24)


T5_BUCKETS = "/v1/biases/t5-buckets"


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
@pytest.mark.parametrize(
    ("num_buckets", "max_distance"),
    [(32, 128), (32, 64), (64, 256), (128, 256), (320, 800), (512, 2048), (40, 320), (20, 320), (8, 20), (16, 1000)],
)
def test_t5_buckets_of_every_distance(direct: Client, num_buckets: int, max_distance: int, direction: str) -> None:
    reach = 10 * max_distance
    chosen: dict[str, Query] = {"direction": direction, "num_buckets": num_buckets, "max_distance": max_distance}
    ours = asked(direct, T5_BUCKETS, queries=1, keys=2 * reach + 1, offset=reach, **chosen)["index"][0]
    np.testing.assert_array_equal(ours, make_relative.t5(direction, num_buckets, max_distance, reach))


def test_other_models_buckets_are_t5s(direct: Client) -> None:
    torch = library("torch")
    relative = torch.arange(-1280, 1281)
    placed = {"queries": 1, "keys": 2561, "offset": 1280}
    ours = asked(direct, T5_BUCKETS, **placed)["index"][0]
    mpnet = make_relative.modeling("mpnet").MPNetEncoder.relative_position_bucket
    np.testing.assert_array_equal(ours, np.asarray(mpnet(relative)))
    pop2piano = make_relative.modeling("pop2piano").Pop2PianoAttention._relative_position_bucket
    np.testing.assert_array_equal(ours, np.asarray(pop2piano(relative)))
    layout = make_relative.modeling("layoutlmv2").relative_position_bucket
    np.testing.assert_array_equal(ours, np.asarray(layout(relative)))
    boxes = np.random.default_rng(7).integers(0, 1000, (2, 60))
    rows = boxes[:, None, :] - boxes[:, :, None]
    at_boxes = posted(direct, T5_BUCKETS, {"positions": boxes}, num_buckets=64, max_distance=256)["index"]
    theirs = np.asarray(layout(torch.from_numpy(rows), num_buckets=64, max_distance=256))
    np.testing.assert_array_equal(at_boxes, theirs)
    wavlm = make_relative.modeling("wavlm").WavLMAttention._relative_positions_bucket
    theirs = np.asarray(wavlm(SimpleNamespace(num_buckets=320, max_distance=800), relative))
    ours = asked(direct, T5_BUCKETS, num_buckets=320, max_distance=800, **placed)["index"][0]
    np.testing.assert_array_equal(ours, theirs)
    causal = asked(direct, T5_BUCKETS, direction="causal", **placed)["index"][0]
    prophet = make_relative.modeling("prophetnet").compute_relative_buckets
    np.testing.assert_array_equal(causal, np.asarray(prophet(32, 128, relative)))


@pytest.mark.parametrize(
    ("position_buckets", "max_relative_positions"),
    [(256, 512), (256, 1024), (128, 512), (64, 300), (32, 128), (16, 1000), (8, 40), (4, 9)],
)
def test_deberta_buckets_of_every_distance(direct: Client, position_buckets: int, max_relative_positions: int) -> None:
    reach = 10 * max_relative_positions
    chosen = {"position_buckets": position_buckets, "max_relative_positions": max_relative_positions}
    ours = asked(direct, "/v1/biases/deberta-buckets", queries=1, keys=2 * reach + 1, offset=reach, **chosen)
    theirs = make_relative.deberta(position_buckets, max_relative_positions, reach)
    np.testing.assert_array_equal(ours["bucket"][0], theirs[::-1])  # query - key descends along a row


@pytest.mark.parametrize("window", [(1, 1), (1, 7), (7, 1), (8, 8), (12, 12), (14, 14), (9, 16)])
def test_window_indices(direct: Client, window: tuple[int, int]) -> None:
    asked_for = {"window": list(window)}
    ours = asked(direct, "/v1/biases/swin-index", **asked_for)["index"]
    np.testing.assert_array_equal(ours, make_relative.swin(window))
    with_class = asked(direct, "/v1/biases/swin-index", class_token="first", **asked_for)["index"]
    np.testing.assert_array_equal(with_class, make_relative.beit(window))
