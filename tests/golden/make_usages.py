"""What models do with encodings, frozen: `python -m tests.golden.make_usages`.

`marian`, `ctrl` and `m2m100` (batch, length, dim) are what the embeddings `x` (vocabulary, dim) of `TOKENS` become in
the encoders of transformers before any layer; `gptj.q` and `gptj.rotated` (batch, length, heads, channels) a rotation
of the first 64 channels at positions from `START`; `eager` and `filled` (heads, queries, keys) the `scores` under
`MASK`, as eager attention adds it and as PyTorch's masked_fill writes it.
"""

from typing import Any

import numpy as np

from tests.golden.frozen import Numbers, library, save

TOKENS = [[5, 7, 7, 2, 9, 4], [3, 5, 6, 8, 2, 9]]
VOCABULARY, DIM = 12, 16
START = 9
MASK = np.array([[1, 0, 0, 1, 1], [0, 0, 1, 1, 0], [1, 1, 1, 1, 1]], np.bool_)


def embedded(model: Any, x: Any) -> Any:
    """The encoder's hidden states, there being no layer; the vocabulary's embeddings are x."""
    torch = library("torch")
    model.eval()
    model.get_input_embeddings().weight.data = x.clone()
    return model(torch.tensor(TOKENS)).last_hidden_state.detach()


def marian(x: Any) -> Any:
    transformers = library("transformers")
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=DIM, encoder_layers=0, scale_embedding=True, pad_token_id=0
    )
    return embedded(library("transformers.models.marian.modeling_marian").MarianEncoder(config), x)


def ctrl(x: Any) -> Any:
    transformers = library("transformers")
    model = transformers.CTRLModel(transformers.CTRLConfig(vocab_size=VOCABULARY, n_embd=DIM, n_layer=0, n_head=2))
    model.layernorm = library("torch").nn.Identity()
    return embedded(model, x)


def m2m100(x: Any) -> Any:
    transformers = library("transformers")
    config = transformers.M2M100Config(vocab_size=VOCABULARY, d_model=DIM, encoder_layers=0, pad_token_id=1)
    model = library("transformers.models.m2m_100.modeling_m2m_100").M2M100Encoder(config)
    model.layer_norm = library("torch").nn.Identity()
    return embedded(model, x)


def gptj() -> Numbers:
    """The first 64 channels of heads of 80, as GPT-J's attention turns them."""
    torch, modeling = library("torch"), library("transformers.models.gptj.modeling_gptj")
    q = np.random.default_rng(64).standard_normal((2, 5, 3, 80), dtype=np.float32)
    sin, cos = modeling.create_sinusoidal_positions(START + 5, 64)[START:].chunk(2, dim=-1)
    turned = modeling.apply_rotary_pos_emb(torch.from_numpy(q[..., :64]), sin[None], cos[None])
    return {"gptj.q": q, "gptj.rotated": np.concatenate([turned.numpy(), q[..., 64:]], axis=-1)}


def masked() -> Numbers:
    torch = library("torch")
    scores = np.random.default_rng(3).standard_normal((2, 3, 5), dtype=np.float32)
    mask, given = torch.from_numpy(MASK), torch.from_numpy(scores)
    lowest = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
    return {
        "scores": scores,
        "eager": (given + lowest).numpy(),
        "filled": given.masked_fill(~mask, -torch.inf).numpy(),
    }


def build() -> Numbers:
    """Everything the file holds, by name."""
    x = np.random.default_rng(16).standard_normal((VOCABULARY, DIM), dtype=np.float32)
    given = library("torch").from_numpy(x)
    added = {name: np.asarray(make(given)) for name, make in (("marian", marian), ("ctrl", ctrl), ("m2m100", m2m100))}
    return {"x": x, **added, **gptj(), **masked()}


if __name__ == "__main__":
    save("usages", build(), "torch", "transformers", "numpy")
