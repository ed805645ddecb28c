"""How a model's own code turns, and where vLLM and llama.cpp differ from transformers."""

from collections.abc import Mapping
from typing import Any

from service.models.context import Context
from service.models.known import rotation, vllm
from service.models.plan import Value
from service.models.reading import Reading
from service.models.rope_keys import Block


def behaviour(reading: Reading, block: Block, context: Context) -> tuple[dict[str, Value], list[str]]:
    """The parameters that no configuration holds, and what deserves saying of them."""
    turn = _turn(reading)
    notes: list[str] = []
    preset = context.options.preset
    turn["arithmetic"] = "ggml" if preset == "llama.cpp" else reading.type.rule.get("arithmetic", "float32")
    if preset == "transformers-5.24" and block.rope_type == "dynamic":
        notes.append(
            "dynamic NTK grows with the longest call so far in transformers; the addresses are a first call's: "
            "seq_len is its largest position + 1"
        )
    listed = reading.type.rule.get("longrope_list")
    if preset == "transformers-5.24" and block.rope_type == "longrope" and listed:
        turn["longrope_list"] = listed
        notes.append(f"transformers 5.24 takes the {listed} list at any length, and the amplitude of the call's length")
    if preset == "transformers-5.24" and turn["pairing"] == "interleaved":
        notes.append(
            "tables are in the order of the channels that they turn, the two of a pair side by side: a rotary module "
            "that answers with cat(f, f) has the same numbers in another order"
        )
    if preset == "vllm":
        _vllm(reading, block, turn, notes)
    if preset == "llama.cpp":
        _llama_cpp(reading, block, turn, notes)
    where = f"{reading.where}/model_type"
    return {name: Value(value, "class default", where) for name, value in turn.items()}, notes


def _turn(reading: Reading) -> dict[str, Any]:
    """How pairs turn, and in which number formats; measured on the class, or that of its kin."""
    rule: Mapping[str, Any] = reading.type.rule
    row = {**rotation(reading.type.name), **rule.get("turn", {})}
    pairing = str(row.get("pairing", "half"))
    if "without_rope_interleave" in row:
        said = reading.find("rope_interleave")
        pairing = row["without_rope_interleave"] if said is not None and said.value is False else pairing
    turn: dict[str, Any] = {"pairing": pairing}
    if pairing == "interleaved-in/half-out":
        turn = {"pairing": "interleaved", "output_pairing": "half"}
    if row.get("angle_sign", "positive") != "positive":
        turn["angle_sign"] = row["angle_sign"]
    if "rotary_channels" in row:
        turn["rotary_channels"] = row["rotary_channels"]
    if row.get("table_dtype") in ("float32", "complex64"):
        turn["table_dtype"] = "float32"
    elif row.get("compute_dtype") == "float32":
        turn["compute_dtype"] = "float32"
    return turn


def _vllm(reading: Reading, block: Block, turn: dict[str, Any], notes: list[str]) -> None:
    """vLLM's own class of the type; where it has none, what it runs is transformers' code."""
    own = reading.vllm
    if own is None:
        notes.append(f"vLLM {vllm()['release']} has no class of its own for {reading.type.name}: this is transformers'")
        return
    for name in ("table_dtype", "compute_dtype"):
        turn.pop(name, None)  # its tables have the number format of the vectors
    for name in ("pairing", "output_pairing"):
        if name in own:
            turn[name] = own[name]
    if turn.get("output_pairing", "") is None:
        del turn["output_pairing"]
    notes += [own["note"]] if "note" in own else []
    if block.rope_type == "linear":
        turn["linear_scaling"] = "position"
        notes.append("vLLM divides positions, transformers frequencies")
    if block.rope_type == "longrope":
        turn["longrope_attention"] = "ratio"
        notes.append("vLLM takes the list by its max_model_len, here max_position_embeddings, for every position")
    if block.rope_type == "dynamic":
        notes.append("vLLM has one table for its max_model_len, here max_position_embeddings")
    if block.rope_type == "yarn" and own.get("yarn") == "deepseek":
        turn["mscale_rule"] = "each"


def _neighbours(reading: Reading, block: Block) -> bool:
    """Whether llama.cpp turns neighbours: GLM 4's, unless the file has sections, for which rows are permuted."""
    sectioned = (reading.llama_cpp or {}).get("architecture") == "glm4" and block.value("mrope_section") is None
    return sectioned or reading.type.rule.get("ggml") == "normal"


def _llama_cpp(reading: Reading, block: Block, turn: dict[str, Any], notes: list[str]) -> None:
    turn.pop("output_pairing", None)
    turn.pop("table_dtype", None)
    turn.pop("compute_dtype", None)
    half = turn["pairing"] == "half"
    turn["pairing"] = "interleaved" if _neighbours(reading, block) else "half"
    if turn["pairing"] == "interleaved" and half:
        kept = "keeps" if reading.type.name == "hy_v4" else "permutes"
        notes.append(f"llama.cpp turns neighbours: its converter {kept} the rows of the projections")
    if block.rope_type == "yarn":
        turn["truncate"] = True
