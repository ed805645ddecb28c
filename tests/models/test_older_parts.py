"""Parts by the name that older files have for them: `text_config_dict`."""

import pytest

from service.models import resolve
from tests.models.plans import refused

DICTS = {
    "altclip": ("text", "vision"), "chinese_clip": ("text", "vision"), "clip": ("text", "vision"),
    "clipseg": ("text", "vision"), "flava": ("text", "image"), "groupvit": ("text", "vision"),
    "metaclip_2": ("text", "vision"), "xclip": ("text", "vision"),
}  # fmt: skip


@pytest.mark.parametrize("name", DICTS)
def test_the_class_takes_the_older_name(name: str) -> None:
    text, picture = (f"{part}_config_dict" for part in DICTS[name])
    words = {"hidden_size": 96, "num_attention_heads": 4, "max_position_embeddings": 40}
    pictures = {"hidden_size": 48, "num_attention_heads": 4, "image_size": 96, "patch_size": 32}
    found = resolve({"model_type": name, text: words, picture: pictures, "text_config": {"hidden_size": 64}})
    tables = [(use.scope, use.facts["table"][-2:]) for use in found.uses if "table" in use.facts]
    assert (f"/{text}", [40, 96]) in tables
    assert {(f"/{picture}", (10, 48)), (f"/{picture}", (9, 48))} & {(scope, tuple(table)) for scope, table in tables}
    [note] = [note for use in found.uses for note in use.notes if "has no effect" in note]
    assert note.startswith("hidden_size of text_config has no effect: the class takes text_config_dict")


def test_defaults_of_the_older_object_win_too() -> None:
    """A key that it leaves out has the class's default, whatever the usual object says."""
    config = {"model_type": "clip", "text_config": {"max_position_embeddings": 64}, "text_config_dict": {}}
    [use, *_] = resolve(config).uses
    assert use.facts["table"] == [77, 512]
    assert use.notes == (
        "max_position_embeddings of text_config has no effect: the class takes text_config_dict, and its defaults for "
        "the rest",
    )


def test_two_that_say_the_same_are_one() -> None:
    words = {"max_position_embeddings": 64}
    for usual in (words, None, {}):
        [use, *_] = resolve({"model_type": "clip", "text_config": usual, "text_config_dict": words}).uses
        assert use.facts["table"] == [64, 512]
        assert use.notes == ()


def test_many_that_lose_are_counted() -> None:
    parts = [f"size_{place}" for place in range(10)]
    [use, *_] = resolve(
        {"model_type": "clip", "text_config": dict.fromkeys(parts, 1), "text_config_dict": dict.fromkeys(parts, 2)}
    ).uses
    [note] = use.notes
    assert "size_7 and 2 more of text_config have no effect" in note


def test_an_object_of_another_kind_loses_nothing() -> None:
    [use, *_] = resolve({"model_type": "clip", "text_config": 3, "text_config_dict": {}}).uses
    assert (use.scope, use.notes) == ("/text_config_dict", ())


def test_a_null_is_nothing_and_other_kinds_are_refused() -> None:
    [use, *_] = resolve({"model_type": "clip", "text_config_dict": None}).uses
    assert use.scope == "/text_config"
    place, detail = refused({"model_type": "clip", "text_config_dict": [3]})
    assert (place, detail) == ("/text_config_dict", "text_config_dict is a list; a JSON object is needed, or null")


def test_a_class_that_does_not_read_it_says_so() -> None:
    config = {"model_type": "bridgetower", "text_config_dict": {"max_position_embeddings": 40}}
    [use, *_] = resolve(config).uses
    assert use.facts["table"] == [514, 768]
    assert "/text_config_dict is read by nothing: bridgetower reads text_config" in use.notes
