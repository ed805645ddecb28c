"""160 published configurations, each held against its right answer or the refusal that is right."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from service.models.catalogue import checkpoints
from tests.clients import Client
from tests.models.fixtures import JSON, check_layers, check_rope, fetched, fixtures, resolved
from tests.oracles.exact import ulps_apart

FIXTURES = fixtures()
NOT_YET: dict[str, str] = {}


def parameter(name: str) -> Any:
    marks = [pytest.mark.xfail(reason=NOT_YET[name], strict=True)] if name in NOT_YET else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [parameter(name) for name in FIXTURES])
def test_a_published_configuration(direct: Client, name: str) -> None:
    fixture = FIXTURES[name]
    CHECKS[fixture["status"]](direct, fixture)


def test_every_file_is_tried_and_few_are_not_yet_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(FIXTURES) == 160
    assert set(NOT_YET) <= set(FIXTURES)
    with capsys.disabled():
        print(f"\npublished configurations: {len(FIXTURES) - len(NOT_YET)} of {len(FIXTURES)} right")


def oracle(client: Client, fixture: Mapping[str, Any]) -> None:
    plan = resolved(client, fixture["config"])
    for row in fixture["expected"]["rope"]:
        check_rope(client, plan, row)
    check_layers(plan, fixture["expected"].get("layers", {}))


def without(client: Client, fixture: Mapping[str, Any]) -> None:
    """No positions in the text model, whatever its rope keys say; a vision tower within may turn."""
    plan, expected = resolved(client, fixture["config"]), fixture["expected"]
    for row in expected.get("rope", []):
        check_rope(client, plan, row)
    text = [use for use in plan["uses"] if use["role"] == "text-attention"]
    assert text
    assert {use["encoding"] for use in text} == {"none"}
    check_layers(plan, expected.get("layers", {}))


def outside(client: Client, fixture: Mapping[str, Any]) -> None:
    """A type that transformers does not know: refused by name."""
    answer = client.post("/v1/models/resolve", content=json.dumps(fixture["config"]).encode(), headers=JSON)
    if answer.status_code == 200:
        plan, wanted = answer.json(), fixture["expected"]["answer_if_assumed"]
        assert plan["notes"]
        for row in wanted["rope"]:
            check_rope(client, plan, row)
        return
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["errors"][0]["pointer"] == "/model_type"
    given = fixture["config"].get("model_type")
    assert (given or "model_type is missing") in problem["detail"]


def raises(client: Client, fixture: Mapping[str, Any]) -> None:
    """What the library cannot build: refused by the key at fault."""
    answer = client.post("/v1/models/resolve", content=json.dumps(fixture["config"]).encode(), headers=JSON)
    if answer.status_code == 200:
        plan = answer.json()
        assert plan["notes"] or any(use["notes"] for use in plan["uses"])
        for row in fixture["expected"]["intended"]["rope"]:
            check_rope(client, plan, row)
        return
    assert answer.status_code == 422, answer.text
    assert any(key in answer.text for key in ("layer_types", "attn_temperature_tuning")), answer.text


def plain(client: Client, fixture: Mapping[str, Any]) -> None:
    """Sizes of trained tables, the first token's row, buckets, and rows of sinusoids."""
    plan, expected = resolved(client, fixture["config"]), fixture["expected"]
    uses = plan["uses"]
    for name, shape in expected.get("tables", {}).items():
        assert any(tuple(shape) == plain_shape(table) for table in tables(plan)), (name, shape, tables(plan))
    for name in ("first_token_row",):
        if name in expected:
            assert expected[name] in [use["facts"].get("first_row") for use in uses], uses
    for name in ("num_buckets", "max_distance", "position_buckets", "max_relative_positions", "left", "right", "heads"):
        if name in expected:
            assert expected[name] in told(uses, name), (name, told(uses, name))
    for name in ("rows", "width", "padding_idx", "decoder_rows", "t2u_decoder_rows"):
        if name in expected:
            assert expected[name] in told(uses, name.rpartition("_")[2] if name.endswith("rows") else name), name
    if "table" in expected:
        check_sinusoid(client, uses, expected)
    check_buckets(client, uses, expected)
    check_words(plan, fixture)
    check_others(client, uses, expected)


def tables(plan: Any) -> list[Any]:
    found = [use["facts"]["table"] for use in plan["uses"] if "table" in use["facts"]]
    return found + [
        table for use in plan["uses"] for table in use["facts"].get("tables", []) if isinstance(table, list)
    ]


