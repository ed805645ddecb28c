"""Every preset of the sinusoidal table against its library: transformers, diffusers, keras-hub, MLX and others."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.engine.scheme import Usage
from tests.api.problems import fault, refused
from tests.clients import Client
from tests.golden.frozen import Numbers, load
from tests.golden.make_elsewhere import PLACES, TIMESCALES
from tests.golden.make_sinusoids import (
    FAIRSEQ,
    LENGTH,
    LIBRARIES,
    ODD_TOO,
    PADDING,
    ROWS,
    TOKENS,
    introduction,
    introduction_frequencies,
)
from tests.oracles import oracle_sinusoidal
from tests.oracles.answers import Array, Query, asked, posted
from tests.oracles.exact import rounded_rows, ulps_apart
from tests.oracles.usages import proves

SINUSOIDAL = "/v1/encodings/sinusoidal"
EPS = 2.0**-24
FORMS: Mapping[str, dict[str, Query]] = {
    "float32": {"arithmetic": "float32"},
    "power": {"arithmetic": "float32", "frequency_form": "power"},
}


@pytest.fixture(scope="module")
def elsewhere() -> Numbers:
    """What `tests/golden/make_elsewhere.py` describes: its libraries are not among those of live tests."""
    return load("elsewhere")


def angles(client: Client, places: NDArray[np.float64], dim: int, given: Mapping[str, Query]) -> NDArray[np.float64]:
    """The angle behind each channel (positions, dim), for bounds."""
    named = {name: value for name, value in given.items() if name not in ("order", "offset", "length", "positions")}
    w = asked(client, SINUSOIDAL, dim=dim, output="frequencies", **{**named, "dtype": "float64"})["frequencies"]
    if given.get("layout", "interleaved") == "interleaved":
        row = np.repeat(w, 2)[:dim]
    else:
        row = np.zeros(dim)
        row[: dim // 2 * 2] = np.tile(w[: dim // 2], 2)
        if len(w) > dim // 2:
            row = np.concatenate([w, w[: dim // 2]])
    found: NDArray[np.float64] = np.abs(places)[:, None] * row
    return found


def check(client: Client, theirs: Array, places: NDArray[np.float64], arithmetic: str, **given: Query) -> None:
    """Exact values within the library's own error; its own steps within an ulp of a frequency and of the angle.

    `places` are the positions of the library's rows: out of `LENGTH` rows, or given as `positions`.
    """
    dim, rows = theirs.shape[1], ROWS if "length" in given else slice(None)
    exact = asked(client, SINUSOIDAL, dim=dim, **given)["encoding"][rows]
    assert exact.shape == theirs.shape
    if arithmetic == "float64":
        assert ulps_apart(exact, theirs).max() <= 1
        return
    # The exponent reaches ln(10000), and is rounded up to three times; then the exponential, the angle, the sine.
    scale = float(np.abs(theirs).max())
    at = angles(client, places, dim, given)
    assert (np.abs(exact.astype(np.float64) - theirs) <= scale * (at * (3 * np.log(10000) + 6) + 3) * EPS).all()
    if arithmetic not in FORMS:
        return
    steps = asked(client, SINUSOIDAL, dim=dim, **{**given, **FORMS[arithmetic]})["encoding"][rows]
    assert (np.abs(steps.astype(np.float64) - theirs) <= scale * (at * 6 + 3) * EPS).all()
    assert (np.abs(steps.astype(np.float64) - theirs) <= scale * 2 * EPS).mean() > 0.75


@proves(
    "encodings/sinusoidal",
    {
        "pytorch-module": "introduction",
        "informer2020": "introduction",
        "xlm": "xlm flaubert distilbert videomae",
        "diffusers": "diffusers",
        "florence2": "florence2",
        "speecht5": "speecht5",
        "marian": "marian pegasus roformer",
        "informer": "informer autoformer time_series",
        "ctrl": "ctrl",
        "timesfm": "timesfm",
        "fairseq": " ".join(FAIRSEQ),
        "whisper": "whisper",
        "qwen-omni": "qwen_omni qwen3_omni",
        "pegasus-x": "pegasus_x",
        "funasr": "fun_asr",
        "canary": "canary",
        "x-transformers": "x_transformers",
        "musicgen": "musicgen musicgen_melody",
        "transformer-xl": "transformer_xl",
        "gemma-audio": "gemma_audio gemma3n",
    },
)
def test_a_preset_is_its_librarys_table(direct: Client, sinusoids: Numbers, usage: Usage, oracle: str) -> None:
    first = int(usage.parameters.get("offset", 0))
    places = np.arange(first, first + LENGTH)[:: -1 if "order" in usage.parameters else 1][ROWS].astype(np.float64)
    for name in oracle.split():
        for dim in taken(usage, LIBRARIES[name].dims):
            theirs = sinusoids[f"{name}.{dim}"]
            exact: dict[str, Query] = {key: value for key, value in usage.parameters.items() if key != "arithmetic"}
            check(direct, theirs, places, LIBRARIES[name].arithmetic, length=LENGTH, **exact)


def taken(usage: Usage, dims: tuple[int, ...]) -> list[int]:
    """The widths that a preset takes: `introduction` is a module with a fix for odd ones that Informer2020 lacks."""
    return [dim for dim in dims if dim % 2 == 0 or usage.parameters.get("odd_width") != "refuse"]


# Libraries that assert an even width, fail at an odd one, or answer with another width than the one asked for.
EVEN_ONLY = (
    "whisper qwen-omni funasr canary x-transformers mlx",
    "informer2020 pegasus-x diffusers florence2 speecht5 patchtst transformer-xl",
    "timesfm pi0 xlnet gemma-audio",
)


@pytest.mark.parametrize("preset", " ".join(EVEN_ONLY).split())
@pytest.mark.parametrize("dim", [5, 33])
def test_a_width_that_the_library_has_no_table_of_is_refused(direct: Client, preset: str, dim: int) -> None:
    document = refused(direct.get(SINUSOIDAL, params={"preset": preset, "length": 3, "dim": dim}), "invalid-parameters")
    assert fault(document, "dim")["code"] == "odd"
    assert asked(direct, SINUSOIDAL, preset=preset, length=3, dim=dim + 1)["encoding"].shape == (3, dim + 1)


@pytest.mark.oracle
@pytest.mark.parametrize("name", [name for name, kind in LIBRARIES.items() if all(dim % 2 == 0 for dim in kind.dims)])
def test_the_library_has_no_table_of_an_odd_width(name: str) -> None:
    """Its own refusal or failure, or a table of another width; CTRL alone of these goes on with an odd one."""
    try:
        width = np.asarray(LIBRARIES[name].table(7)).shape[1]
    except (AssertionError, RuntimeError, ValueError):
        return
    assert (width == 7) == (name == "ctrl")


@proves("encodings/sinusoidal", {"xlnet": "xlnet"})
def test_xlnets_rows_pass_zero(direct: Client, sinusoids: Numbers, usage: Usage, oracle: str) -> None:
    places = np.arange(400.0, -200, -1)[ROWS]
    for dim in LIBRARIES[oracle].dims:
        theirs = sinusoids[f"{oracle}.{dim}"]
        check(direct, theirs, places, "power", length=LENGTH, offset=-199, **usage.parameters)


@proves("encodings/sinusoidal", {"vaswani": oracle_sinusoidal.encoding})
def test_the_papers_loops(direct: Client, usage: Usage, oracle: Callable[..., list[Any]]) -> None:
    for dim in (8, 34, 7):
        ours = asked(direct, SINUSOIDAL, length=50, dim=dim, **usage.parameters)["encoding"]
        rows = [oracle(position, dim) for position in range(50)]
        assert np.array_equal(ours, rounded_rows(rows, "float32"))


@proves(
    "encodings/sinusoidal",
    {"tensor2tensor": "tensor2tensor", "keras-hub": "keras_hub", "informer2020": "neuralforecast"},
)
def test_libraries_of_other_frameworks(direct: Client, elsewhere: Numbers, usage: Usage, oracle: str) -> None:
    for name, theirs in elsewhere.items():
        if name.rpartition(".")[0] == oracle:
            arithmetic = "power" if oracle == "keras_hub" else "float32"
            check(direct, theirs, np.array(ROWS, np.float64), arithmetic, length=LENGTH, **usage.parameters)


@pytest.mark.parametrize("dim", [2, 6, 34, 96])
def test_timescales_other_than_tensor2tensors_own(direct: Client, elsewhere: Numbers, dim: int) -> None:
    low, high, start = TIMESCALES
    named: dict[str, Query] = {"layout": "sin-cos", "min_timescale": low, "max_timescale": high, "offset": start}
    theirs = elsewhere[f"tensor2tensor.timescales.{dim}"]
    check(direct, theirs, np.array(ROWS, np.float64) + start, "float32", length=LENGTH, **named)


@proves("encodings/sinusoidal", {"mlx": "mlx"})
@pytest.mark.parametrize("dim", [2, 6, 34, 96])
def test_mlx(direct: Client, elsewhere: Numbers, usage: Usage, oracle: str, dim: int) -> None:
    options: dict[str, dict[str, Query]] = {
        "": {},
        "cos_first.": {"layout": "cos-sin"},
        "full_turns.": {"angle_factor": "two-pi"},
    }
    for name, option in options.items():
        named: dict[str, Query] = {**usage.parameters, **option, "positions": list(PLACES)}
        check(direct, elsewhere[f"{oracle}.{name}{dim}"], np.array(PLACES), "float32", **named)


@proves("encodings/sinusoidal", {"pi0": "pi0"})
def test_pi0(direct: Client, sinusoids: Numbers, usage: Usage, oracle: str) -> None:
    times = (np.arange(LENGTH, dtype=np.float32) / np.float32(LENGTH - 1))[ROWS].astype(np.float64)
    for dim in LIBRARIES[oracle].dims:
        named: dict[str, Query] = {**usage.parameters, "positions": times.tolist()}
        check(direct, sinusoids[f"{oracle}.{dim}"], times, "of its own", **named)


@pytest.mark.parametrize("dim", ODD_TOO)
def test_a_padded_batch_is_fairseqs(direct: Client, sinusoids: Numbers, dim: int) -> None:
    """The positions by fairseq's rule, counted here; the row of padding is zero."""
    positions = np.zeros((3, 5))
    for row, tokens in enumerate(TOKENS):
        count = 0
        for column, token in enumerate(tokens):
            count += token != PADDING
            positions[row, column] = PADDING + (count if token != PADDING else 0)
    assert positions[0].tolist() == [1, 1, 2, 3, 4]
    ours = posted(direct, SINUSOIDAL, {"positions": positions}, preset="fairseq", dim=dim, dtype="float32")["encoding"]
    theirs = sinusoids[f"padded.{dim}"]
    assert (ours[positions == PADDING] == 0).all()
    assert np.abs(ours - theirs).max() <= 8 * 31 * EPS


