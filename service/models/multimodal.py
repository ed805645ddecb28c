"""Position ids of models that turn by several axes: an address that counts them, for an example of a sequence.

`position_ids.json` says by type how text, pictures, videos and sound are counted, and by which keys of the file. What a
sequence holds is no matter of the configuration: the body is an example, to be exchanged for the caller's own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from service.models.addresses import ask
from service.models.context import Context
from service.models.known import model_type
from service.models.plan import Address, Use, Value
from service.models.reading import Reading

NOTE = "positions is for the example in its body: put the parts of your own sequence into segments"


@lru_cache(maxsize=1)
def _facts() -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((files("service.models.facts") / "position_ids.json").read_text("utf-8"))
    return content


@lru_cache(maxsize=512)
def _kind_of(name: str) -> Mapping[str, Any] | None:
    return next((_facts()["kinds"][kind] for kind, types in _facts()["types"].items() if name in types), None)


def with_positions(reading: Reading, parts: Mapping[str, Reading], context: Context, uses: Sequence[Use]) -> list[Use]:
    """The uses again, those that turn by several axes with the position ids of their whole."""
    kind, said = _kind_of(reading.type.name), _facts()["otherwise"].get(reading.type.name)
    if kind is None and said is None:
        return list(uses)
    notes: tuple[str, ...] = (said,) if kind is None else (NOTE, *kind.get("notes", ()))
    addresses = {}
    if kind is not None and context.options.preset != "transformers-5.24":
        notes = (f"position ids: {context.options.preset} counts them by code of its own, which is not stated here",)
    elif kind is not None:
        owners = [parts["vision_config"]] if "vision_config" in parts else []
        missing = [key for key in kind["keys"].values() if _stated([*owners, reading], key) is None]
        if missing:
            notes = (f"position ids: {missing[0]} is missing, without which they cannot be counted",)
        else:
            addresses = {"positions": _address([*owners, reading], kind)}
    return [
        replace(use, notes=(*use.notes, *notes), addresses={**use.addresses, **addresses}) if _turns(use) else use
        for use in uses
    ]


def _turns(use: Use) -> bool:
    """Whether a use turns by several axes, and nothing counts them yet."""
    several = use.encoding == "rope" and "mrope" in model_type(use.model_type).rule
    return several and "positions" not in use.addresses


def _stated(owners: Sequence[Reading], key: str) -> Value | None:
    """What the tower says, or the whole."""
    return next((found for each in owners if (found := each.integer(key)) is not None), None)


def _address(owners: Sequence[Reading], kind: Mapping[str, Any]) -> Address:
    """Parameters of the file, and the example."""
    found = {parameter: _stated(owners, key) for parameter, key in kind["keys"].items()}
    parameters = {parameter: value for parameter, value in found.items() if value is not None}
    more: Mapping[str, str] = kind["parameters"]
    address = ask("positions", "multimodal", parameters, **more).address()
    return replace(address, body={"segments": _example(kind["segments"], parameters)})


def _example(names: Sequence[str], parameters: Mapping[str, Value]) -> list[dict[str, Any]]:
    """Parts of a sequence: pictures of four by six tokens, videos of two frames."""
    merge = parameters["spatial_merge_size"].value if "spatial_merge_size" in parameters else 1
    frames = 2 * (parameters["temporal_merge_size"].value if "temporal_merge_size" in parameters else 1)
    rows, columns = 4 * merge, 6 * merge
    video = {"type": "video", "grid": [frames, rows, columns], "seconds_per_grid": 1.0}
    known: Mapping[str, dict[str, Any]] = {
        "text": {"type": "text", "tokens": 3},
        "frame": {"type": "text", "tokens": 1},
        "shared": {"type": "shared", "tokens": 2},
        "image": {"type": "image", "grid": [rows, columns]},
        "wider": {"type": "image", "grid": [rows, columns + merge]},
        "video": video if "positions_per_second" in parameters else {"type": "video", "grid": [frames, rows, columns]},
        "sounding": {**video, "audio_tokens": 50},
    }
    return [known[name] for name in names]
