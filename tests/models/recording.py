"""A configuration that remembers which of its keys were read, at any depth."""

from typing import Any


class Recorded(dict[str, Any]):
    """An object of a file: reads of it, and of objects within, are in `seen`, by JSON Pointer steps."""

    def __init__(self, given: dict[str, Any], where: tuple[str, ...], seen: set[tuple[str, ...]]) -> None:
        super().__init__({key: recorded(value, (*where, key), seen) for key, value in given.items()})
        self.where, self.seen = where, seen

    def __getitem__(self, key: str) -> Any:
        self.seen.add((*self.where, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add((*self.where, key))
        return super().get(key, default)

    def items(self) -> Any:
        self.seen.update((*self.where, key) for key in self)
        return super().items()


def recorded(value: Any, where: tuple[str, ...], seen: set[tuple[str, ...]]) -> Any:
    return Recorded(value, where, seen) if isinstance(value, dict) else value
