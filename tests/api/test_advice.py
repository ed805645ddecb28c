"""Advice for stated needs: the classic guide comes out, with reasons that the catalogue gives."""

import itertools
from typing import Any, get_args
from urllib.parse import parse_qsl, urlsplit

import pytest

from service.engine import by_key
from service.engine.advice import Needs, advised
from service.engine.advice_rules import CANDIDATES, Candidate, Modality
from tests.api.problems import fault, refused
from tests.clients import Client

ADVICE = "/v1/advice"


def asked(client: Client, query: str = "") -> dict[str, Any]:
    answer = client.get(f"{ADVICE}?{query}" if query else ADVICE)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def named(document: dict[str, Any]) -> list[str]:
    return [each["name"] for each in document["advice"]]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("priority=simplest", ["Sinusoidal"]),
        ("length=fixed&priority=fit", ["Learned table"]),
        ("trained_length=4096&target_length=16384", ["RoPE with scaling (YaRN)"]),
        ("distance=matters", ["RoPE", "T5's relative bias"]),
        ("", ["RoPE"]),
        ("priority=extrapolation", ["ALiBi"]),
        ("trained_length=1024&target_length=8192&priority=extrapolation", ["ALiBi", "RoPE with scaling (YaRN)"]),
        ("distance=matters&memory=little&caching=needed", ["RoPE"]),
        ("modality=image", ["RoPE on several axes", "Sinusoidal on two axes"]),
        ("modality=image&length=fixed&priority=fit", ["Learned table", "Relative bias of windows (Swin, BEiT)"]),
        ("modality=video&priority=simplest", ["Sinusoidal on three axes"]),
        ("modality=time-series", ["Calendar features"]),
        ("modality=time-series&distance=matters", ["Sinusoids of time differences", "RoPE"]),
        ("length=fixed", ["Learned table"]),
        ("length=fixed&priority=simplest", ["Sinusoidal"]),
        ("length=fixed&distance=matters", ["RoPE"]),
        ("modality=image&length=fixed", ["Learned table"]),
        ("modality=audio", ["Transformer-XL's relative sinusoids", "Sinusoidal", "RoPE"]),
        ("modality=audio&priority=simplest", ["Sinusoidal"]),
        ("modality=audio&length=fixed", ["Learned table"]),
    ],
)
def test_the_classic_guide_comes_out(direct: Client, query: str, best: list[str]) -> None:
    assert named(asked(direct, query))[: len(best)] == best


def test_scaling_is_advised_beyond_training_only(direct: Client) -> None:
    scaled = "RoPE with scaling (YaRN)"
    assert scaled not in named(asked(direct, "trained_length=4096&target_length=4096"))
    (entry,) = [
        each for each in asked(direct, "trained_length=4096&target_length=16384")["advice"] if each["name"] == scaled
    ]
    assert "factor=4.0&" in entry["href"]
    assert "original_max_position_embeddings=4096&" in entry["href"]


def test_what_cannot_do_it_is_ruled_out_with_the_reason(direct: Client) -> None:
    document = asked(direct, "learned_parameters=none&trained_length=512&target_length=2048")
    out = {each["name"]: each for each in document["ruled_out"]}
    assert {"Learned table", "T5's relative bias", "Shaw's relative vectors"} <= set(out)
    reasons = {each["need"]: each for each in out["Learned table"]["reasons"]}
    assert reasons["beyond training"]["points"] is None
    assert reasons["beyond training"]["property"] == "extrapolates"
    assert reasons["beyond training"]["says"] == "no: rows end"
    assert out["Learned table"]["points"] is None
    assert "rank" not in out["Learned table"]


def test_points_are_the_sum_of_the_reasons_and_decide_the_rank(direct: Client) -> None:
    document = asked(direct, "distance=matters&memory=little&caching=needed&learned_parameters=none")
    assert document["considered"] == ["general", "distance", "no parameters", "little memory", "caching"]
    entries = document["advice"]
    for each in entries:
        assert each["points"] == sum(reason["points"] for reason in each["reasons"])
    assert [each["rank"] for each in entries] == list(range(1, len(entries) + 1))
    points = [each["points"] for each in entries]
    assert points == sorted(points, reverse=True)


