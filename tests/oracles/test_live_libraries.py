"""What only the installed libraries can say: that the frozen files are theirs, and many more tables.

A missing library is a failure here, not a skip: these tests run where they were asked for (`-m oracle`).
"""

from collections.abc import Callable

import numpy as np
import pytest

from tests.clients import Client
from tests.golden import make_alibi, make_fourier, make_masks, make_rope, make_sinusoidal, make_timestep
from tests.golden.frozen import Numbers, library, load
from tests.golden.make_rope import POSITIONS, Table
from tests.oracles.answers import asked
from tests.oracles.exact import ulps_apart
from tests.oracles.two_stage import ROPE, check_float32_tables, check_library, parameters

pytestmark = pytest.mark.oracle

WIDTHS = (2, 4, 6, 34, 64, 80, 96, 128, 256)
BASES = (100.0, 1e3, 1e4, 1.5e5, 5e5, 1e6, 1.2e7)


@pytest.mark.parametrize(
    ("name", "live"),
    [
        ("rope", make_rope.build),
        ("sinusoidal", make_sinusoidal.build),
        ("alibi", make_alibi.build),
        ("timestep", make_timestep.build),
        ("fourier", make_fourier.build),
        ("masks", make_masks.build),
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
            # Another C library may round another way; an angle of 131071 may then move by an ulp of its own.
            assert array == pytest.approx(frozen[key], rel=1e-6, abs=0.02 if name == "rope" else 1e-4), key


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("width", WIDTHS)
def test_llama_tables_of_every_width_and_base(direct: Client, width: int, base: float) -> None:
    case = Table("llama", width, base)
    live = make_rope.tables(case, POSITIONS)
    ours = asked(direct, ROPE, **parameters(case), output="frequencies", arithmetic="float32")
    assert ulps_apart(ours["frequencies"], live["inv_freq"]).max() <= 2
    check_library(live)
    check_float32_tables(direct, case, live)


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