def plain_shape(table: Any) -> tuple[Any, ...]:
    """A table without the axes of one that only broadcast in front of a flat table."""
    return tuple(table[1:]) if len(table) == 3 and table[0] == 1 and table[1] > 512 else tuple(table)


def told(uses: Any, name: str) -> list[Any]:
    """What parameters and facts of the uses say of a name."""
    said = [use["parameters"][name]["value"] for use in uses if name in use["parameters"]]
    return said + [use["facts"][name] for use in uses if name in use["facts"]]


def check_sinusoid(client: Client, uses: Any, expected: Mapping[str, Any]) -> None:
    """First and last four channels of some rows: rows of the table are positions."""
    found = [
        use
        for use in uses
        if use["scheme"] == "encodings/sinusoidal" and use["facts"].get("width") == expected["width"]
    ]
    assert found
    use = found[0]
    rows = [int(row) for row in expected["table"]]
    whole = "standardisation" in use["parameters"]
    change = {} if whole else {"length": "", "positions": ",".join(map(str, rows))}
    ours = fetched(client, use["addresses"]["tables"], **change)["encoding"]
    ours = ours[rows] if whole else ours
    for row, (text, wanted) in zip(ours, expected["table"].items(), strict=True):
        theirs = np.array([*wanted["first4"], *wanted["last4"]], np.float64).astype(np.float32)
        mine = np.concatenate([row[:4], row[-4:]])
        # Two float32 pipelines: the angle may be wrong by an ulp of its own, which the position multiplies.
        near = 2.0**-23 * (2 * max(1, int(text)) + 2)
        assert np.abs(mine - theirs).max() <= near, (text, mine, theirs)


def check_buckets(client: Client, uses: Any, expected: Mapping[str, Any]) -> None:
    """Buckets of distances from keys to queries."""
    wanted = {
        "bidirectional_encoder": ("biases/t5-buckets", "bidirectional"),
        "unidirectional_decoder": ("biases/t5-buckets", "causal"),
        "bucket_of_rel": (None, None),
        "index_of_rel": ("biases/shaw", None),
    }
    for name, (scheme, direction) in wanted.items():
        if name not in expected:
            continue
        found = [
            use
            for use in uses
            if (scheme is None or use["scheme"] == scheme)
            and (direction is None or use["parameters"]["direction"]["value"] == direction)
            and use["scheme"] in ("biases/t5-buckets", "biases/shaw", "biases/deberta-buckets")
        ]
        distances = {int(key): value for key, value in expected[name].items()}
        most = max(abs(distance) for distance in distances)
        size = {"length": "", "queries": str(2 * most + 1), "keys": str(2 * most + 1), "offset": "0"}
        [table] = fetched(client, found[0]["addresses"]["tables"], **size).values()
        back = found[0]["scheme"] == "biases/deberta-buckets"
        for distance, bucket in distances.items():
            query, key = (most + distance, most) if back else (most, most + distance)
            assert table[query, key] == bucket, (distance, table[query, key], bucket)


def check_words(plan: Any, fixture: Mapping[str, Any]) -> None:
    """What the file says in words only."""
    expected, encodings = fixture["expected"], {use["encoding"] for use in plan["uses"]}
    if "intended" in expected:
        keys = ("alibi_starting_size", "pos_embd")
        assert any(key in json.dumps(plan) for key in keys), "the plan warns of what the class ignores"
    kinds = {
        "DETR sine": "detr",
        "DAB-DETR": "detr",
        "trainable position table": "learned",
        "none (recurrent)": "none",
        "relative_shift": "transformer-xl",
        "ALiBi key-relative": "alibi",
        "learned absolute": "learned",
        "sinusoid F": "sinusoidal",
        "gated relative": "t5",
        "Swin v2": "swin-v2",
    }
    for word, encoding in kinds.items():
        if expected["scheme"].startswith(word):
            assert encoding in encodings, encodings


