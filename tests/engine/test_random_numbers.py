"""Random numbers by address: the published generator, the standard library's inverse, and no memory."""

from statistics import NormalDist

import mpmath
import numpy as np
import pytest

from service.engine.numbers.random_numbers import inverse_normal, logarithm, normal, philox, uniform


def words(*values: int) -> list[str]:
    first, second, third, fourth = (np.full((), value, np.uint64) for value in values[:4])
    found = philox((first, second, third, fourth), (values[4], values[5]))
    return [f"{int(word):08x}" for word in found]


def test_philox_gives_the_published_words() -> None:
    ones = 0xFFFFFFFF
    assert words(0, 0, 0, 0, 0, 0) == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    assert words(ones, ones, ones, ones, ones, ones) == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]
    digits_of_pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
    assert words(*digits_of_pi) == ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"]


def test_numbers_are_what_the_words_say() -> None:
    seed, row, column, stream = 2**40 + 5, 2**35 + 3, 4, 9
    low, high, _, _ = words(column, row & 0xFFFFFFFF, row >> 32, stream, seed & 0xFFFFFFFF, seed >> 32)
    expected = (2 * (int(high + low, 16) >> 12) + 1) / 2**53
    assert uniform(seed, range(row, row + 1), 5, stream=stream)[0, column] == expected


def test_a_number_does_not_depend_on_its_neighbours() -> None:
    whole = normal(11, range(40), 30)
    np.testing.assert_array_equal(normal(11, range(7, 19), 30), whole[7:19])
    np.testing.assert_array_equal(normal(11, range(40), 3), whole[:, :3])
    assert len({normal(seed, range(1), 1, stream=stream)[0, 0] for seed in (0, 1) for stream in (0, 1)}) == 4


def test_they_are_spread_as_they_should_be() -> None:
    flat, bell = uniform(3, range(300), 300), normal(3, range(300), 300)
    assert abs(flat.mean() - 0.5) < 0.004
    assert abs(flat.std() * 12**0.5 - 1) < 0.01
    assert abs(bell.mean()) < 0.013
    assert abs(bell.std() - 1) < 0.01
    assert abs(np.corrcoef(bell[:, :-1].ravel(), bell[:, 1:].ravel())[0, 1]) < 0.013
    assert abs(np.corrcoef(bell[:-1].ravel(), bell[1:].ravel())[0, 1]) < 0.013
    assert 0 < flat.min() < 1e-4
    assert 1 - 1e-4 < flat.max() < 1


def test_the_inverse_of_the_normal_distribution() -> None:
    chances = [2.0**-53, 1e-15, 1e-12, 1.4e-11, 1e-5, 0.0749, 0.075, 0.3, 0.5, 0.7, 0.925, 0.9251, 1 - 2.0**-53]
    chances += uniform(5, range(1), 2000)[0].tolist()
    expected = [NormalDist().inv_cdf(chance) for chance in chances]
    np.testing.assert_allclose(inverse_normal(np.array(chances)), expected, rtol=2e-15, atol=1e-16)
    mirrored = inverse_normal(1 - uniform(5, range(1), 50))
    np.testing.assert_allclose(mirrored, -inverse_normal(uniform(5, range(1), 50)), rtol=1e-13)


@pytest.mark.parametrize("number", [2.0**-53, 0.1, 0.5, 0.7071, 0.70711, 1.0, 1.5, 3e300])
def test_the_logarithm(number: float) -> None:
    got = float(logarithm(np.array([number]))[0])
    assert got == pytest.approx(float(mpmath.log(number)), rel=5e-16)
