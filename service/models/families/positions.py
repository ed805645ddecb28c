"""Models without RoPE, and what models have beside it: learned tables, sinusoids, biases by distance, nothing.

Two tables say what each model type has. `tables.json` is measured: the trained tables, and how their sizes follow from
keys. `positions.json` is kept by hand: which scheme with which parameters, in what order flags choose, and trained
tables that measuring does not find.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.families.chunks import SEEN
from service.models.families.resizing import patches, resized
from service.models.families.special import SPECIAL
from service.models.families.values import number_of, odd_word
from service.models.heads import refuse_split_heads
from service.models.llama_cpp_tables import in_file
from service.models.nearest import echo
from service.models.plan import Address, Use, Value
from service.models.reading import Reading, kind
from service.models.sizes import size
from service.models.windows import causal_mask, padding_mask, sees_both

TOWERS = ("vision-tower", "audio-tower")
OFFSET_RULES = {0: "none", 2: "opt"}


@lru_cache(maxsize=1)
def _measured() -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((files("service.models.facts") / "tables.json").read_text("utf-8"))
    return content


@lru_cache(maxsize=1)
def _rows() -> Mapping[str, Mapping[str, Any]]:
    """The hand-kept rows by model type."""
    groups = json.loads((files("service.models.facts") / "positions.json").read_text("utf-8"))["groups"]
    return {name: group for group in groups for name in group["types"]}


def has_positions(name: str) -> bool:
    """Whether it is known what that type has, be it nothing."""
    return name in _measured()["types"] or name in _rows()


def positions(reading: Reading, context: Context) -> list[Use]:
    """The uses of a type beside its RoPE, in the order of the facts; none where it has no row.

    >>> from service.models.context import Options
    >>> from service.models.known import model_type
    >>> [table] = positions(Reading({}, "", model_type("opt")), Context(Options()))
    >>> table.encoding, table.facts["table"], table.facts["first_row"]
    ('learned', [2050, 768], 2)
    """
    name = reading.type.rule.get("like", reading.type.name)
    reading = replace(reading, given={**_measured()["fields"].get(name, {}), **reading.given})
    group = _rows().get(reading.type.name) or _rows().get(name) or {}
    if has_positions(name):
        refuse_split_heads(reading)
    own = [(use, row) for row in group.get("uses", ()) for use in _use(reading, context, row)]
    uses = [*_trained(reading, context, group), *(use for use, _ in own)]
    odd = odd_word(reading, group)
    uses = [replace(uses[0], notes=(*uses[0].notes, *odd)), *uses[1:]] if uses and odd else uses
    masked = {_stack(use) for use, row in own if "seen" in row}
    wanted = group.get("tables_when", {}).items()
    if group.get("tables", True) is False or not all(_holds(reading, key, value) for key, value in wanted):
        return _with_masks(reading, context, uses, masked)
    skipped = tuple(group.get("skip", ()))
    ignored = _ignored(reading)
    learned = [
        _learned(reading, context, table, group)
        for table in _measured()["types"].get(name, ())
        if not table["tensor"].startswith(skipped or "\0")
    ]
    found = _with_masks(reading, context, [*learned, *uses], masked)
    return [replace(found[0], notes=(*found[0].notes, *ignored)), *found[1:]] if found and ignored else found


def _with_masks(reading: Reading, context: Context, uses: list[Use], masked: set[str]) -> list[Use]:
    """The mask of the attention behind, with the first use of each stack that has none; `masked`: stacks whose
    attention sees what no mask of this kind says."""
    rule = reading.type.rule
    own = None
    if rule.get("sees") in ("both", "causal"):
        own = padding_mask if sees_both(reading, context) else causal_mask
    crosses = bool(rule.get("crosses"))
    masks = {
        "encoder": padding_mask if crosses else None,
        "decoder": causal_mask if crosses else own,
        "token": own,
        "text": own,
    }
    done = masked | {_stack(use) for use in uses if "mask" in use.addresses}
    found = []
    for use in uses:
        mask = masks.get(_stack(use))
        if mask is not None and not done & ALIKE.get(_stack(use), {_stack(use)}):
            done.add(_stack(use))
            found.append(replace(use, addresses={**use.addresses, "mask": mask(context)}))
        else:
            found.append(use)
    return found


# Tokens and the text's attention are one stack.
ALIKE: Mapping[str, set[str]] = {"token": {"token", "text"}, "text": {"token", "text"}}


def _stack(use: Use) -> str:
    return use.role.partition("-")[0]


# Keys of other code, which patched models of these types carry.
ELSEWHERE = re.compile(r"alibi|rope|rotary|pos_emb|position_embedding|relative")


def _ignored(reading: Reading) -> list[str]:
    """A note for each key that speaks of positions and that the class does not read."""
    known = {*reading.type.fields, *reading.type.aliases, *reading.given}
    # By its items: to look at a value is not to read it.
    odd = [key for key, value in reading.document.items() if isinstance(key, str) and not _usual(key, value)]
    odd = [key for key in odd if ELSEWHERE.search(key) and key not in known]
    said = "is read by nothing in this class: a model patched to use it is not the one of this plan"
    kept = [key for key in odd if key != "rotary_embedding_base"]
    return [f"{key[:64]} {said}" for key in kept[:8]]


def _usual(key: str, value: object) -> bool:
    """The type of position embeddings that BERT and its kin have whatever the file says."""
    return key == "position_embedding_type" and value in (None, "absolute")


def _learned(reading: Reading, context: Context, table: Mapping[str, Any], group: Mapping[str, Any]) -> Use:
    """A trained table: its size, and the row of the first token."""
    sizes = [size(reading, each) for each in table["shape"]]
    rows, dim = _flat([each for each in sizes[:-1] if each.value != 1], reading), sizes[-1]
    rows, rule, said = in_file(reading, rows, _offset_rule(reading, table))
    first = {"none": 0, "opt": 2}.get(rule["offset_rule"].value, 0)
    if rule["offset_rule"].value == "roberta":
        first = rule["padding_idx"].value + 1
    more = {"length": str(max(1, min(context.options.length, rows.value - first)))}
    addresses = {
        "lookup": ask("learned", "lookup", rule, **more).address(),
        **_addresses(context, {"addresses": table.get("addresses", {})}, {}),
    }
    if table.get("initial", True):
        initial = ask("encodings", "learned", {"rows": rows, "dim": dim, **rule}, std="0.02", **more)
        addresses["initial"] = initial.address()
    use = Use(
        role=table.get("role") or _role(table["tensor"], context),
        scope=reading.where,
        model_type=reading.type.name,
        encoding="learned",
        scheme=("learned", "lookup"),
        parameters={"rows": rows, "dim": dim, **rule},
        facts={
            "table": [rows.value, dim.value] if said else [each.value for each in sizes],
            "first_row": first,
            "tensor": table["tensor"],
        },
        notes=(*group.get("notes", ()), *said),
        addresses=addresses,
    )
    return _of_patches(reading, use, table["shape"])


def _trained(reading: Reading, context: Context, group: Mapping[str, Any]) -> Iterator[Use]:
    """Trained tables that measuring does not find: those of models with parts, of conditions, of odd names."""
    for table in group.get("trained", ()):
        if all(_holds(reading, key, wanted) for key, wanted in table.get("when", {}).items()):
            yield _learned(reading, context, table, table)


def _of_patches(reading: Reading, use: Use, shape: Sequence[Any]) -> Use:
    """With what the class does for a picture of another size, where rows are patches."""
    found = patches(shape)
    if found is None:
        return use
    role = use.role if use.role in TOWERS else "vision-tower"
    return resized(reading, replace(use, role=role), *found)


def _flat(axes: list[Value], reading: Reading) -> Value:
    """The rows of a table of several axes, laid out one after another."""
    if not axes:
        return Value(1, "class default", reading.where or "/")
    first, *others = axes
    count = first.value
    for each in others:
        count *= each.value
    return first if not others else first.replaced(count)


def _offset_rule(reading: Reading, table: Mapping[str, Any]) -> dict[str, Value]:
    """Where positions begin in a table: at its start, two rows later, or behind the padding's row."""
    if "padding_idx" not in table:
        return {"offset_rule": Value(OFFSET_RULES[table.get("offset", 0)], "class default", reading.where or "/")}
    padding = reading.integer("pad_token_id", 0) or Value(table["padding_idx"], "class default", reading.where or "/")
    return {"offset_rule": Value("roberta", "class default", padding.key), "padding_idx": padding}


