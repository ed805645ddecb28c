"""Models made of parts, each built whole: none of their tables and rotations is missing in the plan, or another's.

The class is built from its own defaults, or from the little that it cannot do without; the service gets the same.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.models.fixtures import fetched, resolved
from tests.oracles.live_models import Array
from tests.oracles.live_wholes import GIVEN, rotary_frequencies, shapes, trained_tables, whole_model, without_libraries

pytestmark = pytest.mark.oracle

NOT_BUILT: Mapping[str, str] = {
    "higgs_audio_v2_tokenizer": "its file wants torchaudio",
    "nougat": "a name of vision-encoder-decoder, with a tower that is not known by the name it gives",
    "pp_chart2table": "a configuration of the class of another type (got_ocr2)",
    "pp_ocrv5_server_det": "convolutions whose sizes are all the file's",
    "pp_ocrv6_medium_det": "convolutions whose sizes are all the file's",
}
# What the class's own model does not hold, or what never turns.
ELSEWHERE: Mapping[str, set[tuple[int, ...]]] = {
    "pp_doclayout_v2": {(514, 512), (1024, 171), (1024, 170)},  # the reading order, of the class of boxes alone
}
TOWERS = ("timm_wrapper",)  # stood in for
UNTURNED = ("bamba",)  # no layer of its defaults has attention


def wholes() -> list[str]:
    configs = library("transformers").CONFIG_MAPPING
    return [name for name in configs if configs[name].sub_configs or name in GIVEN]


def tables_of(plan: Any) -> dict[tuple[int, ...], tuple[str, str]]:
    """Sizes of trained tables, axes of one entry left out: the encoding and the type of a part that has it."""
    found = {}
    for use in plan["uses"]:
        facts = use["facts"]
        for table in [*([facts["table"]] if "table" in facts else []), *facts.get("tables", ())]:
            found[tuple(size for size in table if size != 1)] = use["encoding"], use["model_type"]
    return found


def turning(client: Client, plan: Any) -> list[Array]:
    """Inverse frequencies of every use that turns."""
    found = []
    for use in plan["uses"]:
        if "frequencies" in use["addresses"]:
            length = {"seq_len": "1"} if "seq_len" in use["parameters"] else {}
            values = fetched(client, use["addresses"]["frequencies"], **length)["frequencies"].ravel()
            turn = 2 * np.pi if use["parameters"].get("angle_factor", {}).get("value") == "two-pi" else 1.0
            found.append(np.unique(values.astype(np.float64) / turn))
    return found


def alike(ours: Array, theirs: Array) -> bool:
    theirs = np.unique(theirs)
    return ours.shape == theirs.shape and bool(np.allclose(ours, theirs, rtol=3e-7, atol=0))


def faults(client: Client, name: str, model: Any) -> list[str]:
    """What the model has and the plan has not, and the other way round."""
    plan = resolved(client, {"model_type": name, **json.loads(json.dumps(GIVEN.get(name, {})))})
    ours, theirs, held = tables_of(plan), trained_tables(model), shapes(model)
    found = [f"no table {shape}: {where}" for shape, where in theirs.items() if shape not in ours]
    trained = {shape for shape, (encoding, part) in ours.items() if encoding == "learned" and part not in TOWERS}
    more = sorted(trained - held - ELSEWHERE.get(name, set()))
    found += [f"a table {shape} that the model has not" for shape in more]
    turned = turning(client, plan)
    for where, values in rotary_frequencies(model):
        if name not in UNTURNED and not any(alike(each, values) for each in turned):
            found.append(f"no use turns as {where}, {len(values)} pairs to {values.min()}")
    return found


def test_every_part_of_every_model_of_parts(direct: Client, capsys: pytest.CaptureFixture[str]) -> None:
    covered, failed, unbuilt = 0, {}, {}
    with without_libraries():
        for name in wholes():
            try:
                model = whole_model(name)
            except Exception as error:  # listed, and held against the list
                unbuilt[name] = str(error).strip().split("\n")[0][:120]
                continue
            found = faults(direct, name, model)
            covered += not found
            if found:
                failed[name] = found
    with capsys.disabled():
        print(f"\nmodels of parts: {covered} alike; not built: {len(unbuilt)}")
        for name, why in unbuilt.items():
            print(f"  not built: {name}: {NOT_BUILT.get(name, why)}")
        for name, lines in failed.items():
            print("\n".join(f"  {name}: {line}" for line in lines))
    assert not failed
    assert set(unbuilt) == set(NOT_BUILT)
