"""What the service leaves out, and why: schemes of the literature and of libraries that no scheme here answers.

Whoever looks for one of them in vain finds it in `GET /v1/schemes` and in the README, with the reason and, where there
is one, the way to get the same numbers from what there is.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Omission:
    """One scheme, variant or rule that is left out: the topic it belongs to, and the reason."""

    name: str
    topic: str
    reason: str


RELATIVE = (
    Omission(
        "Funnel's relative attention",
        "relative positions",
        "its rows follow the pooling of each block, a matter of the model's layers; at stride 1 they are those of "
        "biases/transformer-xl",
    ),
)

OMISSIONS: tuple[Omission, ...] = (*RELATIVE,)
