"""Refusals: every status of http.md's table, in one shape, at every door."""

from typing import Any, get_args

import pytest

from service.engine import SCHEMES, by_key
from service.engine.scheme import Scheme
from tests.api.problems import fault, refused
from tests.api.requests import EXAMPLES
from tests.clients import Client, in_process, settings

ROPE = "/v1/encodings/rope"
SINUSOIDAL = "/v1/encodings/sinusoidal"


def path(scheme: Scheme[Any, Any]) -> str:
    return f"/v1/{scheme.family}/{scheme.name}"


def method(scheme: Scheme[Any, Any]) -> str:
    return "POST" if scheme.needs_body else "GET"


def example(scheme: Scheme[Any, Any]) -> dict[str, Any]:
    """A body that the scheme takes, where it needs one."""
    if not scheme.needs_body:
        return {}
    return {"json": next(each.example.body for each in EXAMPLES if each.scheme is scheme)}


# 414, 431


def test_a_long_address_is_414(client: Client) -> None:
    document = refused_early(client.get(f"{SINUSOIDAL}?dim=4&positions=" + "1," * 4096 + "1"), "uri-too-long")
    assert "POST" in document["detail"]
    assert client.get(f"{SINUSOIDAL}?dim=4&positions=" + ",".join(["1"] * 512)).status_code == 200


def refused_early(reply: Any, slug: str) -> dict[str, Any]:
    """The shape of a refusal that may be made before the app."""
    assert reply.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = reply.json()
    assert document["type"] == f"/problems/{slug}"
    assert document["status"] == reply.status_code
    assert set(document) == {"type", "title", "status", "detail", "instance", "errors"}
    return document


def test_a_large_header_is_431(client: Client) -> None:
    refused_early(client.get(ROPE, headers={"x-large": "x" * 33_000}), "header-fields-too-large")
    many = {f"x-{number}": "1" for number in range(110)}
    refused_early(client.get(ROPE, headers=many), "header-fields-too-large")
    assert client.get("/health/live", headers={"x-large": "x" * 30_000}).status_code == 200


# 422: bases that float32 does not hold


def _steps(scheme: Scheme[Any, Any]) -> list[dict[str, str]]:
    """The queries under which a scheme has its base in float32 steps."""
    fields = scheme.params.model_fields
    if "arithmetic" not in fields:
        return [{}]
    names = ["float32", "ggml"] if "ggml" in get_args(fields["arithmetic"].annotation) else ["float32"]
    forms = get_args(fields["frequency_form"].annotation) if "frequency_form" in fields else [""]
    return [{"arithmetic": name} | ({"frequency_form": form} if form else {}) for name in names for form in forms]


STEPPING = [
    each for each in SCHEMES if "base" in each.params.model_fields and "arithmetic" in each.params.model_fields
] + [by_key("analyses", "precision")]


@pytest.mark.parametrize("base", ["3.5e38", "1e39", "1e100"])
@pytest.mark.parametrize("scheme", STEPPING, ids=lambda scheme: "-".join(scheme.key))
def test_a_base_beyond_float32_is_named(direct: Client, scheme: Scheme[Any, Any], base: str) -> None:
    given = {name: text for name, text in scheme.examples[0].query.items() if name != "base"}
    for steps in _steps(scheme):
        reply = direct.request(method(scheme), path(scheme), params={**given, **steps, "base": base}, **example(scheme))
        assert fault(refused(reply, "invalid-parameters"), "base")["code"] == "out_of_range"


