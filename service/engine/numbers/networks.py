"""A network of one number in, one hidden layer with ReLU and a number out for each head: a bent line.

Between the places where a hidden unit starts or stops, the answer is slope * x + intercept. Slopes, intercepts and
places are rational numbers made of the weights, so they are computed exactly and rounded to pairs once; an answer is
then one product and one sum, however many hidden units there are.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from service.engine.attention.weights import seed_of, trained
from service.engine.errors import Refusal
from service.engine.numbers.pairs import Floats, Pair, add, multiply
from service.engine.numbers.random_numbers import uniform
from service.engine.rounding import decide, nearest_of_sum
from service.engine.scheme import Array, Input, Inputs

MOST_WEIGHTS = 16_384
NEARLY = 2.0**-50  # slope, x and intercept are off by 2^-53 each, and so are their product and sum

NETWORK = {
    "weight_in": ("hidden",),
    "bias_in": ("hidden",),
    "weight_out": ("head", "hidden"),
    "bias_out": ("head",),
}
WEIGHTS = (
    Input("weight_in", "Trained weights W of the hidden units: (hidden).", required=False),
    Input("bias_in", "Their biases b: (hidden).", required=False),
    Input(
        "weight_out", "Trained weights V of the last layer: (heads, hidden), as PyTorch stores them.", required=False
    ),
    Input("bias_out", "Its biases d: (heads).", required=False),
)
HIDDEN = """\
The weights come from the body, or `seed` draws them as PyTorch initialises its linear layers: uniformly within
1 / sqrt(numbers in). They are `(2 u - 1) / sqrt(numbers in)` of the uniform numbers u of Philox4x32-10 with the seed
as key and the counter (column, row, 0, 0): W is row 0, b row 1, V the rows from 2 on, and d the last row."""


@dataclass(frozen=True, slots=True)
class Network:
    """Weights and biases of both layers."""

    weight_in: Floats
    bias_in: Floats
    weight_out: Floats
    bias_out: Floats

    @property
    def heads(self) -> int:
        return len(self.bias_out)

    @property
    def hidden(self) -> int:
        return len(self.bias_in)

    @property
    def largest(self) -> float:
        """The size of the largest weight."""
        return max(float(np.abs(array).max()) for array in self.named().values())

    def bound(self, most: float) -> float:
        """What no answer for 0 <= x <= most exceeds in size."""
        reach = np.abs(self.weight_in) * most + np.abs(self.bias_in)
        return float((np.abs(self.weight_out) * reach).sum(axis=1).max() + np.abs(self.bias_out).max())

    def named(self) -> dict[str, Floats]:
        """The arrays by name."""
        return {name: getattr(self, name) for name in NETWORK}


def network(seed: int | None, heads: int | None, hidden: int, inputs: Inputs) -> Network:
    """The caller's network, or the one that a seed draws; refuses halves of one, and one too large."""
    drawn = seed_of(seed, inputs, tuple(NETWORK))
    if drawn is None:
        return _trained(heads, inputs)
    if heads is None:
        raise Refusal("heads", "missing", "heads is missing: say for how many heads seed draws a network, as heads=8")
    _refuse_many(heads, hidden, "heads")
    rows = 2.0 * uniform(drawn, range(heads + 2), hidden) - 1.0
    (bias_out,) = 2.0 * uniform(drawn, range(heads + 2, heads + 3), heads) - 1.0
    last = 1.0 / np.sqrt(float(hidden))
    return Network(rows[0], rows[1], rows[2:] * last, bias_out * last)


def _trained(heads: int | None, inputs: Inputs) -> Network:
    for name in NETWORK:
        if name not in inputs:
            raise Refusal(f"/tensors/{name}", "missing", f"{name} is missing; {', '.join(NETWORK)} come together")
    shape = inputs["weight_out"].shape
    last = trained(inputs, "weight_out", NETWORK["weight_out"], (heads, None))
    _refuse_many(len(last), last.shape[1], "/tensors/weight_out")
    units, out = ((shape[1],), (shape[0],))
    return Network(
        trained(inputs, "weight_in", NETWORK["weight_in"], units),
        trained(inputs, "bias_in", NETWORK["bias_in"], units),
        last,
        trained(inputs, "bias_out", NETWORK["bias_out"], out),
    )


