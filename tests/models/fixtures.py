"""Published configurations with their right answers, and how an answer of the service is held against one.

`configs/*.json`: `config` is what a repository publishes (its positional keys and sizes) or a GGUF header's keys;
`status` says who is right, `expected` what is. Inverse frequencies are the shortest decimals of float32 values.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np

from tests.clients import Client
from tests.oracles.answers import Array, read_safetensors
from tests.oracles.exact import ulps_apart

FOLDER = Path(__file__).parent / "configs"
JSON = {"Content-Type": "application/json"}


def fixtures() -> dict[str, dict[str, Any]]:
    """Every file by its name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def resolved(client: Client, config: Mapping[str, Any], **query: str) -> Any:
    """The answer to a configuration."""
    answer = client.post("/v1/models/resolve", params=query, content=json.dumps(config).encode(), headers=JSON)
    assert answer.status_code == 200, answer.text
    return answer.json()


def fetched(client: Client, address: Mapping[str, Any], **changes: str) -> dict[str, Array]:
    """Every tensor that an address of a plan answers with; a change of None takes a parameter away."""
    parts = urlsplit(address["href"])
    query = dict(parse_qsl(parts.query)) | changes
    for name in [name for name, value in query.items() if not value]:
        del query[name]
    target = f"{parts.path}.safetensors?{urlencode(query, safe=',')}"
    if address["method"] == "GET":
        answer = client.get(target)
    else:
        answer = client.post(target, content=json.dumps(address.get("body", {})).encode(), headers=JSON)
    assert answer.status_code == 200, (target, answer.text)
    return read_safetensors(answer.content)


def layers(text: str) -> list[int]:
    """Layer numbers as the files write them.

    >>> layers("0-2,5"), layers("all 3")
    ([0, 1, 2, 5], [0, 1, 2])
    """
    if text.startswith("all "):
        return list(range(int(text.split()[1])))
    found: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def scope(text: str) -> str:
    """A scope of the files as the pointer of the plan."""
    return "" if text == "top level" else "/" + text.replace(".", "/")


def of_scope(plan: Any, wanted: str, label: str | None) -> dict[str, Any]:
    """The rotary use of that part of the configuration, and of that kind of layers.

    Old files keep the text model's keys at the top level: there the plan's pointers are, and the file's scope is not.
    """
    turning = [use for use in plan["uses"] if use["encoding"] in ("rope", "rope-axes")]
    found = [use for use in turning if use["scope"] == scope(wanted)]
    if not found and wanted in ("text_config", "encoder"):
        found = [use for use in turning if use["scope"] == ""]
    if label is not None:
        label = {"main": "sliding_attention", "compress": "compressed_sparse_attention"}.get(label, label)
        found = [use for use in found if use["layer_type"] == label]
    assert found, (wanted, label, [(use["scope"], use["layer_type"], use["encoding"]) for use in plan["uses"]])
    use: dict[str, Any] = found[0]
    return use


PAIRINGS = {
    "half": ("half", None),
    "interleaved": ("interleaved", None),
    "interleaved-in/half-out": ("interleaved", "half"),
}


def check_rope(client: Client, plan: Any, row: Mapping[str, Any]) -> None:
    """One rotary row: width, pairing, attention factor, and the frequencies that the plan's address answers with."""
    use = of_scope(plan, row["scope"], row.get("applies_to"))
    parameters = {name: each["value"] for name, each in use["parameters"].items()}
    pairing, _, _ = row["pairing"].partition(",")
    turns = parameters.get("pairing"), parameters.get("output_pairing")
    if use["encoding"] == "rope-axes":
        assert (turns[0] or "half").startswith(PAIRINGS[pairing][0])
    else:
        assert turns == PAIRINGS[pairing], (turns, row["pairing"])
    assert np.isclose(use["facts"]["attention_factor"], row["attention_factor"], rtol=1e-15)
    if "rotary_width" in row and use["encoding"] == "rope":
        assert use["facts"]["rotary_dim"] == row["rotary_width"]
    if row.get("mrope_section"):
        assert list(use["facts"]["mrope_section"]) == row["mrope_section"]
    for _name, query, wanted in expected_frequencies(row):
        ours = fetched(client, use["addresses"]["frequencies"], **query)["frequencies"].ravel()
        ours = ours[: len(wanted)]
        assert ours.shape == wanted.shape
        assert ulps_apart(ours, wanted).max() <= 2


def expected_frequencies(row: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], Array]]:
    """(which, change of the address, float32 values)."""
    if "inv_freq" in row:
        yield "inv_freq", {}, np.array(row["inv_freq"], np.float64).astype(np.float32)
    if "inv_freq_short" in row:
        longest = int(row["original_max_position_embeddings"])
        yield "short", {"seq_len": str(longest)}, np.array(row["inv_freq_short"], np.float64).astype(np.float32)
        yield "long", {"seq_len": str(longest + 1)}, np.array(row["inv_freq_long"], np.float64).astype(np.float32)
    for each in row.get("by_length", ()):
        length = str(each.get("seq_len", each.get("length")))
        yield length, {"seq_len": length}, np.array(each["inv_freq"], np.float64).astype(np.float32)


def check_layers(plan: Any, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Which layers are of which kind, and how wide their windows are."""
    for wanted, row in rows.items():
        uses = [use for use in plan["uses"] if use["scope"] == scope(wanted)]
        uses = uses or [use for use in plan["uses"] if use["scope"] == ""]
        for label, text in row.items():
            if label == "sliding_window":
                sizes = {use["window"]["size"] for use in uses if use["window"] and use["window"]["kind"] == "sliding"}
                assert sizes <= {text}, (sizes, text)
            elif label == "attention_chunk_size":
                sizes = {use["window"]["size"] for use in uses if use["window"] and use["window"]["kind"] == "chunked"}
                assert sizes <= {text}, (sizes, text)
            elif label in ("rope_layers", "nope_layers"):
                turning = [use for use in uses if (use["encoding"] == "none") == (label == "nope_layers")]
                assert sorted(chain.from_iterable(use["layers"] for use in turning)) == layers(text), label
            else:
                found = sorted(chain.from_iterable(use["layers"] for use in uses if use["layer_type"] == label))
                plain = [use for use in uses if use["layer_type"] is None and use["layers"]]
                if not found and label == "full_attention" and plain:
                    found = sorted(chain.from_iterable(use["layers"] for use in plain))
                assert found == layers(text), (label, found, text)