# 422: names


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "-".join(scheme.key))
def test_every_parameter_is_found_again_when_misspelt(client: Client, scheme: Scheme[Any, Any]) -> None:
    for name in [*scheme.params.model_fields, "revision", "tensor", "nonfinite"]:
        if len(name) < 4 or name in scheme.structured:
            continue
        misspelt = name[0] + name
        reply = client.request(method(scheme), f"{path(scheme)}?{misspelt}=1", **example(scheme))
        found = fault(refused(reply, "invalid-parameters"), misspelt)
        assert found["code"] == "unknown"
        assert found["did_you_mean"] == name


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "-".join(scheme.key))
def test_every_parameter_is_taken_once(client: Client, scheme: Scheme[Any, Any]) -> None:
    for name in scheme.params.model_fields:
        for query in (f"{name}=1&{name}=1", f"{name}=1&{name[:-1]}%{ord(name[-1]):02x}=2"):
            reply = client.request(method(scheme), f"{path(scheme)}?{query}", **example(scheme))
            assert fault(refused(reply, "invalid-parameters"), name)["code"] == "repeated"


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "-".join(scheme.key))
def test_every_choice_lists_what_would_do(client: Client, scheme: Scheme[Any, Any]) -> None:
    schema = scheme.params.model_json_schema()["properties"]
    for name, field in schema.items():
        choices = field.get("enum") or [v for part in field.get("anyOf", []) for v in part.get("enum", [])]
        if not choices:
            continue
        wrong = choices[0][:-1] + "z"
        for given in (wrong, "", "é" * 100, choices[0].upper() + " "):
            reply = client.request(method(scheme), f"{path(scheme)}?{name}={given}", **example(scheme))
            found = fault(refused(reply, "invalid-parameters"), name)
            assert found["code"] == "choice"
            assert all(choice in found["detail"] for choice in choices)
            assert given != wrong or found["did_you_mean"] in choices


def test_a_wrong_tensor_or_nonfinite_names_the_right_one(client: Client) -> None:
    found = fault(refused(client.get(f"{ROPE}?length=2&dim=4&tensor=coz"), "invalid-parameters"), "tensor")
    assert (found["did_you_mean"], found["code"]) == ("cos", "choice")
    found = fault(refused(client.get(f"{ROPE}?length=2&dim=4&nonfinite=null"), "invalid-parameters"), "nonfinite")
    assert found["code"] == "choice"


def test_several_faults_are_told_at_once(client: Client) -> None:
    document = refused(client.get(f"{ROPE}?length=0&dim=1&base=x&dtype=half"), "invalid-parameters")
    assert {each["parameter"] for each in document["errors"]} == {"length", "dim", "base", "dtype"}


# 422: numbers (S02, S03, S15)

INTEGERS = ["-1", "0", "4.0", "1e3", "1_0", " 5", "5 ", "+3", "0x4", "", "nan", "٣", "½", "9" * 30, "9" * 5000,
            "-" + "9" * 4000, "true", "null", "1,2", "--1", "1\x00"]  # fmt: skip
REALS = ["inf", "nan", "-inf", "Infinity", "1e309", "-1e309", "1e999", "1e400", "", "x", "1_0", "0x1p3", "1e", "e5",
         "1..2", "1e1e1", "+1", "-0", "0", "1e-20", "-5", "1e301", ".", "-.", "1d5", "9" * 5000]  # fmt: skip


@pytest.mark.parametrize("given", INTEGERS, ids=lambda given: given[:12])
@pytest.mark.parametrize("name", ["length", "dim"])
def test_what_is_no_count_is_refused(client: Client, name: str, given: str) -> None:
    query = {"length": "4", "dim": "8"} | {name: given}
    document = refused(client.get(ROPE, params=query), "invalid-parameters")
    found = fault(document, name)
    assert found["code"] in ("integer", "out_of_range")
    assert "9" * 64 not in document["detail"]
    if given in ("-1", "0"):
        assert (
            "at least 1 and at most 9007199254740992" if name == "length" else "at least 2 and at most 65536"
        ) in found["detail"]


@pytest.mark.parametrize("given", REALS, ids=lambda given: given[:12])
def test_what_is_no_base_is_refused(client: Client, given: str) -> None:
    document = refused(client.get(ROPE, params={"length": "4", "dim": "8", "base": given}), "invalid-parameters")
    assert fault(document, "base")["code"] in ("number", "out_of_range")


