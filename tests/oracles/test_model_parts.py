"""Parts of composite configurations as transformers' own classes build them, live."""

import json
from typing import Any

import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.models.fixtures import resolved
from tests.models.test_older_parts import DICTS

pytestmark = pytest.mark.oracle

WORDS = {"hidden_size": 96, "num_attention_heads": 4}
LENGTH = {"max_position_embeddings": 40}


def built(name: str, config: dict[str, Any]) -> Any:
    return library("transformers").CONFIG_MAPPING[name].from_dict(json.loads(json.dumps(config)))


@pytest.mark.parametrize("name", [*DICTS, "bridgetower", "owlvit", "siglip"])
def test_older_names_of_parts(direct: Client, name: str) -> None:
    """`text_config_dict`, alone and beside another `text_config`, which it beats where the class reads it at all."""
    for usual in ({}, {"text_config": {"hidden_size": 48, "max_position_embeddings": 64}}):
        config = {"model_type": name, **usual, "text_config_dict": {**WORDS, **LENGTH}}
        text = built(name, config).text_config
        theirs = text.max_position_embeddings, text.hidden_size
        scope = "/text_config_dict" if name in DICTS else "/text_config"
        [table] = [
            use["facts"]["table"]
            for use in resolved(direct, config)["uses"]
            if use["scope"] == scope and use["role"] == "token-embeddings"
        ]
        assert tuple(table) == theirs
        assert (theirs == (40, 96)) is (name in DICTS)


def test_defaults_beside_the_older_name(direct: Client) -> None:
    """What it leaves out is the class's default, even where the usual object says otherwise."""
    config = {"model_type": "clip", "text_config": LENGTH, "text_config_dict": WORDS}
    theirs = built("clip", config).text_config
    [use, *_] = resolved(direct, config)["uses"]
    assert use["facts"]["table"] == [theirs.max_position_embeddings, theirs.hidden_size] == [77, 96]
