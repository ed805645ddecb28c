"""Sinusoidal encodings in the paper's own loops (Vaswani et al. 2017, section 3.5), to a hundred digits.

    PE(p, 2k)   = sin(p / base^(2k/d))
    PE(p, 2k+1) = cos(p / base^(2k/d))

Nothing here knows the service; nothing is vectorised.
"""

from functools import cache

import mpmath
from mpmath import mpf

from tests.oracles.exact import PRECISION_BITS, Real, real


@cache
def frequency(pair: int, dim: int, base: Real = 10000, frequency_shift: Real = 0) -> mpf:
    """base^(-pair / (d/2 - shift)): shift 0 is the paper, shift 1 is tensor2tensor, fairseq and Whisper."""
    with mpmath.workprec(PRECISION_BITS):
        return real(base) ** (-mpf(pair) / (mpf(dim) / 2 - real(frequency_shift)))


def encoding(
    position: Real,
    dim: int,
    base: Real = 10000,
    layout: str = "interleaved",
    *,
    odd_width: str = "extra-sine",
    frequency_shift: Real = 0,
) -> list[mpf]:
    """One row of the table.

    An odd width is the even table with one channel more: `extra-sine` gives the paper's formula as it
    stands (the last channel is a sine, exponents over d), `zero-column` an encoding of width d - 1 and a
    zero, `truncate` one of width d + 1 without its last channel.

    >>> [mpmath.nstr(value, 9) for value in encoding(1, 5)]
    ['0.841470985', '0.540302306', '0.0251162229', '0.999684538', '0.000630957303']
    """
    if dim % 2 == 1 and odd_width == "zero-column":
        return [*encoding(position, dim - 1, base, layout, frequency_shift=frequency_shift), mpf(0)]
    if dim % 2 == 1 and odd_width == "truncate":
        return encoding(position, dim + 1, base, layout, frequency_shift=frequency_shift)[:dim]
    sines = []
    cosines = []
    with mpmath.workprec(PRECISION_BITS):
        for channel in range(dim):
            angle = real(position) * frequency(channel // 2, dim, base, frequency_shift)
            if channel % 2 == 0:
                sines.append(mpmath.sin(angle))
            else:
                cosines.append(mpmath.cos(angle))
    return arranged(sines, cosines, layout)


def arranged(sines: list[mpf], cosines: list[mpf], layout: str) -> list[mpf]:
    """The same values in one of three channel orders."""
    if layout == "sin-cos":
        return sines + cosines
    if layout == "cos-sin":
        return cosines + sines
    channels = []
    for pair, sine in enumerate(sines):
        channels.append(sine)
        channels.extend(cosines[pair : pair + 1])
    return channels
