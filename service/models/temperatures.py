"""Factors on queries that grow with the position: Llama 4, Ministral 3, Mistral 4, Beam, Qwen's log n."""

from typing import Any

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.layer_rules import FULL
from service.models.layers import layer_types
from service.models.plan import Address, Value
from service.models.reading import Reading, kind, numeric, pointer
from service.models.rope_keys import Block

Found = tuple[dict[str, Any], dict[str, Address], tuple[str, ...]]
NONE: Found = ({}, {}, ())


def temperature_of(reading: Reading, block: Block | None, context: Context, *, turned: bool) -> Found:
    """Facts, the address of the factors, and notes; nothing where the layers have none."""
    schedule = reading.type.rule.get("temperature")
    if schedule == "llama4":
        return NONE if turned else _llama4(reading, context)
    if (reading.llama_cpp or {}).get("cold"):
        return {}, {}, (f"llama.cpp's converter writes no temperature for {reading.type.name}: its files have none",)
    if schedule == "ministral3" and block is not None:
        return _ministral(reading, block, context)
    if schedule == "log-n":
        return _log_n(reading, context)
    if schedule == "beam":
        return answered({"schedule": Value("beam", "class default", f"{reading.where}/model_type")}, context, "beam")
    return NONE


def _llama4(reading: Reading, context: Context) -> Found:
    if reading.llama_cpp is not None:
        return _llama4_in_llama_cpp(reading, context)
    tuned = reading.find("attn_temperature_tuning")
    if tuned is None or tuned.value is None:
        return NONE
    if not isinstance(tuned.value, (bool, int)):
        detail = f"attn_temperature_tuning is {kind(tuned.value)}; true or false is needed"
        raise Refusal(tuned.key, "type", detail)
    if not tuned.value:
        return NONE
    longest = reading.integer("max_position_embeddings")
    if reading.vllm is not None and longest is not None and longest.value <= 32_768:
        return {}, {}, ("vLLM tunes the temperature only where its max_model_len is above 32768",)
    found = {
        "schedule": Value("llama4", "config" if reading.has("attn_temperature_tuning") else "class default", tuned.key)
    }
    floor, scale = reading.integer("floor_scale"), reading.number("attn_scale")
    if floor is not None:
        found["floor_scale"] = floor
    if scale is not None:
        found["attn_scale"] = scale
    facts, addresses, notes = answered(found, context, "1 + attn_scale ln(1 + floor((p + 1) / floor_scale))")
    note = "transformers takes p from the slot of the cache, not from the position id"
    return facts, addresses, (*notes, note)


def _llama4_in_llama_cpp(reading: Reading, context: Context) -> Found:
    """What its code has whatever the file says, where layers are chunked."""
    if all(label == FULL for label in layer_types(reading) or ()):
        return NONE
    found = {"schedule": "llama4", "floor_scale": 8192, "attn_scale": 0.1}
    parameters = {key: Value(value, "class default", f"{reading.where}/model_type") for key, value in found.items()}
    return answered(parameters, context, "1 + attn_scale ln(1 + floor((p + 1) / floor_scale))")


def _ministral(reading: Reading, block: Block, context: Context) -> Found:
    if reading.vllm and reading.vllm.get("temperature"):
        return _of_mistrals_format(reading, context, reading.vllm["temperature"])
    beta = block.keys.get("llama_4_scaling_beta")
    length = block.keys.get("original_max_position_embeddings")
    if beta is None or not beta.value or length is None:
        return NONE
    found = {
        "schedule": Value("ministral3", "class default", f"{reading.where}/model_type"),
        "floor_scale": length,
        "attn_scale": beta,
    }
    return answered(found, context, "1 + beta ln(1 + floor(p / original_max_position_embeddings)), after the rotation")


def _of_mistrals_format(reading: Reading, context: Context, key: str) -> Found:
    """vLLM reads the temperature under the name that Mistral's own params.json has for it, and there alone."""
    given = reading.object(key)
    if given is None:
        return {}, {}, (f"vLLM reads the temperature from {key}, as Mistral's params.json has it: none is stated here",)
    names = {"floor_scale": "original_max_position_embeddings", "attn_scale": "beta"}
    found = {"schedule": Value("ministral3", "class default", f"{reading.where}/model_type")}
    for ours, theirs in names.items():
        if given.get(theirs) is None:
            raise Refusal(pointer(reading.at(key), theirs), "missing", f"{theirs} is missing in {key}")
        found[ours] = numeric(Value(given[theirs], "config", pointer(reading.at(key), theirs)))
    return answered(found, context, "1 + beta ln(1 + floor(p / original_max_position_embeddings)), after the rotation")


def _log_n(reading: Reading, context: Context) -> Found:
    used, length = reading.find("use_logn_attn"), reading.integer("seq_length", 2)
    if used is None or not used.value or length is None:
        return NONE
    found = {"schedule": Value("log-n", "config", used.key), "floor_scale": length}
    return answered(found, context, "log_(seq_length)(p) beyond seq_length, p counted from 1")


def answered(found: dict[str, Value], context: Context, formula: str) -> Found:
    address = ask("encodings", "temperature", found, length=context.length).address()
    values = {name: value.value for name, value in found.items()}
    return {"temperature": formula, "temperature_parameters": values}, {"temperature": address}, ()
