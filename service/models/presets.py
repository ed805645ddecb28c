"""How a model's own code turns, and where vLLM and llama.cpp differ from transformers."""

from collections.abc import Mapping
from typing import Any

from service.models.context import Context
from service.models.known import rules
from service.models.plan import Value
from service.models.reading import Reading
from service.models.rope_blocks import Block


def behaviour(reading: Reading, block: Block, context: Context) -> tuple[dict[str, Value], list[str]]:
    """The parameters that no configuration holds, and what deserves saying of them."""
    turn = dict(rules()["turns"].get(_turn_name(reading), {}))
    notes: list[str] = []
    preset = context.options.preset
    turn["arithmetic"] = "ggml" if preset == "llama.cpp" else "float32"
    if preset == "transformers-5.24" and block.rope_type == "dynamic":
        notes.append(
            "dynamic NTK grows with the longest call so far in transformers; the addresses are a first call's: "
            "seq_len is its largest position + 1"
        )
    if preset == "vllm":
        _vllm(reading, block, turn, notes)
    if preset == "llama.cpp":
        _llama_cpp(reading, block, turn, notes)
    where = f"{reading.where}/model_type"
    return {name: Value(value, "class default", where) for name, value in turn.items()}, notes


def _turn_name(reading: Reading) -> str:
    rule: Mapping[str, Any] = reading.type.rule
    name = str(rule.get("turn", "half"))
    if name == "by-key":
        value = reading.find("rope_interleave")
        return "interleaved-in" if value is None or value.value is not False else "half"
    return name


def _vllm(reading: Reading, block: Block, turn: dict[str, Any], notes: list[str]) -> None:
    if block.rope_type == "linear":
        turn["linear_scaling"] = "position"
        notes.append("vLLM divides positions, transformers frequencies")
    if block.rope_type == "longrope":
        turn["longrope_attention"] = "ratio"
        notes.append("vLLM takes the list by its max_model_len, here max_position_embeddings, for every position")
    if block.rope_type == "dynamic":
        notes.append("vLLM has one table for its max_model_len, here max_position_embeddings")
    if block.rope_type == "yarn" and reading.type.rule.get("softmax_factor"):
        turn["mscale_rule"] = "each"


def _llama_cpp(reading: Reading, block: Block, turn: dict[str, Any], notes: list[str]) -> None:
    turn.pop("output_pairing", None)
    turn.pop("table_dtype", None)
    turn.pop("compute_dtype", None)
    turn["pairing"] = "interleaved" if reading.type.rule.get("ggml") == "normal" else "half"
    if turn["pairing"] == "interleaved" and reading.type.rule.get("turn", "half") == "half":
        notes.append("llama.cpp turns neighbours: its converter permutes the rows of the projections")
    if block.rope_type == "yarn":
        turn["truncate"] = True
