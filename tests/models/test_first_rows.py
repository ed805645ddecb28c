"""Where positions begin in a table, and how many rows an address may ask for."""

import pytest

from service.models import Use, resolve
from tests.models.plans import refused, values


def stack(name: str, role: str, **keys: object) -> Use:
    [use] = [each for each in resolve({"model_type": name, **keys}).uses if each.role == role]
    return use


@pytest.mark.parametrize("name", ["mra", "nystromformer", "yoso"])
def test_ids_that_begin_at_two(name: str) -> None:
    use = stack(name, "token-embeddings", max_position_embeddings=64)
    assert use.facts["table"][0] == 66
    assert (values(use)["offset_rule"], use.facts["first_row"]) == ("opt", 2)
    assert "length=64" in use.addresses["lookup"].href


SERIES = {"prediction_length": 9, "context_length": 21, "label_length": 6}


@pytest.mark.parametrize(("name", "first"), [("autoformer", 15), ("informer", 21), ("time_series_transformer", 21)])
def test_a_series_is_decoded_behind_its_context(name: str, first: int) -> None:
    decoder, encoder = (stack(name, f"{part}-embeddings", **SERIES) for part in ("decoder", "encoder"))
    assert (values(decoder)["offset"], decoder.facts["first_row"]) == (first, first)
    assert f"offset={first}&length={30 - first}&" in decoder.addresses["tables"].href
    assert encoder.facts["first_row"] == 0
    assert "length=30&" in encoder.addresses["tables"].href


def test_a_context_of_null_is_as_long_as_the_prediction() -> None:
    decoder = stack("informer", "decoder-embeddings", prediction_length=9, context_length=None)
    assert (decoder.facts["rows"], decoder.facts["first_row"]) == (18, 9)
    place, detail = refused({"model_type": "autoformer", "prediction_length": 9})
    assert (place, detail) == ("/label_length", "label_length is 10 and prediction_length 9: it must not be longer")


def test_rows_that_a_table_does_not_have_are_not_asked_for() -> None:
    """Tables with a row for padding grow; others have the rows that they have."""
    assert "length=70&" in stack("marian", "encoder-embeddings", max_position_embeddings=70).addresses["tables"].href
    assert "length=128&" in stack("m2m_100", "encoder-embeddings", max_position_embeddings=70).addresses["tables"].href
