"""A pasted Hugging Face block: in a JSON body, in the query, refused where it does not fit."""

import io
import json
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from tests.api.problems import fault, refused
from tests.clients import Client

ROPE, TURN = "/v1/encodings/rope", "/v1/apply/rope"
YARN = {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32768, "rope_theta": 1e6}
SPELLED = "rope_type=yarn&factor=4&original_max_position_embeddings=32768&base=1e6"
NESTED = {
    "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "chunked_attention": None,
    "original_max_position_embeddings": 4096,
}

TRAINED = {"original_max_position_embeddings": 16, "max_position_embeddings": 64}
LONG = {"rope_type": "longrope", "short_factor": [1, 1, 1, 1], "long_factor": [1, 1, 1, 1], **TRAINED}


def posted(client: Client, query: str, body: dict[str, Any]) -> Any:
    answer = client.post(f"{ROPE}?{query}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("name", ["rope_parameters", "rope_scaling"])
def test_a_block_in_a_body_is_the_parameters_spelled_out(direct: Client, name: str) -> None:
    spelled = direct.get(f"{ROPE}?dim=8&length=3&{SPELLED}").json()
    assert posted(direct, "dim=8&length=3", {name: YARN}) == spelled
    at_positions = posted(direct, "dim=8", {name: YARN, "positions": [0, 1, 2]})
    assert at_positions["tensors"] == spelled["tensors"]
    assert spelled["parameters"]["rope_type"] == "yarn"
    assert spelled["facts"]["attention_factor"] == pytest.approx(1.138629436, rel=1e-9)


def test_a_block_in_the_query_is_the_same_request(direct: Client) -> None:
    spelled = direct.get(f"{ROPE}?dim=8&length=3&{SPELLED}")
    pasted = direct.get(f"{ROPE}?dim=8&length=3&rope_parameters={quote(json.dumps(YARN))}")
    assert pasted.headers["etag"] == spelled.headers["etag"]
    assert pasted.content == spelled.content
    null = direct.get(f"{ROPE}?dim=8&length=3&rope_scaling=null")
    assert null.headers["etag"] == direct.get(f"{ROPE}?dim=8&length=3").headers["etag"]


def test_beside_a_binary_body_and_beside_tensors(direct: Client) -> None:
    x = np.random.default_rng(5).standard_normal((3, 8)).astype(np.float32)
    spelled = direct.post(f"{TURN}?{SPELLED}", json={"tensors": {"q": x.tolist()}}).json()["tensors"]
    in_body = direct.post(TURN, json={"tensors": {"q": x.tolist()}, "rope_parameters": YARN}).json()["tensors"]
    assert in_body == spelled
    header = json.dumps({"q": {"dtype": "F32", "shape": [3, 8], "data_offsets": [0, 96]}}).encode()
    binary = direct.post(
        f"{TURN}?rope_scaling={quote(json.dumps(YARN))}",
        content=len(header).to_bytes(8, "little") + header + x.tobytes(),
        headers={"Content-Type": "application/octet-stream"},
    ).json()["tensors"]
    assert binary == spelled


def test_a_truth_value_in_an_address(direct: Client) -> None:
    for truncate in ("true", "false"):
        pasted = posted(direct, "dim=64&length=1", {"rope_parameters": {**YARN, "truncate": truncate == "true"}})
        assert pasted == direct.get(f"{ROPE}?dim=64&length=1&{SPELLED}&truncate={truncate}").json()
    answer = direct.get(f"{ROPE}?dim=64&length=1&{SPELLED}&truncate=1")
    assert fault(refused(answer, "invalid-parameters"), "truncate")["code"] == "truth"


def test_a_preset_lies_beneath_a_block_and_the_query_above(direct: Client) -> None:
    body = {"rope_parameters": {**YARN, "truncate": False}}
    given = posted(direct, "dim=8&length=1&preset=llama.cpp", body)["parameters"]
    assert (given["arithmetic"], given["truncate"], given["factor"]) == ("ggml", False, 4)
    assert (
        posted(direct, "dim=8&length=1&preset=llama.cpp&arithmetic=exact", body)["parameters"]["arithmetic"] == "exact"
    )


def test_a_layer_type_chooses(direct: Client) -> None:
    full = posted(direct, "dim=8&length=1&layer_type=full_attention", {"rope_parameters": NESTED})["parameters"]
    assert (full["rope_type"], full["factor"], full["base"]) == ("linear", 8, 1e6)
    sliding = posted(direct, "dim=8&length=1&layer_type=sliding_attention", {"rope_parameters": NESTED})["parameters"]
    assert (sliding["rope_type"], sliding["base"]) == ("default", 1e4)


def test_without_one_every_layer_type_is_answered(direct: Client) -> None:
    whole = posted(direct, "dim=8&length=3", {"rope_parameters": NESTED})
    assert list(whole["tensors"]) == [
        "full_attention.cos",
        "full_attention.sin",
        "sliding_attention.cos",
        "sliding_attention.sin",
    ]
    for layer in ("full_attention", "sliding_attention"):
        alone = posted(direct, f"dim=8&length=3&layer_type={layer}", {"rope_parameters": NESTED})
        assert whole["parameters"]["layers"][layer] == alone["parameters"]
        assert whole["facts"]["layers"][layer] == alone["facts"]
        for name, tensor in alone["tensors"].items():
            assert whole["tensors"][f"{layer}.{name}"] == tensor
    assert whole["parameters"]["without"] == ["chunked_attention"]
    assert whole["notes"] == [
        "full_attention: original_max_position_embeddings has no effect with rope_type=linear",
        "sliding_attention: original_max_position_embeddings has no effect with rope_type=default",
        "chunked_attention is null: those layers have no encoding",
    ]


def test_truncate_within_a_type_of_layer_is_asked_unless_the_rule_says_beside_them(direct: Client) -> None:
    within = {
        "rope_parameters": {"full_attention": {**YARN, "truncate": False}, "sliding_attention": {"rope_theta": 1e4}}
    }
    beside = {"rope_parameters": {"truncate": False, **within["rope_parameters"]}}
    for chosen in ("&truncate_rule=beside-layers", "&preset=transformers-5.24"):
        for layer in ("", "&layer_type=full_attention"):
            answers = [posted(direct, f"dim=8&length=1{chosen}{layer}", body) for body in (within, beside)]
            found = [answer["parameters"] if layer else answer["parameters"]["layers"]["full_attention"]
                     for answer in answers]  # fmt: skip
            assert [each["truncate"] for each in found] == [True, False]
    flat = posted(direct, "dim=8&length=1&preset=transformers-5.24", {"rope_parameters": {**YARN, "truncate": False}})
    assert flat["parameters"]["truncate"] is False
    for chosen in ("", "&truncate_rule=stated", "&preset=transformers-4.57"):
        answer = posted(direct, f"dim=8&length=1&layer_type=full_attention{chosen}", within)
        assert answer["parameters"]["truncate"] is False


def test_all_layer_types_as_files_and_from_an_address(direct: Client) -> None:
    pasted = quote(json.dumps({"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}))
    address = f"{ROPE}.npz?dim=8&length=3&rope_parameters={pasted}"
    whole = direct.get(address)
    with np.load(io.BytesIO(whole.content)) as found:
        assert list(found)[:4] == ["full_attention.cos", "full_attention.sin", "sliding_attention.cos",
                                   "sliding_attention.sin"]  # fmt: skip
        for layer, base in (("full_attention", "1e6"), ("sliding_attention", "1e4")):
            alone = np.load(io.BytesIO(direct.get(f"{ROPE}.npy?dim=8&length=3&base={base}").content))
            assert np.array_equal([found[f"{layer}.cos"], found[f"{layer}.sin"]], alone)
    again = direct.get(address, headers={"If-None-Match": whole.headers["etag"]})
    assert again.status_code == 304
    one = direct.get(f"{ROPE}.bin?dim=8&length=3&rope_parameters={pasted}&tensor=sliding_attention.sin")
    assert one.content == direct.get(f"{ROPE}.bin?dim=8&length=3&tensor=sin").content
    assert one.headers["content-disposition"].endswith('rope-sliding_attention.sin_3x8_float32.bin"')


def test_vectors_are_turned_for_every_layer_type(direct: Client) -> None:
    tensors = {"q": np.random.default_rng(5).standard_normal((3, 8)).tolist(), "k": [[1.0] * 8] * 3}
    body = {"tensors": tensors, "rope_parameters": NESTED}
    whole = direct.post(f"{TURN}?offset=40", json=body).json()["tensors"]
    for layer in ("full_attention", "sliding_attention"):
        alone = direct.post(f"{TURN}?offset=40&layer_type={layer}", json=body).json()["tensors"]
        assert {name: whole[f"{layer}.{name}"] for name in ("q", "k")} == alone
    assert whole["full_attention.q"] != whole["sliding_attention.q"]


def test_d25_a_flat_request_with_both_bases_has_two_named_tables(direct: Client) -> None:
    """Gemma 3: local layers have the base 1e4, global ones 1e6 and linear 8; pair 64 of 256 channels at 800."""
    flat = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6, "rope_local_base_freq": 1e4}
    body = {"positions": [800], "rope_parameters": flat}
    tables = posted(direct, "dim=256&output=angles", body)["tensors"]
    assert tables["sliding_attention.angles"]["data"][0][64] == pytest.approx(8.0, rel=1e-7)
    assert tables["full_attention.angles"]["data"][0][64] == pytest.approx(0.1, rel=1e-7)
    local = posted(direct, "dim=256&output=angles&layer_type=sliding_attention", body)
    assert local["tensors"]["angles"] == tables["sliding_attention.angles"]
    null = posted(direct, "dim=8&length=1", {"rope_scaling": {"rope_theta": 5e5, "rope_local_base_freq": None}})
    assert null["parameters"]["base"] == 5e5


def test_axes_in_a_pasted_block(direct: Client) -> None:
    block: dict[str, Any] = {"type": "mrope", "mrope_section": [2, 1, 1], "rope_theta": 1e6}
    body: dict[str, Any] = {"positions": [[5, 6, 7], [8, 8, 8]], "rope_scaling": block}
    pasted = direct.post("/v1/encodings/rope-axes?dim=8", json=body).json()
    spelled = direct.post(
        "/v1/encodings/rope-axes?dim=8&sections=2,1,1&base=1e6", json={"positions": body["positions"]}
    ).json()
    assert pasted == spelled
    assert pasted["facts"]["axes_of_columns"] == "tthwtthw"
    woven = {**body, "rope_scaling": {**block, "mrope_interleaved": True, "mrope_section": [4, 0, 0]}}
    assert direct.post("/v1/encodings/rope-axes?dim=8", json=woven).json()["facts"]["axes_of_columns"] == "t" * 8
    twice = direct.post("/v1/encodings/rope-axes?dim=8&sections=2,1,1", json=body)
    assert fault(refused(twice, "invalid-parameters"), "/rope_scaling/mrope_section")["code"] == "repeated"
    wrong = direct.post("/v1/encodings/rope-axes?dim=16", json=body)
    assert (
        "sum to 4, expected 8" in fault(refused(wrong, "invalid-parameters"), "/rope_scaling/mrope_section")["detail"]
    )
    letters = direct.post(
        "/v1/encodings/rope-axes?dim=8", json={**body, "rope_scaling": {**block, "mrope_section": ["a", 1, 1]}}
    )
    assert "entry 0" in fault(refused(letters, "invalid-parameters"), "/rope_scaling/mrope_section")["detail"]


@pytest.mark.parametrize(
    ("query", "body", "place", "code", "meant"),
    [
        ("", {"rope_scaling": {"type": "linear", "facter": 2}}, "/rope_scaling/facter", "unknown", "factor"),
        ("", {"rope_scaling": {"a/b~": 2}}, "/rope_scaling/a~1b~0", "unknown", None),
        ("", {"rope_scaling": {"type": "lineer"}}, "/rope_scaling/type", "choice", "linear"),
        ("", {"rope_scaling": {"rope_type": 5}}, "/rope_scaling/rope_type", "choice", None),
        ("", {"rope_scaling": {"type": "linear", "factor": "x"}}, "/rope_scaling/factor", "number", None),
        ("", {"rope_scaling": {"type": "linear", "factor": True}}, "/rope_scaling/factor", "number", None),
        ("", {"rope_scaling": {"type": "linear", "factor": 0.5}}, "/rope_scaling/factor", "out_of_range", None),
        ("", {"rope_scaling": {"type": "linear", "factor": [2]}}, "/rope_scaling/factor", "type", None),
        ("", {"rope_scaling": {"type": "linear", "factor": {"a": 1}}}, "/rope_scaling/factor", "type", None),
        ("", {"rope_scaling": {**LONG, "short_factor": 2}}, "/rope_scaling/short_factor", "type", None),
        ("", {"rope_scaling": {**LONG, "seq_len": [2]}}, "/rope_scaling/seq_len", "type", None),
        ("", {"rope_scaling": {"type": "yarn", "truncate": 1}}, "/rope_scaling/truncate", "truth", None),
        ("", {"rope_scaling": {"type": "linear"}}, "/rope_scaling/factor", "missing", None),
        ("&rope_scaling=%7B%22type%22:%22linear%22%7D", {"positions": [1]}, "rope_scaling", "missing", None),
        ("", {"rope_scaling": {**LONG, "short_factor": [1, 1]}}, "/rope_scaling/short_factor", "shape", None),
        (
            "",
            {"rope_parameters": {"a": {}, "b": {**LONG, "long_factor": [1]}}},
            "/rope_parameters/b/long_factor",
            "shape",
            None,
        ),
        (
            "",
            {"rope_parameters": {"a": {"rope_type": "yarn", "rope_theta": 1, "factor": 2, **TRAINED}}},
            "/rope_parameters/a/rope_theta",
            "out_of_range",
            None,
        ),
        ("&base=1", {"rope_parameters": {"rope_type": "yarn", "factor": 2, **TRAINED}}, "base", "out_of_range", None),
        ("", {"rope_scaling": {"type": "linear", "rope_type": "yarn"}}, "/rope_scaling/type", "conflict", None),
        ("", {"rope_scaling": []}, "/rope_scaling", "type", None),
        ("", {"rope_scaling": "yarn"}, "/rope_scaling", "type", None),
        ("", {"rope_scaling": {}, "rope_parameters": {}}, "/rope_scaling", "repeated", None),
        ("&factor=2", {"rope_scaling": YARN}, "/rope_scaling/factor", "repeated", None),
        ("&base=2", {"rope_scaling": YARN}, "/rope_scaling/rope_theta", "repeated", None),
        ("&base=0", {"rope_scaling": {}}, "base", "out_of_range", None),
        (
            "",
            {"rope_parameters": {**NESTED, "full_attention": {"type": "linear", "facter": 2}}},
            "/rope_parameters/full_attention/facter",
            "unknown",
            "factor",
        ),
        (
            "",
            {"rope_parameters": {**NESTED, "full_attention": {"type": "linear", "factor": 0.5}}},
            "/rope_parameters/full_attention/factor",
            "out_of_range",
            None,
        ),
        (
            "&layer_type=full_attention",
            {"rope_parameters": {**NESTED, "original_max_position_embeddings": 0}},
            "/rope_parameters/original_max_position_embeddings",
            "out_of_range",
            None,
        ),
        (
            "&base=5",
            {"rope_parameters": NESTED},
            "/rope_parameters/full_attention/rope_theta",
            "repeated",
            None,
        ),
        ("", {"rope_parameters": {"../up": {"rope_theta": 5.0}}}, "/rope_parameters/..~1up", "value", None),
        ("", {"rope_parameters": {f"layer{n}": {} for n in range(17)}}, "/rope_parameters", "too_large", None),
        ("", {"rope_parameters": {"a": {}, "b": {"type": "linear"}}}, "/rope_parameters/b/factor", "missing", None),
        ("&layer_type=full", {"rope_parameters": NESTED}, "layer_type", "choice", None),
        ("&layer_type=full_attentoin", {"rope_parameters": NESTED}, "layer_type", "choice", "full_attention"),
        (
            "&layer_type=chunked_attention",
            {"rope_parameters": NESTED},
            "/rope_parameters/chunked_attention",
            "empty",
            None,
        ),
        ("&layer_type=full_attention", {"rope_parameters": YARN}, "layer_type", "conflict", None),
        ("&layer_type=full_attention", {"rope_parameters": None}, "layer_type", "conflict", None),
        ("&rope_scaling=%7B%7D", {"rope_parameters": {}}, "/rope_parameters", "repeated", None),
        ("&rope_scaling=%7B", {"rope_parameters": {}}, "rope_scaling", "json_syntax", None),
        ("&rope_scaling=5", {"positions": [1]}, "rope_scaling", "type", None),
        ("&rope_scaling=%7B%22facter%22:1%7D", {"positions": [1]}, "rope_scaling", "unknown", "factor"),
        ("", {"rope_paramters": YARN}, "/rope_paramters", "unknown", "rope_parameters"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_key(
    direct: Client, query: str, body: dict[str, Any], place: str, code: str, meant: str | None
) -> None:
    document = refused(
        direct.post(f"{ROPE}?dim=8&length=2{query}".replace("&length=2&rope", "&rope"), json=body), "invalid-parameters"
    )
    found = fault(document, place)
    assert (found["code"], found.get("did_you_mean")) == (code, meant)


@pytest.mark.parametrize(
    ("block", "spelled"),
    [
        ({"type": "linear", "factor": 2}, "rope_type=linear&factor=2"),
        ({"type": "linear", "rope_type": "linear", "factor": 2}, "rope_type=linear&factor=2"),
        ({"rope_type": None}, ""),
        ({"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 1.0}, "base=1e6"),
        (None, ""),
        ({"type": "mrope", "mrope_section": [2, 1, 1]}, ""),
        ({"rope_type": "default", "mrope_section": [2, 1, 1]}, ""),
        (
            {"type": "su", "short_factor": [1] * 4, "long_factor": [2] * 4, "original_max_position_embeddings": 16},
            "rope_type=longrope&short_factor=1,1,1,1&long_factor=2,2,2,2&original_max_position_embeddings=16",
        ),
    ],
)
@pytest.mark.parametrize("name", ["rope_parameters", "rope_scaling"])
def test_d22_every_spelling_of_the_type(direct: Client, name: str, block: object, spelled: str) -> None:
    more = "&factor=4" if "su" in json.dumps(block) else ""
    pasted = direct.get(f"{ROPE}?dim=8&length=3{more}&{name}={quote(json.dumps(block))}")
    plain = direct.get(f"{ROPE}?dim=8&length=3{more}&{spelled}".rstrip("&"))
    assert pasted.status_code == plain.status_code == 200, pasted.text
    assert pasted.json()["tensors"] == plain.json()["tensors"]


def test_d22_two_types_that_differ_are_both_named(direct: Client) -> None:
    block = {"type": "linear", "rope_type": "dynamic", "factor": 2}
    answer = direct.get(f"{ROPE}?dim=8&length=3&rope_scaling={quote(json.dumps(block))}")
    detail = fault(refused(answer, "invalid-parameters"), "rope_scaling")["detail"]
    assert "linear" in detail
    assert "dynamic" in detail


@pytest.mark.parametrize(
    ("lists", "place", "said"),
    [
        ({"short_factor": [1, 2, 0, 4], "long_factor": [1] * 4}, "short_factor", "entry 2 of short_factor is 0"),
        ({"short_factor": [1, 2, -1, 4], "long_factor": [1] * 4}, "short_factor", "entry 2 of short_factor is -1"),
        ({"short_factor": [1] * 4, "long_factor": [1, 2, 3, "a"]}, "long_factor", "entry 3"),
        ({"short_factor": [1] * 4, "long_factor": [1, True, 3, 4]}, "long_factor", "entry 1"),
        ({"short_factor": [1] * 4, "long_factor": [1, None, 3, 4]}, "long_factor", "entry 1"),
    ],
)
def test_d20_bad_entries_are_named_by_their_index(direct: Client, lists: dict[str, Any], place: str, said: str) -> None:
    block = {"type": "longrope", "factor": 2, "original_max_position_embeddings": 16, **lists}
    answer = direct.post(f"{ROPE}?dim=8&length=2", json={"rope_scaling": block})
    assert said in fault(refused(answer, "invalid-parameters"), f"/rope_scaling/{place}")["detail"]


def test_a_block_must_be_for_a_scheme_that_takes_one(direct: Client) -> None:
    answer = direct.get("/v1/encodings/sinusoidal?dim=8&length=2&rope_scaling=null")
    assert fault(refused(answer, "invalid-parameters"), "rope_scaling")["code"] == "unknown"
    answer = direct.post("/v1/encodings/sinusoidal?dim=8", json={"positions": [1], "rope_scaling": None})
    assert fault(refused(answer, "invalid-parameters"), "/rope_scaling")["code"] == "unknown"
    answer = direct.get(f"{ROPE}?dim=8&length=2&layer_type=full_attention")
    assert fault(refused(answer, "invalid-parameters"), "layer_type")["code"] == "conflict"


def test_an_empty_body_still_lacks_something(direct: Client) -> None:
    answer = direct.post(f"{ROPE}?dim=8&length=2", json={})
    assert fault(refused(answer, "invalid-parameters"), "/positions")["code"] == "missing"


@pytest.mark.parametrize(
    ("block", "key", "code"),
    [
        ({"type": "mrope", "mrope_section": "x"}, "mrope_section", "type"),
        ({"type": "mrope", "mrope_section": [2, 1.5, 1]}, "mrope_section", "type"),
        ({"type": "mrope", "mrope_section": [2, True, 1]}, "mrope_section", "type"),
        ({"type": "mrope", "mrope_section": [-1, 3, 2]}, "mrope_section", "type"),
        ({"type": "mrope", "mrope_section": []}, "mrope_section", "type"),
        ({"type": "mrope", "mrope_section": [1, 1, 5]}, "mrope_section", "sum"),
        ({"type": "default", "xdrope_section": [1, 1, 1]}, "xdrope_section", "sum"),
        ({"type": "mrope", "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.5}, "mrope_section", "sum"),
        ({"type": "mrope", "mrope_section": [2, 1, 1], "mrope_interleaved": "x"}, "mrope_interleaved", "truth"),
        ({"factor": 8.0}, "factor", "conflict"),
        ({"rope_theta": 1e6, "beta_fast": 32}, "beta_fast", "conflict"),
    ],
)
def test_what_decides_nothing_must_still_be_what_its_key_says(
    direct: Client, block: dict[str, Any], key: str, code: str
) -> None:
    of_table = refused(direct.post(f"{ROPE}?dim=8&length=1", json={"rope_scaling": block}), "invalid-parameters")
    assert fault(of_table, f"/rope_scaling/{key}")["code"] == code
    body = {"tensors": {"q": [[1, 2, 3, 4, 5, 6, 7, 8]]}, "rope_scaling": block}
    of_vectors = refused(direct.post(TURN, json=body), "invalid-parameters")
    assert fault(of_vectors, f"/rope_scaling/{key}")["detail"] == fault(of_table, f"/rope_scaling/{key}")["detail"]
    nested = {"full_attention": block, "sliding_attention": {"rope_type": "default"}}
    of_layer = refused(direct.post(f"{ROPE}?dim=8&length=1", json={"rope_parameters": nested}), "invalid-parameters")
    assert fault(of_layer, f"/rope_parameters/full_attention/{key}")["code"] == code


def test_a_sum_that_is_wrong_is_told_with_both_numbers(direct: Client) -> None:
    block = {"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 5]}}
    found = fault(refused(direct.post(f"{ROPE}?dim=8&length=1", json=block), "invalid-parameters"),
                  "/rope_scaling/mrope_section")  # fmt: skip
    assert (found["limit"], found["requested"]) == (4, 7)
    assert found["detail"] == "mrope_section sums to 7, and 4 pairs turn: they must be equal"


def test_lengths_of_a_model_need_no_type(direct: Client) -> None:
    block = {"rope_theta": 1e6, "original_max_position_embeddings": 4096, "mrope_section": [2, 1, 1]}
    spelled = direct.get(f"{ROPE}?dim=8&length=2&base=1e6").json()
    assert posted(direct, "dim=8&length=2", {"rope_parameters": block})["tensors"] == spelled["tensors"]


@pytest.mark.parametrize("extension", ["", ".npy"])
@pytest.mark.parametrize("name", ["frequencies", "divisors"])
def test_numbers_of_the_callers_own_without_their_type_are_refused(direct: Client, name: str, extension: str) -> None:
    found = refused(direct.get(f"{ROPE}{extension}?dim=8&length=4&{name}=1,1,1,1"), "invalid-parameters")
    assert fault(found, name)["code"] == "conflict"
    assert f"rope_type={name}" in found["detail"]
    assert direct.get(f"{ROPE}{extension}?dim=8&length=4&{name}=1,1,1,1&rope_type={name}").status_code == 200


def test_a_key_beside_the_block_is_told_where_it_belongs(direct: Client) -> None:
    body = {"rope_scaling": {"type": "linear", "factor": 2}, "rope_theta": 1e6}
    found = fault(refused(direct.post(f"{ROPE}?dim=8&length=1", json=body), "invalid-parameters"), "/rope_theta")
    assert found["code"] == "unknown"
    assert found["detail"] == "rope_theta stands beside rope_parameters: put it inside, or give base= in the address"
    other = refused(direct.post(f"{ROPE}?dim=8&length=1", json={"rope_thing": 1}), "invalid-parameters")
    assert "not known here" in fault(other, "/rope_thing")["detail"]


def test_a_proportional_block_turns_a_share_of_the_whole_head(direct: Client) -> None:
    block = {"rope_type": "proportional", "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}
    spelled = direct.get(f"{ROPE}?dim=8&length=2&rope_type=proportional&partial_rotary_factor=0.5").json()
    assert posted(direct, "dim=8&length=2", {"rope_parameters": block}) == spelled
