"""The parameters of one RoPE: how wide heads are, how much of them turns, and what the block says of frequencies."""

from collections.abc import Mapping, Sequence

from service.engine.errors import Refusal
from service.engine.numbers.single import float32_frequencies
from service.engine.rotation.scaling import TAKES
from service.models.context import Context
from service.models.known import rules
from service.models.nearest import echo
from service.models.per_layer import KEY
from service.models.plan import Value
from service.models.presets import behaviour
from service.models.reading import MOST, Reading, numeric, pointer, real
from service.models.rope_checks import of_transformers, refuse_of_another
from service.models.rope_keys import Block

LEAST_BASE, MOST_BASE = 1e-19, 1e100


def head_width(reading: Reading, label: str | None) -> Value:
    """How many channels a head that turns has, by the class's own rule."""
    rule = reading.type.rule
    # A file with widths by layer leaves out what a class makes them from.
    by_label = {} if reading.object(KEY) is not None else rule.get("head_of", {})
    key = by_label.get(label) or rule.get("head", "head_dim")
    shared = (reading.llama_cpp or {}).get("head") == "shared"
    key = "ratio" if shared else key  # the converter writes no width of a head
    _refuse_null_head(reading)
    # A class without such a field takes the file's head_dim after it has set its own.
    unknown = not shared and "head_dim" not in reading.type.fields and "head_dim" not in reading.fixed
    stated = reading.document.get("head_dim") if unknown else None
    if stated is not None and not rule.get("head_fixed"):
        return _stated_head(reading, key)
    if "head_sum" in rule:
        return _summed(reading, rule["head_sum"])
    if key != "ratio":
        given = reading.integer(key, 0)
        if given is not None and given.value:
            return given
        if given is not None and given.source == "config":
            return reading.needed(key)
    if label in rule.get("head_rest", {}):
        return _rest(reading, *rule["head_rest"][label])
    return _ratio(reading)


def _stated_head(reading: Reading, key: str) -> Value:
    """The file's head_dim; of latent attention it must be the width that turns, or the class builds what cannot run."""
    width = reading.needed("head_dim")
    turned = reading.integer(key) if key == "qk_rope_head_dim" else None
    if turned is None or turned.value == width.value:
        return width
    if reading.vllm is not None or reading.preset == "llama.cpp":
        return turned
    detail = (
        f"head_dim is {width.value} and {key} {turned.value}: {reading.type.name} turns {key} channels by tables of "
        "head_dim, which transformers cannot do; leave head_dim out"
    )
    raise Refusal(width.key, "conflict", detail)


def _refuse_null_head(reading: Reading) -> None:
    """Refuses null where the class or its model cannot do with it; others share the width out, or do not read it."""
    if "head_dim" not in reading.document or reading.document["head_dim"] is not None:
        return
    real = reading.type.aliases.get("head_dim", "head_dim")
    own = reading.type.fields.get(real, 1 if reading.type.rule.get("head") else None)
    kinds = rules()["heads of null"]
    if own is None or reading.type.name in (*kinds["shared"], *kinds["unread"]):
        return
    detail = f"head_dim is null, and {reading.type.name} has no rule for that: leave it out for {own}"
    if reading.type.name in kinds["latent"]:
        # Tables are of what the heads share then, and queries and keys of another part of theirs.
        turned, shared = reading.needed("qk_rope_head_dim").value, _ratio(reading).value
        if turned == shared:
            return
        detail = f"head_dim is null: tables are of {shared} channels then, and {turned} turn (qk_rope_head_dim)"
    raise Refusal(reading.at("head_dim"), "type", detail)


def refuse_heads_of_keys(reading: Reading) -> None:
    """Refuses a number of heads for keys and values by which the heads of queries cannot be shared out."""
    key, given = "num_key_value_heads", reading.document.get("num_key_value_heads")
    if given is None or isinstance(given, list) or key not in reading.type.fields:
        return
    shared, heads = reading.needed(key), reading.find("num_attention_heads")
    latent = reading.type.rule.get("head") == "qk_rope_head_dim"
    if latent or heads is None or type(heads.value) is not int or heads.value % shared.value == 0:
        return
    name = heads.key.rpartition("/")[2]
    detail = f"{name} is {heads.value} and {key} {shared.value}: each of these must serve as many of those"
    raise Refusal(shared.key, "conflict", detail)


