"""JSON objects of others' making that stand for the parameters of a scheme."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Pasted:
    """A JSON object of another's making that stands for parameters, such as a block of a model's configuration.

    It goes by one of `names` and holds `keys`, some of which are `renamed`; `parameters(block)` says in our words what
    it says, and its refusals name a key. `spread(block)` has an object for each type of layer where the block says in
    another way that they differ. `fits(block, width)` refuses what a rotation of so many channels cannot have though it
    decides no parameter. `outermost` has keys that are not asked in such an object, but only beside them all,
    where a parameter has that value.
    """

    names: tuple[str, ...]
    description: str
    keys: tuple[str, ...]
    renamed: Mapping[str, str]
    parameters: Callable[[Mapping[str, Any]], dict[str, Any]]
    spread: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    fits: Callable[[Mapping[str, Any], int], None] = lambda _block, _width: None
    outermost: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def stated(self) -> frozenset[str]:
        """Our names of what it may state."""
        return frozenset(self.renamed.get(key, key) for key in self.keys)