# The module of the introductions, as large as they make it.


def test_frequencies_of_the_introductions_module(direct: Client, sinusoids: Numbers) -> None:
    """Those of the exponential form, within an ulp; the power form is up to eight away."""
    named: dict[str, Query] = {"dim": 512, "output": "frequencies", "arithmetic": "float32"}
    ours = asked(direct, SINUSOIDAL, **named)["frequencies"]
    assert ulps_apart(ours, sinusoids["frequencies"]).max() <= 1
    powers = asked(direct, SINUSOIDAL, **named, frequency_form="power")["frequencies"]
    assert 4 <= ulps_apart(ours, powers).max() <= 8


@pytest.mark.oracle
@pytest.mark.parametrize(("batch_axis", "axis"), [("none", None), ("first", 0), ("second", 1)])
def test_the_whole_table_of_the_introductions(direct: Client, batch_axis: str, axis: int | None) -> None:
    """5000 x 512, in PyTorch: within an ulp wherever a frequency is the same bits, which nearly all are."""
    theirs = np.asarray(introduction(5000, 512))
    frequencies = np.asarray(introduction_frequencies(512))
    named: dict[str, Query] = {"preset": "pytorch-module", "dim": 512}
    ours = asked(direct, SINUSOIDAL, length=5000, batch_axis=batch_axis, **named)["encoding"]
    assert ours.shape == (5000, 512) if axis is None else ours.shape == np.expand_dims(theirs, axis).shape
    table = ours.reshape(5000, 512)
    same = np.repeat(asked(direct, SINUSOIDAL, output="frequencies", **named)["frequencies"] == frequencies, 2)
    assert same.mean() > 0.95
    assert np.abs(table[:, same].astype(np.float64) - theirs[:, same]).max() <= 1.2e-7
    at = np.arange(5000)[:, None] * np.repeat(frequencies.astype(np.float64), 2)
    assert (np.abs(table.astype(np.float64) - theirs) <= at * 3 * 2 * EPS + 2 * EPS).all()


@proves("encodings/sinusoidal", {"patchtst": "patchtst"})
def test_patchtst(direct: Client, sinusoids: Numbers, usage: Usage, oracle: str) -> None:
    for dim in LIBRARIES[oracle].dims:
        theirs = sinusoids[f"{oracle}.{dim}"]
        ours = asked(direct, SINUSOIDAL, length=LENGTH, dim=dim, **usage.parameters)["encoding"][ROWS]
        at = angles(direct, np.array(ROWS, np.float64), dim, {})
        # As above, over ten times a deviation of 0.6 at least; and their mean and deviation are float32's.
        assert (np.abs(ours.astype(np.float64) - theirs) <= (at * (3 * np.log(10000) + 6) + 30) * EPS / 6).all()