def check_others(client: Client, uses: Any, expected: Mapping[str, Any]) -> None:
    """ALiBi's slopes, the coordinates of Swin v2, DeBERTa's sum, BEiT's rows of the class token."""
    if "slopes" in expected:
        [use] = uses
        slopes = fetched(client, use["addresses"]["slopes"])["slopes"]
        assert ulps_apart(slopes, np.array(expected["slopes"], np.float64).astype(np.float32)).max() <= 1
        bias = fetched(client, use["addresses"]["tables"], length="", queries="1", keys="8")["bias"]
        theirs = np.array(expected["bias_head0_K8"], np.float64).astype(np.float32)
        assert ulps_apart(bias[0, 0], theirs).max() <= 1
    for name in ("pos_att_type", "absolute_positions_added", "attention_scale"):
        if name in expected:
            assert expected[name] in told(uses, name)
    for name, row in expected.get("cls_rows", {}).items():
        assert row in told(uses, name)
    for stage, wanted in expected.get("coords", {}).items():
        number = 3 if "3" in stage.partition("(")[0] else 0
        [use] = [use for use in uses if use["facts"].get("stage") == number]
        [table] = fetched(client, use["addresses"]["tables"]).values()
        table = table.reshape(*wanted["coords_shape"][1:])
        theirs = np.array([wanted["row0_dw"][0], *wanted["row0_dw"]], np.float64).astype(np.float32)
        assert np.abs(np.array([table[0, 0, 0], *table[0, :, 1]]) - theirs).max() <= 2e-7
        [index] = fetched(client, use["addresses"]["index"]).values()
        assert index[-1, :4].tolist() == wanted["index_last_row_first4"]
        assert index[0, :4].tolist() == wanted["index_first_row_first4"]


def gguf(client: Client, fixture: Mapping[str, Any]) -> None:
    """ggml's rules: its mode's pairing, its frequencies within a rounding a pair, no RoPE without a key."""
    expected = fixture["expected"]
    if "general.architecture" not in fixture["config"]["gguf"]:
        # A quoted tensor alone: what it belongs to is not in the file, and is asked for.
        answer = client.post("/v1/models/resolve", content=json.dumps(fixture["config"]).encode(), headers=JSON)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/gguf/general.architecture"
        whole = {"general.architecture": "llama", "llama.rope.freq_base": row_of(fixture)["freq_base"]}
        whole |= {"llama.rope.dimension_count": 128, "rope_freqs.weight": row_of(fixture)["divisors"]}
        check_ggml(client, resolved(client, whole)["uses"], row_of(fixture))
        return
    plan = resolved(client, fixture["config"], preset="llama.cpp")
    if "rope" not in expected:
        assert not [use for use in plan["uses"] if use["encoding"].startswith("rope")]
        for shape in expected["tables"].values():
            assert shape in tables(plan)
        return
    turning = [use for use in plan["uses"] if use["encoding"] == "rope"]
    [row] = expected["rope"]
    check_ggml(client, turning, row)
    if "sliding_layers" in row:
        sliding = {**row, **row["sliding_layers"]}
        check_ggml(client, [use for use in turning if use["layer_type"] == "sliding_attention"], sliding)


def row_of(fixture: Mapping[str, Any]) -> Any:
    [row] = fixture["expected"]["rope"]
    return row


def check_ggml(client: Client, turning: Any, row: Mapping[str, Any]) -> None:
    wanted = np.array(row.get("inv_freq", row["inv_freq_first_axis"]), np.float64)
    pairing = "half" if row["ggml_mode"].endswith("half") else "interleaved"
    tried = []
    for use in turning:
        assert use["parameters"]["pairing"]["value"] == pairing
        assert use["facts"]["rotary_dim"] == row["rotary_width"]
        ours = fetched(client, use["addresses"]["frequencies"])["frequencies"].ravel().astype(np.float64)
        tried.append(np.abs(ours / wanted - 1).max() if ours.shape == wanted.shape else np.inf)
        if tried[-1] < 64 * 2.0**-23:
            assert np.isclose(use["facts"]["attention_factor"], row["attention_factor"], rtol=1e-6)
            if "softmax_scale_multiplier" in row:
                assert np.isclose(use["facts"]["softmax_factor"], row["softmax_scale_multiplier"], rtol=1e-6)
            return
    raise AssertionError(tried)


CHECKS: Mapping[str, Callable[[Client, Mapping[str, Any]], None]] = {
    "oracle": oracle,
    "no positional encoding": without,
    "outside transformers 5.24": outside,
    "transformers 5.24 raises": raises,
    "non-RoPE": plain,
    "non-RoPE, intent differs": plain,
    "gguf rule": gguf,
}


def test_checkpoints_hold_what_was_published() -> None:
    """Every checkpoint says where its values are from; those with a file here hold that file's."""
    assert len(checkpoints()) >= 60
    assert all(row["source"] for row in checkpoints().values())
    here = {name: row for name, row in checkpoints().items() if name in FIXTURES}
    assert len(here) >= 60
    assert {row["source"] for row in here.values()} == {"the published file"}
    for name, row in here.items():
        assert within(row["config"], FIXTURES[name]["config"]), name


def within(part: Any, whole: Any) -> bool:
    """Whether every key of an object, and of the objects in it, is in another with the same value."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    return bool(part == whole)