def test_a_plus_is_a_space_to_http(client: Client) -> None:
    document = refused(client.get(f"{ROPE}?length=4&dim=8&base=1e+4"), "invalid-parameters")
    assert "write the exponent as 1e4 or 1e%2B4" in document["detail"]
    assert client.get(f"{ROPE}?length=4&dim=8&base=1e4").status_code == 200


@pytest.mark.parametrize(
    "given",
    ["", ",", "0,", ",0", "0,,1", "a", "1;2", "0, 1", "1e999", ",".join(["1"] * 513), "9007199254740993,1e16", "nan"],
)
def test_what_is_no_list_of_positions_is_refused(client: Client, given: str) -> None:
    document = refused(client.get(SINUSOIDAL, params={"dim": "4", "positions": given}), "invalid-parameters")
    assert fault(document, "positions")


@pytest.mark.parametrize(
    ("target", "parameter"),
    [
        (f"{ROPE}?dim=8", "length"),
        (f"{ROPE}?length=8", "dim"),
        (f"{ROPE}?dim=8&length=2&positions=1", "length"),
        (f"{ROPE}?dim=8&offset=2&positions=1", "offset"),
        (f"{ROPE}?dim=8&length=2&rotary_dim=10", "rotary_dim"),
        (f"{ROPE}?dim=8&length=2&rotary_dim=4&partial_rotary_factor=0.5", "partial_rotary_factor"),
        (f"{ROPE}?dim=7&length=2", "dim"),
        (f"{ROPE}?dim=8&length=2&offset=9007199254740992", "offset"),
        (f"{SINUSOIDAL}?dim=7&length=2&odd_width=refuse", "dim"),
        (f"{SINUSOIDAL}?dim=4&length=2&frequency_shift=2", "frequency_shift"),
        (f"{SINUSOIDAL}?dim=4&length=2&frequency_shift=1.9999999&base=0.5", "frequency_shift"),
        ("/v1/biases/alibi?heads=2", "length"),
        ("/v1/biases/alibi?heads=2&length=3&keys=3", "keys"),
        ("/v1/biases/alibi?heads=2&queries=9007199254740992&keys=9", "offset"),
        ("/v1/biases/alibi-slopes", "heads"),
    ],
)
def test_what_contradicts_or_is_missing_is_named(client: Client, target: str, parameter: str) -> None:
    assert fault(refused(client.get(target), "invalid-parameters"), parameter)


# 400: the query's bytes


@pytest.mark.parametrize(
    "query",
    ["a", "=1", "length", "length=4&&dim=8", "length=4&", "&", "length=%ff", "length=%ED%A0%80", "a=b&c", "%00"],
)
def test_a_query_that_cannot_be_read_is_400(client: Client, query: str) -> None:
    refused(client.get(f"{ROPE}?{query}"), "bad-request")


# Bounds on the document itself


def test_a_problem_is_small_whatever_was_sent(client: Client) -> None:
    document = refused(
        client.get(f"{ROPE}?" + "&".join(f"a{number:x}=" for number in range(900))), "invalid-parameters"
    )
    # Each says what is known, so fewer than twenty find a place.
    assert 8 <= len(document["errors"]) <= 20
    repeated = "&".join(f"a{number}=1&a{number}=2" for number in range(30))
    assert len(refused(client.get(f"{ROPE}?{repeated}"), "invalid-parameters")["errors"]) == 20
    for query in (
        "x" * 8000 + "=1",
        "length=" + "x" * 8000,
        "tensor=" + "x" * 8000 + "&length=1&dim=2",
        "%01" * 2000 + "=1",
    ):
        reply = client.get(f"{ROPE}?{query}")
        text = reply.text
        refused(reply, "invalid-parameters")
        assert "x" * 65 not in text
        assert "\x01" not in text


