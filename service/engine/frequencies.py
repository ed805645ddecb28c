"""The range of frequencies that are computed, and of numbers that a number format holds."""

from math import log2

from service.engine.errors import Refusal

# Radians per position. Real encodings lie far inside; outside, 80 digits would not do (`service.engine.numbers.sines`).
FASTEST_BITS = 63
SLOWEST_BITS = -400

# Memory of one prepared frequency: its digits, and its share of the rows that `Waves` keeps (22 KB measured).
WAVE_BYTES = 24576
REAL_BYTES = 256

LARGEST_FINITE = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


def wave_bytes(channels: int) -> int:
    """The memory of the prepared frequencies of so many channels: one for every sine.

    >>> wave_bytes(8) == wave_bytes(7) == 4 * WAVE_BYTES
    True
    """
    return WAVE_BYTES * ((channels + 1) // 2)


def fastest_frequency(base: float, steepest: float, parameter: str) -> float:
    """About the largest of base^-e, 0 <= e <= `steepest`; refuses what leaves 2^-400 ... 2^63 radians per position.

    >>> fastest_frequency(10_000.0, 63 / 64, "base")
    1.0
    >>> fastest_frequency(1e-30, 63 / 64, "base")
    Traceback (most recent call last):
    service.engine.errors.Refusal: base makes frequencies of about 2^98 radians per position; 2^-400 to 2^63 will do
    """
    bits = -steepest * log2(base)
    if not SLOWEST_BITS <= bits <= FASTEST_BITS:
        raise Refusal(
            parameter,
            "out_of_range",
            f"{parameter} makes frequencies of about 2^{bits:.0f} radians per position; "
            f"2^{SLOWEST_BITS} to 2^{FASTEST_BITS} will do",
        )
    return float(2.0 ** max(bits, 0.0))


def refuse_overflow(largest: float, dtype: str, what: str) -> None:
    """Refuse values that a number format cannot hold, rather than answer with infinities.

    >>> refuse_overflow(1e39, "float16", "the bias")
    Traceback (most recent call last):
    service.engine.errors.Refusal: the bias reaches about 1e+39; float16 holds 65504 at most: use float64
    """
    if largest <= LARGEST_FINITE[dtype]:
        return
    able = [name for name, limit in LARGEST_FINITE.items() if largest <= limit]
    raise Refusal(
        "dtype",
        "out_of_range",
        f"{what} reaches about {largest:.3g}; {dtype} holds {LARGEST_FINITE[dtype]:.6g} at most: use {', '.join(able)}",
        limit=LARGEST_FINITE[dtype],
    )
