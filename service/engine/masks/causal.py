"""Causal mask: a query attends to its own position and those before it."""

from service.engine.attention.attending import Integers, Mask, Run, mask_scheme
from service.engine.scheme import Example, Usage


def _runs(_params: Mask, positions: Integers, _first: Integers) -> Run:
    return Run(positions * 0, positions + 1)


DESCRIPTION = "Query i may attend to key j where `j <= i`, positions counted from the first key."

SCHEME = mask_scheme(
    name="causal",
    title="Causal mask",
    explanation=(
        "A language model must not see what comes next: each query attends to its own position and those before it. "
        "Nearly every text generator has this triangle."
    ),
    description=DESCRIPTION,
    reference="Vaswani et al., Attention Is All You Need, 2017, section 3.1",
    params=Mask,
    runs=_runs,
    examples=(
        Example("Three tokens", {"length": "3"}),
        Example(
            "Two queries at the end of four keys, to be added to scores",
            {"queries": "2", "keys": "4", "dtype": "float16"},
        ),
        Example("The same, aligned as PyTorch's is_causal", {"queries": "2", "keys": "4", "alignment": "top-left"}),
        Example("A batch padded on the left", {}, {"tensors": {"attention_mask": [[0, 1, 1], [1, 1, 1]]}}),
    ),
    used_by=(
        Usage("GPT, Llama and nearly every decoder in Hugging Face transformers (sdpa)", {}, "transformers"),
        Usage("the same with eager attention", {"dtype": "float32", "fill": "min"}, "transformers-eager"),
        Usage("PyTorch generate_square_subsequent_mask", {"dtype": "float32", "fill": "-inf"}, "pytorch"),
        Usage("Keras and TensorFlow layers", {"dtype": "float32", "fill": "-1e9"}, "keras"),
    ),
)
