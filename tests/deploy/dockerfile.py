"""Reads the part of the Dockerfile language that the project's Dockerfile uses."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Instruction:
    """One instruction: `COPY`, its `--flags`, and the rest of the line."""

    name: str
    flags: dict[str, str]
    value: str

    def words(self) -> list[str]:
        """The exec form's list; a ValueError if the instruction is not in exec form."""
        words: list[str] = json.loads(self.value)
        return words


@dataclass
class Stage:
    """What stands between one FROM and the next."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, name: str) -> list[Instruction]:
        return [instruction for instruction in self.instructions if instruction.name == name]

    def one(self, name: str) -> Instruction:
        (instruction,) = self.all(name)
        return instruction

    def environment(self) -> dict[str, str]:
        pairs = [pair for instruction in self.all("ENV") for pair in instruction.value.split()]
        return dict(pair.split("=", 1) for pair in pairs)


def read_instructions(text: str) -> list[Instruction]:
    lines = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    return [_instruction(line) for line in lines if line.strip()]


def _instruction(line: str) -> Instruction:
    name, *words = line.split()
    flags = [word for word in words if word.startswith("--")] if name != "RUN" else []
    value = line[len(name) :].strip()
    for word in flags:
        value = value.replace(word, "", 1).strip()
    return Instruction(name, dict(word[2:].split("=", 1) for word in flags), value)


def read_stages(text: str) -> list[Stage]:
    stages: list[Stage] = []
    for instruction in read_instructions(text):
        if instruction.name == "FROM":
            base, _, name = instruction.value.partition(" AS ")
            stages.append(Stage(base, name))
        else:
            stages[-1].instructions.append(instruction)
    return stages


def build_and_final() -> tuple[Stage, Stage]:
    """The two stages of the project's Dockerfile."""
    build, final = read_stages((ROOT / "Dockerfile").read_text())
    return build, final