def _role(tensor: str, context: Context) -> str:
    """A table is added to a tower's patches or frames, or to tokens."""
    if context.role in TOWERS:
        return context.role
    return next(
        (f"{stack}-embeddings" for stack in ("encoder", "decoder") if tensor.startswith(stack)), "token-embeddings"
    )


def _use(reading: Reading, context: Context, row: Mapping[str, Any]) -> Iterator[Use]:
    """The uses of a hand-kept row: none where its condition does not hold."""
    if not all(_holds(reading, key, wanted) for key, wanted in row.get("when", {}).items()):
        return
    if "special" in row:
        seen = SEEN.get(row.get("seen", ""))
        for each in SPECIAL[row["special"]](reading, context):
            yield each if seen is None else seen(reading, context, each)
        return
    scheme = tuple(row["scheme"].split("/")) if "scheme" in row else None
    parameters = {name: _parameter(reading, spec) for name, spec in row.get("parameters", {}).items()}
    theirs = (reading.vllm or {}).get("parameters", {})
    parameters |= {name: replace(parameters[name], value=theirs[name]) for name in theirs if name in parameters}
    facts = {name: _fact(reading, spec) for name, spec in row.get("facts", {}).items()}
    use = Use(
        role=row.get("role") or context.role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding=row.get("encoding", scheme[1] if scheme else "none"),
        scheme=None if scheme is None else (scheme[0], scheme[1]),
        parameters=parameters,
        facts=facts,
        notes=tuple(row.get("notes", ())),
        addresses=_addresses(context, row, parameters, _rows_left(facts, parameters)),
    )
    shape = row.get("facts", {}).get("table", ()) if use.encoding == "learned" else ()
    use = SEEN[row["seen"]](reading, context, use) if "seen" in row else use
    yield _of_patches(reading, use, shape)