def _refuse_many(heads: int, hidden: int, named: str) -> None:
    if heads * hidden > MOST_WEIGHTS:
        raise Refusal(
            named,
            "too_large",
            f"{heads} heads of {hidden} hidden units make {heads * hidden} weights; {MOST_WEIGHTS} are the most",
            limit=MOST_WEIGHTS,
            requested=heads * hidden,
        )


@dataclass(frozen=True, slots=True)
class Bent:
    """The lines between the places where they bend, for x >= 0: slopes and intercepts (places + 1, heads)."""

    places: Floats
    slopes: Pair
    intercepts: Pair

    @property
    def heads(self) -> int:
        return int(self.slopes.high.shape[1])

    def of(self, x: Pair, head: int) -> Pair:
        """The answer of a head."""
        line = np.searchsorted(self.places, x.high, side="right")
        return add(multiply(x, self.slopes.at((line, head))), self.intercepts.at((line, head)))

    def write(self, x: Pair, heads: slice, out: Array) -> None:
        """The answers of some heads (heads, …), rounded once: in float64, and in pairs where that leaves it open."""
        line = np.searchsorted(self.places, x.high, side="right")
        for head, plane in zip(range(heads.start, heads.stop), out, strict=True):
            slope, intercept = self.slopes.high[:, head][line], self.intercepts.high[:, head][line]
            rising = slope * x.high
            error = NEARLY * (np.abs(rising) + np.abs(intercept))
            plane[...], undecided = decide(rising + intercept, np.zeros_like(rising), error, out.dtype)
            if undecided.any():
                plane[undecided] = nearest_of_sum(*self.of(x.at(undecided), head), out.dtype)


def bent(weights: Network) -> Bent:
    """The same network as lines that bend.

    >>> one = np.array([1.0])
    >>> relu = bent(Network(one, -one, one[:, None], np.array([0.5])))  # max(x - 1, 0) + 1/2
    >>> relu.places.tolist(), relu.slopes.high.tolist(), relu.intercepts.high.tolist()
    ([1.0], [[0.0], [1.0]], [[0.5], [-0.5]])
    """
    units = [(Fraction(w), Fraction(b)) for w, b in zip(weights.weight_in, weights.bias_in, strict=True)]
    last = [[Fraction(v) for v in row] for row in weights.weight_out.T]
    slope = [Fraction(0)] * weights.heads
    intercept = [Fraction(d) for d in weights.bias_out]
    turns = []
    for unit, (w, b) in enumerate(units):
        if b > 0 or (b == 0 and w > 0):
            _turn(slope, intercept, last[unit], w, b)
        if w * b < 0:
            turns.append((-b / w, unit))
    turns.sort()
    slopes, intercepts = [list(slope)], [list(intercept)]
    for _, unit in turns:
        w, b = units[unit]
        sign = 1 if w > 0 else -1  # rising units start, falling ones stop
        _turn(slope, intercept, last[unit], sign * w, sign * b)
        slopes.append(list(slope))
        intercepts.append(list(intercept))
    return Bent(np.array([float(place) for place, _ in turns]), _pairs(slopes), _pairs(intercepts))


def _turn(slope: list[Fraction], intercept: list[Fraction], last: list[Fraction], w: Fraction, b: Fraction) -> None:
    """Add a hidden unit to the lines of all heads."""
    for head, v in enumerate(last):
        slope[head] += v * w
        intercept[head] += v * b


def _pairs(numbers: list[list[Fraction]]) -> Pair:
    high = np.array([[float(number) for number in row] for row in numbers])
    left = [
        [number - Fraction(near) for number, near in zip(*rows, strict=True)]
        for rows in zip(numbers, high, strict=True)
    ]
    return Pair(high, np.array([[float(number) for number in row] for row in left]))
