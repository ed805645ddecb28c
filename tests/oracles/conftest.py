"""The libraries' numbers as fixtures: frozen in an ordinary run, computed anew in one marked `oracle`."""

import pytest

from tests.golden import (
    make_alibi,
    make_fourier,
    make_grids,
    make_learned,
    make_masks,
    make_relative,
    make_rope,
    make_scaling,
    make_scores,
    make_sinusoidal,
    make_sinusoids,
    make_timestep,
    make_usages,
)
from tests.golden.frozen import Numbers, load

SOURCES = ["frozen", pytest.param("live", marks=pytest.mark.oracle)]


@pytest.fixture(scope="session", params=SOURCES)
def rope(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_rope.py` describes."""
    return load("rope") if request.param == "frozen" else make_rope.build()


@pytest.fixture(scope="session", params=SOURCES)
def sinusoidal(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_sinusoidal.py` describes."""
    return load("sinusoidal") if request.param == "frozen" else make_sinusoidal.build()


@pytest.fixture(scope="session", params=SOURCES)
def sinusoids(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_sinusoids.py` describes."""
    return load("sinusoids") if request.param == "frozen" else make_sinusoids.build()


@pytest.fixture(scope="session", params=SOURCES)
def alibi(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_alibi.py` describes."""
    return load("alibi") if request.param == "frozen" else make_alibi.build()


@pytest.fixture(scope="session", params=SOURCES)
def relative(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_relative.py` describes."""
    return load("relative") if request.param == "frozen" else make_relative.build()


@pytest.fixture(scope="session", params=SOURCES)
def timestep(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_timestep.py` describes."""
    return load("timestep") if request.param == "frozen" else make_timestep.build()


@pytest.fixture(scope="session", params=SOURCES)
def fourier(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_fourier.py` describes."""
    return load("fourier") if request.param == "frozen" else make_fourier.build()


@pytest.fixture(scope="session", params=SOURCES)
def usages(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_usages.py` describes."""
    return load("usages") if request.param == "frozen" else make_usages.build()


@pytest.fixture(scope="session", params=SOURCES)
def masks(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_masks.py` describes."""
    return load("masks") if request.param == "frozen" else make_masks.build()


@pytest.fixture(scope="session", params=SOURCES)
def scaling(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_scaling.py` describes."""
    return load("scaling") if request.param == "frozen" else make_scaling.build()


@pytest.fixture(scope="session", params=SOURCES)
def grids(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_grids.py` describes."""
    return load("grids") if request.param == "frozen" else make_grids.build()


@pytest.fixture(scope="session", params=SOURCES)
def learned(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_learned.py` describes."""
    return load("learned") if request.param == "frozen" else make_learned.build()


@pytest.fixture(scope="session", params=SOURCES)
def scores(request: pytest.FixtureRequest) -> Numbers:
    """What `tests/golden/make_scores.py` describes."""
    return load("scores") if request.param == "frozen" else make_scores.build()