def test_a_bug_is_500_without_internals(direct: Client, caplog: pytest.LogCaptureFixture) -> None:
    (scheme,) = [each for each in SCHEMES if each.key == ("encodings", "rope")]
    prepare = scheme.prepare

    def failing(*_arguments: Any) -> Any:
        raise RuntimeError("secret")

    object.__setattr__(scheme, "prepare", failing)
    try:
        reply = direct.get(f"{ROPE}?length=2&dim=4&base=98765")
    finally:
        object.__setattr__(scheme, "prepare", prepare)
    document = refused(reply, "internal-error")
    assert "secret" not in reply.text
    assert document["instance"] in caplog.text
    assert "secret" in caplog.text
    assert direct.get(f"{ROPE}?length=2&dim=4&base=98765").status_code == 200


def test_the_limits_are_the_settings() -> None:
    with in_process(settings(url_bytes=100, header_bytes=1024, header_fields=10)) as client:
        assert client.get(f"{ROPE}?length=1&dim=2").status_code == 200
        refused(client.get(f"{ROPE}?length=1&dim=2&base=" + "1" * 80), "uri-too-long")
        refused(client.get(ROPE, headers={"x": "y" * 1100}), "header-fields-too-large")
        refused(client.get(ROPE, headers={f"x{number}": "" for number in range(10)}), "header-fields-too-large")


@pytest.mark.parametrize(
    ("path", "given", "meant"),
    [
        ("/v1/encodings/rope?length=2&head_dim=8", "head_dim", "dim"),
        ("/v1/encodings/rope?length=2&dim=8&theta=1e6", "theta", "base"),
        ("/v1/encodings/sinusoidal?length=2&d_model=8", "d_model", "dim"),
        ("/v1/encodings/timestep?positions=10&dim=8&flip_sin_to_cos=true", "flip_sin_to_cos", "layout"),
        ("/v1/encodings/timestep?positions=10&dim=8&downscale_freq_shift=0", "downscale_freq_shift", "frequency_shift"),
        ("/v1/biases/t5?length=4&relative_attention_max_distance=8", "relative_attention_max_distance", "max_distance"),
        ("/v1/masks/sliding?length=4&sliding_window=2", "sliding_window", "window"),
        ("/v1/biases/alibi-slopes?num_heads=8", "num_heads", "heads"),
        ("/v1/masks/packed?lengths=2,3", "lengths", "segment_lengths"),
        ("/v1/encodings/sinusoidal?dim=8&lengths=2", "lengths", "length"),
        ("/v1/encodings/rope?length=2&dim=8&dtype=double", "dtype", "float64"),
        ("/v1/encodings/sinusoidal?length=2&dim=8&layout=halves", "layout", "sin-cos"),
        ("/v1/encodings/rope?length=2&dim=8&preset=mistral", "preset", None),
        ("/v1/encodings/rope?length=2&dim=8&yarn=4", "yarn", None),
        ("/v1/encodings/rope?length=2&dim=8&layout=half", "layout", None),
    ],
)
def test_a_name_from_elsewhere_is_known_and_none_is_guessed(
    direct: Client, path: str, given: str, meant: str | None
) -> None:
    document = refused(direct.get(path), "invalid-parameters")
    assert fault(document, given).get("did_you_mean") == meant


def test_an_unknown_family_is_not_taken_for_another(direct: Client) -> None:
    document = refused(direct.get("/v1/nothing/causal"), "not-found")
    assert "did_you_mean" not in fault(document, "path")


@pytest.mark.parametrize(
    ("target", "name", "said"),
    [
        ("encodings/sinusoidal-2d?grid=2,2,2&dim=8", "grid", "at most 2 entries are needed"),
        (
            "biases/swin-v2-coordinates?window=8,8&pretrained_window=8",
            "pretrained_window",
            "at least 2 entries are needed",
        ),
        ("biases/swin-index?window=8", "window", "at least 2 entries are needed"),
    ],
)
def test_a_list_of_another_length_is_told_how_many_would_do(client: Client, target: str, name: str, said: str) -> None:
    detail = fault(refused(client.get(f"/v1/{target}"), "invalid-parameters"), name)["detail"]
    assert said in detail
    assert "validation" not in detail
