"""Resizing written again with fractions, one number at a time: Keys' kernels as PyTorch, Pillow and JAX use them."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, floor

Line = Sequence[Fraction]
HALF = Fraction(1, 2)


def triangle(x: Fraction) -> Fraction:
    return max(Fraction(0), 1 - abs(x))


def keys(a: Fraction) -> Callable[[Fraction], Fraction]:
    """Keys' cubic convolution kernel."""

    def kernel(x: Fraction) -> Fraction:
        x = abs(x)
        if x < 1:
            return (a + 2) * x**3 - (a + 3) * x**2 + 1
        if x < 2:
            return a * (x**3 - 5 * x**2 + 8 * x - 4)
        return Fraction(0)

    return kernel


def source(new_row: int, old: int, new: int, sampling: str, tenth: bool) -> tuple[Fraction, Fraction]:
    """Where a new row lies among the old ones, and the step from one new row to the next."""
    if sampling == "align-corners":
        step = Fraction(old - 1, new - 1) if new > 1 else Fraction(0)
        return new_row * step, step
    step = old / (new + Fraction(1, 10)) if tenth else Fraction(old, new)
    return (new_row + HALF) * step - HALF, step


def weights(
    new_row: int,
    old: int,
    new: int,
    *,
    cubic: bool,
    sampling: str = "half-pixel",
    antialias: bool = False,
    a: Fraction | None = None,
    renormalise: bool = False,
    tenth: bool = False,
) -> list[Fraction]:
    """The weight of every old row."""
    a = a if a is not None else Fraction(-1, 2) if antialias else Fraction(-3, 4)
    kernel = keys(a) if cubic else triangle
    # Found in PyTorch: an axis whose size stays is copied, but by plain bicubic.
    tenth = tenth and (old != new or (cubic and not antialias))
    u, step = source(new_row, old, new, sampling, tenth)
    stretch = max(step, Fraction(1)) if antialias else Fraction(1)
    reach = 3 * stretch  # beyond every kernel
    found = [Fraction(0)] * old
    for j in range(floor(u - reach), ceil(u + reach) + 1):
        if 0 <= j < old or not (antialias or renormalise):
            found[min(max(j, 0), old - 1)] += kernel((j - u) / stretch)
    total = sum(found)
    return [weight / total for weight in found]


def line(numbers: Line, new: int, **convention: object) -> list[Fraction]:
    """One column of a sequence, resized."""
    rows = [weights(row, len(numbers), new, **convention) for row in range(new)]  # type: ignore[arg-type]  # forwarded
    return [sum((w * x for w, x in zip(row, numbers, strict=True)), Fraction(0)) for row in rows]


def grid(cells: Sequence[Line], height: int, width: int, **convention: object) -> list[list[Fraction]]:
    """One channel of a grid, resized along its columns and then along its rows."""
    wide = [line(row, width, **convention) for row in cells]
    tall = [line([row[column] for row in wide], height, **convention) for column in range(width)]
    return [[tall[column][row] for column in range(width)] for row in range(height)]
