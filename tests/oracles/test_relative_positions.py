"""Relative indices, coordinates and sinusoids, against models of transformers, timm and x-transformers."""

import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_relative import AXES, COORDINATES, DEBERTA, DIM, GEMMA, LENGTH, REACH, T5, WINDOWS, XLNET
from tests.oracles.answers import Query, asked, asked_in_json, from_json, posted
from tests.oracles.oracle_relative import log_coordinate, window_index
from tests.oracles.usages import proves

SINUSOIDS = "/v1/biases/transformer-xl"


@pytest.mark.parametrize(("direction", "num_buckets", "max_distance"), T5)
def test_t5_buckets(direct: Client, relative: Numbers, direction: str, num_buckets: int, max_distance: int) -> None:
    theirs = relative[f"t5.{direction}.{num_buckets}.{max_distance}"]
    chosen: dict[str, Query] = {"direction": direction, "num_buckets": num_buckets, "max_distance": max_distance}
    one_row = {"queries": 1, "keys": len(theirs), "offset": len(theirs) // 2}
    ours = asked(direct, "/v1/biases/t5-buckets", **one_row, **chosen)["index"]
    assert ours.dtype == np.int64
    np.testing.assert_array_equal(ours[0], theirs)
    square = asked(direct, "/v1/biases/t5-buckets", length=70, **chosen)["index"]
    i = np.arange(70)
    np.testing.assert_array_equal(square, theirs[i - i[:, None] + len(theirs) // 2])


@pytest.mark.parametrize(("position_buckets", "max_relative_positions"), DEBERTA)
def test_deberta_buckets(direct: Client, relative: Numbers, position_buckets: int, max_relative_positions: int) -> None:
    theirs = relative[f"deberta.{position_buckets}.{max_relative_positions}"]
    chosen = {"position_buckets": position_buckets, "max_relative_positions": max_relative_positions}
    ours = asked(direct, "/v1/biases/deberta-buckets", queries=9, keys=31, offset=0, **chosen)["bucket"]
    i, j = np.arange(9)[:, None], np.arange(31)
    np.testing.assert_array_equal(ours, theirs[i - j + len(theirs) // 2])
    row = asked(direct, "/v1/biases/deberta-buckets", queries=1, keys=len(theirs), offset=len(theirs) // 2, **chosen)
    np.testing.assert_array_equal(row["bucket"][0], theirs[::-1])


@pytest.mark.parametrize("window", WINDOWS)
def test_window_indices(direct: Client, relative: Numbers, window: tuple[int, int]) -> None:
    for name, class_token in (("swin", "none"), ("beit", "first")):
        ours = asked(direct, "/v1/biases/swin-index", window=window, class_token=class_token)["index"]
        np.testing.assert_array_equal(ours, relative[f"{name}.{window[0]}.{window[1]}"])


@pytest.mark.parametrize("number", range(len(COORDINATES)))
def test_swin_v2_coordinates(direct: Client, relative: Numbers, number: int) -> None:
    window, pretrained = COORDINATES[number]
    trained = {"pretrained_window": pretrained} if any(pretrained) else {}
    ours = asked(direct, "/v1/biases/swin-v2-coordinates", window=window, **trained)["coordinates"]
    theirs = relative[f"swin_v2.{number}"]
    assert ours.shape == theirs.shape
    # They round the quotient, its multiple, the sum and the logarithm to float32, one after the other.
    assert np.abs(ours - theirs).max() <= 2e-7 * max(1.0, float(np.abs(theirs).max()))


def test_conformer_and_the_order_of_its_rows(direct: Client, relative: Numbers) -> None:
    ours = asked(direct, SINUSOIDS, length=LENGTH, dim=DIM)["encoding"]
    theirs = relative["conformer"]
    assert ours.shape == theirs.shape == (2 * LENGTH - 1, DIM)
    # Their float32 frequencies are off by four ulp at most, at distances below 9.
    assert np.abs(ours - theirs).max() <= LENGTH * 5 * 2.0**-24 + 2.0**-23
    as_theirs = asked(direct, SINUSOIDS, length=LENGTH, dim=DIM, arithmetic="float32")["encoding"]
    # Two ulp of a frequency at most, of an angle below 9, and the rounding of the sine.
    assert np.abs(as_theirs - theirs).max() <= LENGTH * 2 * 2.0**-24 + 2.0**-24


@pytest.mark.parametrize("number", range(len(XLNET)))
def test_xlnet(direct: Client, relative: Numbers, number: int) -> None:
    attn_type, queries, keys, clamp_len = XLNET[number]
    clamped = {"clamp_len": clamp_len} if clamp_len > 0 else {}
    chosen: dict[str, Query] = {"span": f"xlnet-{attn_type}", "layout": "sin-cos", **clamped}
    ours = asked(direct, SINUSOIDS, queries=queries, keys=keys, dim=DIM, **chosen)["encoding"]
    theirs = relative[f"xlnet.{number}"]
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= keys * 5 * 2.0**-24 + 2.0**-23


def test_speecht5(direct: Client, relative: Numbers) -> None:
    ours = asked(direct, "/v1/biases/shaw", length=LENGTH, sign="query-key", left=4, right=3)["index"]
    np.testing.assert_array_equal(ours, relative["speecht5"])


def test_indices_in_json_are_whole_numbers(direct: Client) -> None:
    shown = asked_in_json(direct, "/v1/biases/t5-buckets", queries=2, keys=3, offset=0)
    assert shown["tensors"]["index"]["dtype"] == "int64"
    assert shown["tensors"]["index"]["axes"] == ["query", "key"]
    assert shown["tensors"]["index"]["data"] == [[0, 17, 18], [1, 0, 17]]
    assert from_json(shown["tensors"]["index"]).tolist() == [[0, 17, 18], [1, 0, 17]]
    assert shown["facts"]["table_bytes_per_head"] == 128


@proves(
    "biases/t5-buckets",
    {
        "t5": ("t5", "umt5", "mpnet", "layoutlm", "udop"),
        "t5-decoder": ("t5.causal", "prophetnet", "x_transformers"),
        "layoutlm-boxes": ("layoutlm.boxes",),
        "wavlm": ("wavlm",),
        "cpmant": ("cpmant",),
    },
)
def test_buckets_of_a_usage(direct: Client, relative: Numbers, usage: Usage, oracle: tuple[str, ...]) -> None:
    place = {"queries": 1, "keys": 2 * REACH + 1, "offset": REACH}
    ours = asked(direct, "/v1/biases/t5-buckets", **place, **usage.parameters)["index"][0]
    for name in oracle:
        np.testing.assert_array_equal(ours, relative[f"buckets.{name}"])


def test_prophetnets_predicting_stream_is_two_requests(direct: Client, relative: Numbers) -> None:
    """Its keys are those of the positions before, then the positions themselves."""
    causal: dict[str, Query] = {"queries": 5, "keys": 5, "direction": "causal"}
    before = asked(direct, "/v1/biases/t5-buckets", offset=1, **causal)["index"]
    own = asked(direct, "/v1/biases/t5-buckets", offset=0, **causal)["index"]
    positions = np.arange(1, 6)
    keys = np.concatenate([positions - 1, positions])
    theirs = relative["buckets.prophetnet"][keys - positions[:, None] + REACH]
    np.testing.assert_array_equal(np.concatenate([before, own], axis=1), theirs)


def every(length: int, step: int) -> list[list[int]]:
    """The definition of Shaw et al., K = 16, for some queries."""
    return [[max(-16, min(16, j - i)) + 16 for j in range(length)] for i in range(0, length, step)]


@proves(
    "biases/shaw",
    {
        "tensor2tensor": (50, 7),
        "vits": (13, 1),
        "wav2vec2-bert": (90, 1),
        "speecht5": (400, 40),
        "deberta-v1": (600, 60),
    },
)
def test_rows_of_a_usage(direct: Client, relative: Numbers, usage: Usage, oracle: tuple[int, int]) -> None:
    length, step = oracle
    ours = asked(direct, "/v1/biases/shaw", length=length, **usage.parameters)["index"][::step]
    name = usage.preset.replace("-", "_")
    expected = every(length, step) if name == "tensor2tensor" else relative[f"rows.{name}"]
    np.testing.assert_array_equal(ours, expected)


@proves("biases/swin-index", {"swin": "index.timm", "beit": "index.timm.class_token", "levit": "index.levit"})
def test_windows_of_a_usage(direct: Client, relative: Numbers, usage: Usage, oracle: str) -> None:
    theirs = relative[oracle]
    ours = asked(direct, "/v1/biases/swin-index", **usage.parameters)["index"]
    np.testing.assert_array_equal(ours[: len(theirs)], theirs)
    if oracle == "index.timm":
        np.testing.assert_array_equal(ours, relative["swin.7.7"])


def test_levits_subsampling_takes_every_second_patch(direct: Client, relative: Numbers) -> None:
    """Its numbers, given in the order of first use, are those of the whole window: rows of its matrix."""
    whole = asked(direct, "/v1/biases/swin-index", window=[14, 14], distances="absolute")["index"]
    coarse = whole.reshape(14, 14, -1)[::2, ::2].reshape(49, -1)
    np.testing.assert_array_equal(coarse[::3], relative["index.levit.subsampled"])


@proves("biases/swin-index", {"video-swin": (8, 7, 7)})
def test_a_window_of_frames_by_loops(direct: Client, usage: Usage, oracle: tuple[int, ...]) -> None:
    ours = asked(direct, "/v1/biases/swin-index", **usage.parameters)["index"]
    np.testing.assert_array_equal(ours, window_index(oracle, class_token=False))


@proves(
    "biases/swin-v2-coordinates",
    {"swin-v2-window8": (8, 8, "swin"), "swin-v2-window16-from-8": (16, 8, "swin"), "timm-swin-v2-cr": (7, 7, "cr")},
)
def test_coordinates_of_a_usage(direct: Client, relative: Numbers, usage: Usage, oracle: tuple[int, int, str]) -> None:
    side, trained, mode = oracle
    ours = asked(direct, "/v1/biases/swin-v2-coordinates", dtype="float64", **usage.parameters)["coordinates"]
    line = np.array([float(log_coordinate(r, trained, mode)) for r in range(1 - side, side)])
    np.testing.assert_allclose(ours[..., 0], np.broadcast_to(line[:, None], ours.shape[:2]), rtol=0, atol=1e-15)
    np.testing.assert_allclose(ours[..., 1], np.broadcast_to(line, ours.shape[:2]), rtol=0, atol=1e-15)
    if mode == "cr":
        assert np.abs(ours - relative["cr"]).max() <= 2e-7 * float(np.abs(ours).max())


@proves("biases/decomposed-index", {"sam": ("sam", "vitdet")})
@pytest.mark.parametrize(("queries", "keys"), AXES)
def test_axes_of_a_usage(
    direct: Client, relative: Numbers, usage: Usage, oracle: tuple[str, ...], queries: int, keys: int
) -> None:
    sizes = {"queries": queries, "keys": keys}
    ours = asked(direct, "/v1/biases/decomposed-index", **sizes, **usage.parameters)["index"]
    for model in oracle:
        np.testing.assert_array_equal(ours, relative[f"axis.{model}.{queries}.{keys}"])
    exact = asked(direct, "/v1/biases/decomposed-index", **sizes)["index"]
    assert set((exact - ours).ravel().tolist()) <= {0, 1}  # their float32 may fall just below a whole number
    assert (exact != ours).any() == ((queries, keys) in ((8, 6), (16, 7), (14, 13), (14, 62)))


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (8, 6), (3, 9)])
def test_sams_tables_of_another_length(direct: Client, relative: Numbers, queries: int, keys: int) -> None:
    """get_rel_pos is a table resized along its one axis, and rows gathered from it."""
    sizes = {"queries": queries, "keys": keys}
    index = asked(direct, "/v1/biases/decomposed-index", arithmetic="float32", **sizes)["index"]
    resized = posted(
        direct, "/v1/learned/resample", {"x": relative["sam.table"]}, length=2 * max(queries, keys) - 1, method="linear"
    )["x"]
    np.testing.assert_allclose(resized[index], relative[f"sam.resized.{queries}.{keys}"], rtol=0, atol=2e-6)


def test_beits_biases_of_another_window(direct: Client, relative: Numbers) -> None:
    """Its table of (2 H - 1, 2 W - 1) rows resized, the class token's three rows kept behind it, then gathered."""
    table = relative["beit.table"]
    x = {"x": table[:-3]}
    resized = posted(direct, "/v1/learned/resample", x, grid=[11, 11], old_grid=[7, 7], method="bilinear")["x"]
    index = asked(direct, "/v1/biases/swin-index", window=[6, 6], class_token="first")["index"]
    ours = np.concatenate([resized, table[-3:]])[index].transpose(2, 0, 1)
    np.testing.assert_allclose(ours, relative["beit.resized"], rtol=0, atol=2e-6)


SHORT: dict[str, Query] = {"queries": 4, "keys": 7}


@proves(
    "biases/transformer-xl",
    {
        "conformer": (
            {"length": LENGTH},
            ("conformer", "sinusoids.parakeet", "sinusoids.fastspeech2", "sinusoids.seamless"),
        ),
        "xlnet": (SHORT, ("xlnet.0",)),
        "xlnet-uni": (SHORT, ("xlnet.1",)),
        "xlnet-backward": (SHORT, ("sinusoids.xlnet.backward",)),
        "gemma3n-audio": ({"queries": GEMMA[0], "keys": GEMMA[1]}, ("sinusoids.gemma3n",)),
    },
)
def test_sinusoids_of_a_usage(
    direct: Client, relative: Numbers, usage: Usage, oracle: tuple[dict[str, Query], tuple[str, ...]]
) -> None:
    sizes, names = oracle
    ours = asked(direct, SINUSOIDS, dim=DIM, **sizes, **usage.parameters)["encoding"]
    for name in names:
        assert ours.shape == relative[name].shape
        # Their float32 frequencies are off by four ulp at most, at distances below 9.
        assert np.abs(ours - relative[name]).max() <= LENGTH * 5 * 2.0**-24 + 2.0**-23


@proves("biases/transformer-xl", {"espnet-legacy": 3})
def test_legacy_rows_are_the_first_half(direct: Client, usage: Usage, oracle: int) -> None:
    """ESPnet's older rows, of positions length - 1 ... 0, by the formula."""
    ours = asked(direct, SINUSOIDS, length=oracle, dim=4, dtype="float64", **usage.parameters)["encoding"]
    expected = [[np.sin(p), np.cos(p), np.sin(p / 100), np.cos(p / 100)] for p in range(oracle - 1, -1, -1)]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-15)


@proves(
    "biases/deberta-buckets",
    {
        "DeBERTa v2 and v3, SEW-D (make_log_bucket_position)": "bucket",
        "DeBERTa v2 and v3, SEW-D (the rows that c2p gathers)": "index",
    },
)
def test_debertas_of_a_usage(direct: Client, relative: Numbers, usage: Usage, oracle: str) -> None:
    place = {"queries": 1, "keys": 2049, "offset": 1024}
    ours = asked(direct, "/v1/biases/deberta-buckets", **place, **usage.parameters)[oracle][0]
    theirs = relative["deberta.256.512"][::-1]
    np.testing.assert_array_equal(ours, theirs if oracle == "bucket" else np.clip(theirs + 256, 0, 511))
