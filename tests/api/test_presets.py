"""`preset=`: the convention of a library by name is the same request as its parameters spelled out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from service.api.problems import unknown_name
from service.api.schemes import address
from service.engine import SCHEMES, by_key
from service.engine.scheme import Scheme, Usage
from tests.api.problems import fault, refused
from tests.api.test_conditional import idle
from tests.clients import Client
from tests.engine.test_registry import arrays, sample

SINUSOIDAL = "/v1/encodings/sinusoidal"


@dataclass(frozen=True, slots=True)
class Named:
    """A preset, and the small request that the tests of usages put beside it."""

    scheme: Scheme[Any, Any]
    usage: Usage

    @property
    def beside(self) -> dict[str, str]:
        given = sample(self.scheme, self.usage)
        kept = {*self.usage.parameters, *self.scheme.structured}
        return {name: value for name, value in given.items() if name not in kept}

    def send(
        self, client: Client, query: Mapping[str, str], extension: str = "", method: str = "GET"
    ) -> httpx.Response:
        target = address(self.scheme) + extension
        if self.scheme.infinite and not extension:
            query = {**query, "nonfinite": "string"}
        if not self.scheme.needs_body:
            return client.request(method, target, params=query)
        given = sample(self.scheme, self.usage)
        body = {name: given[name] for name in self.scheme.structured}
        tensors = {name: array.tolist() for name, array in arrays(self.scheme, self.usage).items()}
        body |= {"positions": tensors.pop("positions")} if "positions" in tensors else {}
        body |= {"tensors": tensors} if tensors else {}
        return client.post(target, params=query, json=body)

    def __str__(self) -> str:
        return f"{'-'.join(self.scheme.key)}-{self.usage.preset}"


PRESETS = [Named(scheme, usage) for scheme in SCHEMES for usage in scheme.used_by if usage.preset]
Presets = pytest.mark.parametrize("named", PRESETS, ids=str)


@Presets
@pytest.mark.parametrize("extension", ["", ".safetensors"])
def test_a_preset_is_its_parameters_spelled_out(direct: Client, named: Named, extension: str) -> None:
    short = named.send(direct, {"preset": named.usage.preset, **named.beside}, extension)
    spelled = named.send(direct, {**named.beside, **named.usage.parameters}, extension)
    assert spelled.status_code == 200, spelled.text
    assert short.status_code == 200, short.text
    assert short.content == spelled.content
    # The length of text that is sent while it is written is known the next time.
    apart = ("x-request-id", "server-timing", "content-length")
    headers = [
        {name: value for name, value in reply.headers.items() if name not in apart} for reply in (short, spelled)
    ]
    assert headers[0] == headers[1]
    assert ("etag" in short.headers) == (not named.scheme.needs_body)


@Presets
def test_any_parameter_beside_a_preset_wins(direct: Client, named: Named) -> None:
    """Said again, every parameter of the preset leaves the request what it is."""
    once = named.send(direct, {**named.beside, **named.usage.parameters})
    twice = named.send(direct, {"preset": named.usage.preset, **named.beside, **named.usage.parameters})
    assert (twice.status_code, twice.content) == (200, once.content)


def test_a_parameter_of_the_address_wins(client: Client) -> None:
    reply = client.get(f"{SINUSOIDAL}?preset=whisper&layout=interleaved&length=3&dim=8")
    assert reply.content == client.get(f"{SINUSOIDAL}?frequency_shift=1&odd_width=refuse&length=3&dim=8").content
    assert reply.json()["parameters"]["frequency_shift"] == 1.0
    assert reply.json()["parameters"]["layout"] == "interleaved"
    assert reply.json()["notes"] == []
    assert "preset" not in reply.json()["parameters"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("ranged", ["", "bytes=20-99", "bytes=-7"])
def test_methods_and_ranges(client: Client, method: str, ranged: str) -> None:
    headers = {"range": ranged} if ranged else {}
    short = client.request(method, f"{SINUSOIDAL}.npy?preset=musicgen&length=9&dim=7", headers=headers)
    spelled = client.request(
        method,
        f"{SINUSOIDAL}.npy?layout=cos-sin&frequency_shift=1&odd_width=zero-column&length=9&dim=7",
        headers=headers,
    )
    assert short.status_code == spelled.status_code == (206 if ranged and method == "GET" else 200)
    assert short.content == spelled.content
    names = ("etag", "content-length", "content-range", "content-disposition", "cache-control")
    assert [short.headers.get(name) for name in names] == [spelled.headers.get(name) for name in names]


def test_both_spellings_share_one_reply(direct: Client) -> None:
    spelled = direct.get(f"{SINUSOIDAL}?layout=sin-cos&frequency_shift=1&odd_width=refuse&length=5&dim=12&base=5432")
    with idle(*SCHEMES):
        short = direct.get(f"{SINUSOIDAL}?preset=whisper&length=5&dim=12&base=5432")
        known = direct.get(
            f"{SINUSOIDAL}?preset=whisper&length=5&dim=12&base=5432", headers={"if-none-match": spelled.headers["etag"]}
        )
    assert (short.status_code, short.content) == (200, spelled.content)
    assert known.status_code == 304


def test_a_pinned_preset_is_kept_for_good(client: Client) -> None:
    reply = client.get(f"{SINUSOIDAL}?preset=fairseq&length=5&dim=12&revision=1")
    assert reply.headers["cache-control"].endswith("immutable")
    assert reply.json()["parameters"]["padding_idx"] == 1


def test_positions_in_the_body(client: Client) -> None:
    body = {"positions": [[0, 1], [2.5, -7]]}
    short = client.post(f"{SINUSOIDAL}?preset=musicgen&dim=6", json=body)
    spelled = client.post(f"{SINUSOIDAL}?layout=cos-sin&frequency_shift=1&odd_width=zero-column&dim=6", json=body)
    assert (short.status_code, short.content) == (200, spelled.content)
    document = refused(client.post(f"{SINUSOIDAL}?preset=musicgem&dim=6", json=body), "invalid-parameters")
    assert fault(document, "preset")["did_you_mean"] == "musicgen"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("wisper", "whisper"),
        ("Whisper", "whisper"),
        ("music-gen", "musicgen"),
        ("pegasus", "marian"),
        ("x" * 200, None),
        ("", None),
    ],
)
def test_an_unknown_preset_is_refused(client: Client, given: str, meant: str | None) -> None:
    document = refused(client.get(f"{SINUSOIDAL}?length=2&dim=4&preset={given}"), "invalid-parameters")
    found = fault(document, "preset")
    assert found["code"] == "choice"
    assert found.get("did_you_mean") == meant
    assert meant is None or meant in found["detail"]


def test_what_a_preset_can_give_is_not_required(client: Client) -> None:
    reply = client.get("/v1/encodings/fourier?preset=nerf-positions&positions=0.3")
    assert reply.json()["tensors"]["features"]["shape"] == [1, 20]
    assert fault(refused(client.get("/v1/encodings/fourier?positions=0.3"), "invalid-parameters"), "bands")
    assert by_key("encodings", "fourier").required == []
    assert by_key("encodings", "sinusoidal").required == ["dim"]


def test_a_preset_given_twice_is_refused(client: Client) -> None:
    document = refused(client.get(f"{SINUSOIDAL}?length=2&dim=4&preset=whisper&preset=marian"), "invalid-parameters")
    assert fault(document, "preset")["code"] == "repeated"


def test_a_scheme_without_presets_has_no_such_parameter(client: Client) -> None:
    without = next(scheme for scheme in SCHEMES if not scheme.presets and not scheme.needs_body)
    document = refused(client.get(f"{address(without)}?preset=whisper"), "invalid-parameters")
    assert fault(document, "preset")["code"] == "unknown"


def test_too_many_names_to_list_leave_the_nearest_or_the_first() -> None:
    names = [f"model-{number}" for number in range(30)]
    found = unknown_name("preset", "model-17b", names, what="preset is 'model-17b'")
    assert found["detail"].startswith("preset is 'model-17b'; nearest are model-17, ")
    assert found["did_you_mean"] == "model-17"
    found = unknown_name("preset", "zzz", names, what="preset is 'zzz'")
    listed = ", ".join(names[:24])
    assert found["detail"] == f"preset is 'zzz'; known are {listed} and 6 more"