def _ratio(reading: Reading) -> Value:
    """The width of the model over its heads."""
    rule = reading.type.rule
    width, heads = reading.needed(rule.get("width", "hidden_size")), reading.needed("num_attention_heads")
    if width.value < heads.value or (width.value % heads.value and not rule.get("floors")):
        first, second = (each.key.rpartition("/")[2] for each in (width, heads))
        detail = f"{first} is {width.value} and {second} is {heads.value}: the heads have no whole width"
        raise Refusal(heads.key, "conflict", detail)
    origin = heads if (width.source, heads.source) == ("class default", "config") else width
    return origin.replaced(rule.get("times", 1) * width.value // heads.value)


def _rest(reading: Reading, whole_key: str, part_key: str) -> Value:
    """What a part leaves of a head."""
    width, part = reading.needed(whole_key), reading.needed(part_key, 0)
    if part.value >= width.value:
        detail = f"{whole_key} is {width.value} and {part_key} {part.value}: no channel is left to turn"
        raise Refusal(part.key, "conflict", detail)
    return width.replaced(width.value - part.value)


def _summed(reading: Reading, keys: Sequence[str]) -> Value:
    first, *others = (reading.needed(key) for key in keys)
    return first.replaced(first.value + sum(other.value for other in others))


def parameters_of(
    reading: Reading, label: str | None, block: Block, context: Context
) -> tuple[dict[str, Value], list[str]]:
    """Our parameters of a block, in the order of the answer, and what deserves saying of what was left out."""
    notes: list[str] = []
    found: dict[str, Value] = {"dim": head_width(reading, label)}
    found |= {"base": block.keys["rope_theta"]} if "rope_theta" in block.keys else {}
    found |= _base_in_vllm(reading)
    share = _share(reading, block, notes)
    if share is not None and _odd(found["dim"], share) and block.rope_type == "default":
        return {**_odd_width(found, share, notes), **_convention(reading, block, context, notes)}, notes
    if share is not None:
        found["partial_rotary_factor"] = share
    width = reading.older("width") or reading.type.rule.get("rotary_dim")
    turned = reading.integer(width) if width else None
    turned = block.keys.get("rotary_dim", turned)
    if turned is not None:
        found["rotary_dim"] = turned
    found["rope_type"] = block.keys["rope_type"]
    # The longest context is the model's: `_lengths` has it where it counts.
    dropped = ("max_position_embeddings", "seq_len", *_dropped(reading, block, notes))
    for name in TAKES.get(block.rope_type, ()):
        if name in block.keys and name not in dropped:
            found[name] = block.keys[name]
    _lengths(reading, block, found, context)
    found |= _doubled(reading, block, context, notes)
    _yarns_factor(reading, block, notes)
    if _crashes(reading, block):
        notes.append(
            f"transformers fails on {block.rope_type} here; the plan is what the file says, for heads of "
            f"{found['dim'].value}"
        )
    found = {name: real(value) if name in REALS else value for name, value in found.items()}
    return {**found, **_convention(reading, block, context, notes)}, notes


# Parameters that are no whole numbers, though files may spell them so.
REALS = (
    *("base", "factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"),
    *("attention_factor", "partial_rotary_factor", "alpha", "short_mscale", "long_mscale"),
)


def _base_in_vllm(reading: Reading) -> dict[str, Value]:
    """DBRX: vLLM takes the base that transformers leaves unread, within `attn_config`."""
    path = reading.vllm.get("theta") if reading.vllm else None
    if path is None:
        return {}
    block, key = path
    given = (reading.object(block) or {}).get(key)
    if given is None:
        return {}
    return {"base": numeric(Value(given, "config", pointer(reading.at(block), key)))}


def _yarns_factor(reading: Reading, block: Block, notes: list[str]) -> None:
    """A factor that is not the ratio of the two lengths: transformers warns, and takes the factor."""
    factor, trained = block.keys.get("factor"), block.keys.get("original_max_position_embeddings")
    if block.rope_type != "yarn" or factor is None or trained is None or not 0 < trained.value <= MOST:
        return
    longest = reading.integer("max_position_embeddings")
    if longest is None or longest.value / trained.value in (1, factor.value):
        return
    notes.append(
        f"{factor.key} is {echo(factor.value)} and {longest.key} over {trained.key} "
        f"{longest.value / trained.value:.6g}: the factor counts"
    )


def _doubled(reading: Reading, block: Block, context: Context, notes: list[str]) -> dict[str, Value]:
    """Qwen 1: a call of n > L positions has the base of alpha = 2^(k + 1) - 1, L 2^k the first that reaches n."""
    key = reading.type.rule.get("doubles_beyond")
    if key is None or block.rope_type != "default" or not reading.flag("use_dynamic_ntk"):
        return {}
    trained, length = reading.needed(key), context.options.length
    notes.append(f"use_dynamic_ntk raises the base beyond {key}, by a power of two: the addresses are of one call")
    doublings = (-(-length // trained.value) - 1).bit_length()
    if not doublings:
        return {}
    flag = reading.at("use_dynamic_ntk")
    alpha = trained.replaced(float(2 ** (doublings + 1) - 1))
    return {"rope_type": Value("ntk_alpha", "rewritten", flag), "alpha": alpha}


AMPLITUDES = ("short_mscale", "long_mscale")


def _dropped(reading: Reading, block: Block, notes: list[str]) -> tuple[str, ...]:
    """Keys that the code does not hand on: PhiMoE's amplitudes in transformers, others in vLLM's class of the type."""
    if reading.vllm is None:
        if AMPLITUDES[0] in reading.type.rule.get("scaled_needs", ()):
            return ()
        unread = [block.keys[name].key for name in AMPLITUDES if name in block.keys]
        if unread and block.rope_type == "longrope":
            notes.append(f"{' and '.join(unread)} have no effect: only phimoe reads them in transformers")
        return AMPLITUDES
    if block.rope_type == "yarn" and reading.vllm.get("yarn") == "deepseek":
        return ("attention_factor", "truncate")
    return tuple(reading.vllm.get("drops", ()))


def _convention(reading: Reading, block: Block, context: Context, notes: list[str]) -> dict[str, Value]:
    convention, said = behaviour(reading, block, context)
    notes += said
    return convention


def _odd(dim: Value, share: Value) -> bool:
    """Whether the share makes an odd width, of which the head has one channel more."""
    turned = _part(dim, share)
    return turned % 2 == 1 and turned < dim.value


def _part(dim: Value, share: Value) -> int:
    part = numeric(share).value * dim.value
    return int(part) if 0 < part <= dim.value else 0


def _odd_width(found: Mapping[str, Value], share: Value, notes: list[str]) -> dict[str, Value]:
    """An odd width: the class turns one channel more, by the frequencies of the odd one."""
    turned = _part(found["dim"], share)
    base = numeric(found["base"])
    if not LEAST_BASE <= base.value <= MOST_BASE:
        detail = f"the base is {base.value}; it must be at least {LEAST_BASE} and at most {MOST_BASE}"
        raise Refusal(base.key, "out_of_range", detail, limit=LEAST_BASE if base.value < LEAST_BASE else MOST_BASE)
    notes.append(f"{share.key} makes the odd width {turned}: {turned + 1} channels turn, by base^(-2 k / {turned})")
    frequencies = float32_frequencies(float(base.value), turned, (turned + 1) // 2)
    return {
        "dim": found["dim"],
        "rotary_dim": share.replaced(turned + 1),
        "rope_type": share.replaced("frequencies"),
        "frequencies": base.replaced([float(each) for each in frequencies]),
    }


def _crashes(reading: Reading, block: Block) -> bool:
    """Some classes leave head_dim null, and these scalings of transformers cannot do with that; dots3.note's layers
    differ in a number that one of them asks of all."""
    if block.rope_type in reading.type.rule.get("fails_on", ()) and reading.vllm is None:
        return True
    if block.rope_type not in ("yarn", "dynamic", "longrope") or reading.document.get("head_dim") is not None:
        return False
    stated = "head_dim" in reading.document and "head_dim" not in reading.type.fields and of_transformers(reading)
    return bool(reading.type.rule.get("null_head")) or (stated and reading.vllm is None)


def _share(reading: Reading, block: Block, notes: list[str]) -> Value | None:
    """The share of the head that turns: unscaled RoPE of most classes turns all, whatever the file says."""
    share = block.keys.get("partial_rotary_factor")
    if share is None or share.value == 1:
        return None
    if reading.vllm is not None:
        # vLLM's get_rope turns the share of any model that states one; some of its classes hand none over.
        return None if reading.vllm.get("partial") == "ignored" else share
    if block.rope_type in ("default", "ntk_alpha") and not reading.type.rotary.startswith("partial"):
        how = "unscaled" if block.rope_type == "default" else "by alpha"
        refuse_of_another(reading, share)
        notes.append(f"{share.key} has no effect: {how}, the class turns the whole head")
        return None
    return share


def _lengths(reading: Reading, block: Block, found: dict[str, Value], context: Context) -> None:
    """The longest context, where it decides something, and the length that a first call of the model has."""
    plain = block.rope_type not in ("yarn", "longrope", "dynamic")
    if plain and not reading.says("max_position_embeddings"):
        return
    longest = reading.integer("max_position_embeddings")
    ratio = block.rope_type in ("yarn", "longrope") and ("factor" not in found or reading.vllm is not None)
    if longest is not None and (ratio or block.rope_type == "dynamic"):
        found["max_position_embeddings"] = longest
    if block.rope_type in ("dynamic", "longrope"):
        whole = reading.vllm is not None and longest is not None
        length = longest.value if whole and longest is not None else context.options.length
        found["seq_len"] = Value(length, "rewritten", longest.key if longest else reading.where)
