"""A file that is read as a type it does not name: what was read of it, and what it must say for itself.

The defaults of a class are those of the checkpoint that it was written for. A file of that class may leave them out; of
a file that is only assumed to be of it, they would be a guess that looks right.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from service.engine.errors import Refusal
from service.models.deciding import DECIDES, matters, reads
from service.models.known import ModelType, assumable, model_type
from service.models.nearest import echo
from service.models.plan import Use

# Widths, heads, layers, lengths: what a table is as large as.
SIZE = re.compile(
    r"(hidden_sizes?|_model|_embe?d|embe?d?_dim|hidden_dim|embedding_size|channels|heads?|layers?|depths?|_kv|_ctx"
    r"|head_dim|dim_head|rotary_dim|image_size|patch_sizes?|positions|position_embeddings|pos_emb|context_length"
    r"|window_size|resolution|seq_len|seq_length|num_patches|num_frames)$"
)
NO_SIZE = ("max_window_layers", "num_channels", "num_nextn_predict_layers")
BASIC = ("hidden_size", "num_attention_heads", "num_hidden_layers")
# What every file has, whatever the type, and nothing positional reads.
COMMON = re.compile(
    r"^(_.*|architectures|model_type|auto_map|torch_dtype|dtype|transformers_version|.*token_id|vocab_size|use_cache|.*dropout.*"
    r"|.*_drop|.*_pdrop|.*act(ivation)?(_fn|_function)?|.*eps(ilon)?|initializer.*|tie_word_embeddings|.*bias|intermediate_size"
    r"|num_key_value_heads|n_inner|id2label|label2id|quantization_config|return_dict|output_.*|is_.*|pretraining_tp"
    r"|position_embedding_type)$"
)
MOST_NAMED = 16


class Watched(dict[str, Any]):
    """An object that remembers which of its keys were read."""

    def __init__(self, given: Mapping[str, Any], row: ModelType) -> None:
        super().__init__(given)
        self.row = row
        self.seen: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)


class Told(Watched):
    """The object of such a file: it remembers the defaults that were taken beside its keys, too."""

    def __init__(
        self, given: Mapping[str, Any], where: str, row: ModelType, all_of: "list[Told]", said: str = ""
    ) -> None:
        super().__init__(given, row)
        self.where, self.all_of, self.said = where, all_of, said
        self.taken: dict[str, Any] = {}
        self.uses: Sequence[Use] = ()
        all_of.append(self)

    def take(self, pointer: str, key: str, value: Any) -> None:
        """A default of the class; refuses one that is a size."""
        numbers = value if isinstance(value, list) else [value]
        if SIZE.search(key) and key not in NO_SIZE and all(type(each) is int for each in numbers):
            raise Refusal(pointer, "missing", self._lacking(key))
        if value is not None:
            self.taken[pointer] = value

    def _lacking(self, key: str) -> str:
        names = {other: real for real, other in self.row.aliases.items()}
        basic = [each for each in BASIC if each not in self and self.row.aliases.get(each) not in self]
        missing = list(dict.fromkeys([key, *basic])) if names.get(key, key) in BASIC else [key]
        said = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        within = [echo(name) for name, part in self.items() if isinstance(part, dict) and key in part]
        hint = f"; {', '.join(within)} has it: send that object alone" if within else ""
        return f"{said}: the sizes that {self.row.name} has by default are not those of another model{hint}"

    def refuse_unread(self) -> None:
        """Refuses keys that decide how positions are encoded, where the type that is assumed has no such thing."""
        for key in [each for each in self if each in DECIDES and each not in self.seen]:
            value = dict.get(self, key)
            if reads(self.row, key) or not matters(key, value, self.uses):
                continue
            readers = [name for name in assumable() if key in _keys(name)][:4]
            hint = f"; types that do: {', '.join(readers)}" if readers else ""
            detail = f"{key} is {echo(value)}, and {self.row.name} does not read it{hint}"
            raise Refusal(f"{self.where}/{key}", "conflict", f"{detail}; leave it out if it has no effect")

    def notes(self) -> list[str]:
        """The keys that were not read, and the defaults that stand for keys that are missing."""
        own = {*self.row.fields, *self.row.aliases, *self.row.parts}
        others = [key for key, value in self.items() if value is not None and key not in self.seen and key not in own]
        unread = [echo(key) for key in others if not COMMON.search(str(key))]
        found = [self.said] if self.said else []
        if unread:
            found.append(f"{self.row.name} does not read {_listed(unread)}{f' in {self.where}' if self.where else ''}")
        if self.taken:
            given = [f"{pointer} {echo(value)}" for pointer, value in self.taken.items()]
            found.append(f"not stated, and taken as in {self.row.name}: {_listed(given)}")
        return found


def _keys(name: str) -> set[str]:
    row = model_type(name)
    own = [value for key, value in row.rule.items() if key in ("theta_key", "partial_key", "head", "theta_times")]
    return {*row.fields, *row.aliases, *own}


def _listed(names: Iterable[str]) -> str:
    named = list(names)
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return ", ".join(named[:MOST_NAMED]) + more
