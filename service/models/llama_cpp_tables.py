"""Trained tables in the files of llama.cpp's converter: the token at n has row n there, whatever the class does."""

from collections.abc import Mapping

from service.models.plan import Value
from service.models.reading import Reading

Stored = tuple[Value, Mapping[str, Value], tuple[str, ...]]


def in_file(reading: Reading, rows: Value, rule: Mapping[str, Value]) -> Stored:
    """The rows of the file's table, how they are looked up, and what is to be said of it."""
    row = reading.llama_cpp
    if row is None or rule["offset_rule"].value != "roberta":
        return rows, rule, ()
    first = rule["padding_idx"].value + 1
    plain = {"offset_rule": Value("none", "class default", f"{reading.where}/model_type")}
    if row.get("cut"):
        return rows.replaced(rows.value - first), plain, (f"llama.cpp's converter leaves out the first {first} rows",)
    said = (
        f"llama.cpp looks up rows from 0: its converter keeps the first {first} of {reading.type.name}, behind which "
        "the class begins"
    )
    return rows, plain, (said,)