def _holds(reading: Reading, key: str, wanted: Any) -> bool:
    """Whether a flag or a word is what a row is for; refuses what is of neither kind."""
    found = reading.find(key)
    value = None if found is None else found.value
    choices = wanted if isinstance(wanted, list) else [wanted]
    words = any(isinstance(each, str) for each in choices)
    if found is not None and value is not None and not isinstance(value, str if words else bool):
        needed = "a string" if words else "true or false"
        raise Refusal(found.key, "type", f"{key} is {kind(value)} ({echo(value)}); {needed} is needed")
    return value in choices


def _parameter(reading: Reading, spec: Any) -> Value:
    """A parameter: a size, a key's number, or what the model's code holds."""
    if isinstance(spec, Mapping) and "value" in spec:
        return number_of(reading, spec["value"], spec["else"])
    if isinstance(spec, list) and any(isinstance(each, Mapping) for each in spec):
        sizes = [size(reading, each) for each in spec]
        return sizes[0].replaced([each.value for each in sizes])
    return size(reading, spec)


def _fact(reading: Reading, spec: Any) -> Any:
    if isinstance(spec, list):
        return [_fact(reading, each) for each in spec]
    return _parameter(reading, spec).value


def _rows_left(facts: Mapping[str, Any], parameters: Mapping[str, Value]) -> int | None:
    """How many rows a table has from the first one that is read; None for one that grows, as those with a row for
    padding do, and for what has no rows."""
    if "rows" not in facts or "padding_idx" in parameters or not isinstance(facts.get("first_row"), int):
        return None
    return int(facts["rows"] - facts["first_row"])


def _addresses(
    context: Context, row: Mapping[str, Any], parameters: Mapping[str, Value], most: int | None = None
) -> dict[str, Address]:
    """`tables`, and what else the row names; `most`: the rows there are."""
    length = context.length if most is None else str(max(1, min(context.options.length, most)))
    named = dict(row.get("addresses", {}))
    if "scheme" in row:
        named = {"tables": {"scheme": row["scheme"], "length": row.get("length", True)}} | named
    found = {}
    for name, wanted in named.items():
        family, scheme = wanted["scheme"].split("/")
        taken = wanted.get("take")
        given = {each: value for each, value in parameters.items() if taken is None or each in taken}
        given |= {each: Value(value, "class default", "/") for each, value in wanted.get("parameters", {}).items()}
        more = {"length": length} if wanted.get("length", True) else {}
        found[name] = ask(family, scheme, given, **more).address()
    return found