def test_needs_are_stated_with_their_defaults(direct: Client) -> None:
    assert asked(direct, "trained_length=7")["needs"] == Needs(trained_length=7).model_dump()


# What a need asks of a scheme, where the catalogue says it; what is simplest, or fits, may be decided by anything.
DECIDES = {
    "no parameters": "learned parameters",
    "little memory": "memory per head",
    "caching": "caching",
    "distance": "distance",
    "extrapolation": "extrapolates",
    "beyond training": "extrapolates",
}


@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda each: each.name)
def test_every_rule_cites_what_decides_in_the_catalogue(candidate: Candidate) -> None:
    properties = by_key(candidate.family, candidate.scheme).properties
    for modality in candidate.modalities:
        for need, rule in candidate.rules_for(modality).items():
            assert properties[rule.cites], need
            assert rule.because
            if DECIDES.get(need) in properties:
                assert rule.cites == DECIDES[need], need
    assert set(candidate.elsewhere) <= set(candidate.modalities)


@pytest.mark.parametrize("modality", [each for each in get_args(Modality) if each != "text"])
def test_no_reason_is_that_of_another_modality(direct: Client, modality: str) -> None:
    for each in asked(direct, f"modality={modality}&trained_length=9&target_length=18")["advice"]:
        for reason in each["reasons"]:
            assert "language model" not in reason["because"]
            assert modality == "audio" or "speech" not in reason["because"]


@pytest.mark.parametrize("modality", get_args(Modality))
def test_every_address_answers(direct: Client, modality: str) -> None:
    lengths = ("", "&trained_length=3&target_length=7", "&trained_length=9007199254740992")
    for length in lengths:
        document = asked(direct, f"modality={modality}{length}")
        for each in [*document["advice"], *document["ruled_out"]]:
            answer = direct.request("HEAD", each["href"])
            assert answer.status_code == 200, each["href"]
            assert answer.headers["cache-control"].endswith("immutable")


def test_what_is_advised_for_video_counts_the_time(direct: Client) -> None:
    """An address of what has places along its axes has three of them: time, height and width."""
    hrefs = [dict(parse_qsl(urlsplit(each["href"]).query)) for each in asked(direct, "modality=video")["advice"]]
    placed = [query.get("grid") or query["window"] for query in hrefs if {"grid", "window"} & query.keys()]
    assert len(placed) >= 3
    assert {place.count(",") for place in placed} == {2}


def test_needs_that_exclude_each_other_and_unknown_ones(direct: Client) -> None:
    lone = refused(direct.get(f"{ADVICE}?target_length=7"), "invalid-parameters")
    assert fault(lone, "trained_length")["code"] == "missing"
    fixed = refused(direct.get(f"{ADVICE}?trained_length=7&target_length=9&length=fixed"), "invalid-parameters")
    assert fault(fixed, "length")["code"] == "conflict"
    odd = refused(direct.get(f"{ADVICE}?modaliti=text"), "invalid-parameters")
    assert fault(odd, "modaliti")["did_you_mean"] == "modality"
    choice = refused(direct.get(f"{ADVICE}?modality=smell"), "invalid-parameters")
    assert "time-series" in fault(choice, "modality")["detail"]
    assert fault(refused(direct.get(f"{ADVICE}?trained_length=0"), "invalid-parameters"), "trained_length")
    refused(direct.get(f"{ADVICE}?modality=text&modality=text"), "invalid-parameters")


def test_the_same_needs_are_the_same_bytes(direct: Client) -> None:
    first, second = (direct.get(f"{ADVICE}?modality=image&priority=fit") for _ in range(2))
    assert first.content == second.content
    again = direct.get(f"{ADVICE}?modality=image&priority=fit", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


def test_all_needs_are_ranked_in_every_combination() -> None:
    """No combination of needs fails, and no two candidates of a modality are the same advice under all of them."""
    fields = ("length", "distance", "learned_parameters", "memory", "caching", "priority", "modality")
    choices = [get_args(Needs.model_fields[name].annotation) for name in fields]
    for chosen in itertools.product(*choices):
        found = advised(Needs(**dict(zip(fields, chosen, strict=True))))
        assert found
        assert found[0].points is not None
