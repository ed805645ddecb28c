"""Where positions begin in a model's table, told by the model as it runs."""

from typing import Any

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_model_tables import classes, model_class
from tests.models.fixtures import fetched, resolved
from tests.oracles.test_model_uses import sent

pytestmark = pytest.mark.oracle


class Seen(Exception):
    """What the table answered, thrown to leave the model."""


def answer_of(module: Any, run: Any) -> Any:
    """What a module of a model answers once the model runs."""

    def stop(_module: Any, _given: Any, answer: Any) -> None:
        raise Seen(answer)

    hook = module.register_forward_hook(stop)
    with pytest.raises(Seen) as seen:
        run()
    hook.remove()
    return seen.value.args[0].detach()


def model_of(name: str, **keys: Any) -> Any:
    config = library("transformers").CONFIG_MAPPING[name](**keys)
    library("torch").manual_seed(0)
    return model_class(name, config, classes())(config).eval()


SMALL = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 32, "intermediate_size": 8,
         "max_position_embeddings": 64}  # fmt: skip


@pytest.mark.parametrize("name", ["mra", "nystromformer", "yoso", "bert"])
def test_rows_of_a_trained_table(direct: Client, name: str) -> None:
    torch, model = library("torch"), model_of(name, **SMALL)
    table = model.embeddings.position_embeddings
    theirs = answer_of(table, lambda: model(torch.ones(1, 7, dtype=torch.int64))).numpy().reshape(-1, 32)
    [use, *_] = resolved(direct, {"model_type": name, **SMALL})["uses"]
    address = {
        **use["addresses"]["lookup"],
        "href": use["addresses"]["lookup"]["href"].replace("length=64", "length=7"),
    }
    [ours] = sent(direct, address, x=table.weight.detach().numpy()).values()
    assert np.array_equal(ours.reshape(-1, 32), theirs)
    assert use["facts"]["first_row"] == {"bert": 0}.get(name, 2)


SERIES = {"prediction_length": 9, "context_length": 21, "label_length": 6, "d_model": 24}


@pytest.mark.parametrize("name", ["autoformer", "informer", "time_series_transformer"])
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_rows_of_a_series(direct: Client, name: str, stack: str) -> None:
    torch, model = library("torch"), model_of(name, **SERIES)
    [use] = [each for each in resolved(direct, {"model_type": name, **SERIES})["uses"]
             if each["role"] == f"{stack}-embeddings"]  # fmt: skip
    first, rows = use["facts"]["first_row"], use["facts"]["rows"]
    part = getattr(model, stack)
    values = torch.zeros(1, rows - first, model.config.feature_size)
    more = {"trend": values} if (name, stack) == ("autoformer", "decoder") else {}
    theirs = answer_of(part.embed_positions, lambda: part(inputs_embeds=values, **more)).numpy().reshape(-1, 24)
    ours = fetched(direct, use["addresses"]["tables"])["encoding"]
    assert ours.shape == theirs.shape
    # The class computes the angles in float64 and stores float32.
    assert np.abs(ours - theirs).max() <= 4e-7
