"""What consumers make of the answers: transformers' models whose tables come from the service, PyTorch, ONNX, GGUF."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.client import Posenc
from service.main import create_app
from service.settings import Settings
from tests.golden.frozen import library
from tests.live import live

pytestmark = pytest.mark.oracle

# Logits of these models are of the order of 1; float32 has 24 bits, and some dozens of operations lie between.
ROUNDING = 2e-6
START, LENGTH = 1003, 11


@pytest.fixture(scope="module")
def posenc() -> Iterator[Posenc]:
    settings = Settings(port=0, drain_seconds=0)
    with live(create_app(settings), settings) as server, Posenc(f"http://127.0.0.1:{server.port}") as client:
        yield client


@pytest.fixture(scope="module")
def torch() -> Any:
    found = library("torch")
    found.manual_seed(5)
    return found


def tokens(torch: Any) -> Any:
    return torch.tensor([[5, 9, 33, 2, 71, 64, 8, 8, 17, 99, 3], [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 90]])


def logits(torch: Any, model: Any, **inputs: Any) -> Any:
    with torch.no_grad():
        found = model(**inputs)
    return (found.logits if hasattr(found, "logits") else found.last_hidden_state).numpy()


def stock(torch: Any, kind: str, config: Any) -> Any:
    model = getattr(library("transformers"), kind)(config)
    with torch.no_grad():
        for parameter in model.parameters():  # the initial weights are so small that positions hardly matter
            if parameter.ndim > 1:
                parameter.mul_(8)
    return model.eval()


def check(given: Any, expected: Any, without: Any) -> None:
    """Equal within float32's rounding; and the encoding is not idle, or nothing would have been compared."""
    scale = np.abs(expected).max()
    assert np.abs(given - expected).max() <= ROUNDING * 20 * scale
    assert np.abs(without - expected).max() > 1e-3 * scale


def rotary(torch: Any, cos: Any, sin: Any) -> Any:
    """A module in place of the model's own: its buffers are the service's tables."""

    class Rotary(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cos", cos)
            self.register_buffer("sin", sin)

        def forward(self, x: Any, position_ids: Any) -> Any:
            return self.cos[position_ids].to(x.dtype), self.sin[position_ids].to(x.dtype)

    return Rotary()


SMALL = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96}
ROTARY: dict[str, tuple[str, str, dict[str, Any], str, dict[str, Any]]] = {
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
        "model",
        {"dim": 16},
    ),
    "gpt-neox": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {
            "num_attention_heads": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
        },
        "gpt_neox",
        {"dim": 32, "rotary_dim": 8},
    ),
}


@pytest.mark.parametrize("name", ROTARY)
def test_a_models_rotary_tables(name: str, posenc: Posenc, torch: Any) -> None:
    kind, config, more, body, query = ROTARY[name]
    made = getattr(library("transformers"), config)(**SMALL, max_position_embeddings=2048, **more)
    model = stock(torch, kind, made)
    positions = torch.arange(START, START + LENGTH)[None]
    # Some positions are left out: were all of them one apart, the logits would not tell where they begin.
    positions = positions + torch.tensor([0, 0, 0, 0, 5, 5, 5, 40, 40, 40, 300])
    asked = {"input_ids": tokens(torch), "position_ids": positions}
    expected = logits(torch, model, **asked)
    scaling = {key: value for key, value in more["rope_parameters"].items() if key != "partial_rotary_factor"}
    tables = posenc.rope(length=START + LENGTH + 300, rope_parameters=scaling, arithmetic="float32", **query).to_torch()
    getattr(model, body).rotary_emb = rotary(torch, tables["cos"], tables["sin"])
    given = logits(torch, model, **asked)
    flat = {name: torch.full_like(table, float(name == "cos")) for name, table in tables.items()}
    getattr(model, body).rotary_emb = rotary(torch, flat["cos"], flat["sin"])
    check(given, expected, logits(torch, model, **asked))


def test_berts_rows(posenc: Posenc, torch: Any) -> None:
    config = library("transformers").BertConfig(**SMALL, num_attention_heads=4, max_position_embeddings=64)
    model = stock(torch, "BertForMaskedLM", config)
    asked = {"input_ids": tokens(torch), "position_ids": torch.arange(7, 7 + LENGTH)[None]}
    expected = logits(torch, model, **asked)
    table = model.bert.embeddings.position_embeddings.weight.detach()
    answer = posenc.learned.lookup(x=table, positions=np.arange(7, 7 + LENGTH), preset="bert")
    (rows,) = answer.to_torch().values()

    class Rows(torch.nn.Module):  # type: ignore[misc]
        def forward(self, position_ids: Any) -> Any:
            return rows[position_ids - 7]

    model.bert.embeddings.position_embeddings = Rows()
    given = logits(torch, model, **asked)
    assert np.array_equal(given, expected)
    rows = torch.zeros_like(rows)
    check(given, expected, logits(torch, model, **asked))


def test_t5s_biases(posenc: Posenc, torch: Any) -> None:
    config = library("transformers").T5Config(
        vocab_size=100, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, relative_attention_num_buckets=12,
        relative_attention_max_distance=9, decoder_start_token_id=0,
    )  # fmt: skip
    model = stock(torch, "T5ForConditionalGeneration", config)
    asked = {"input_ids": tokens(torch), "decoder_input_ids": tokens(torch)[:, :7]}
    expected = logits(torch, model, **asked)
    for stack, direction in ((model.encoder, "bidirectional"), (model.decoder, "causal")):
        attention = stack.block[0].layer[0].SelfAttention
        table = attention.relative_attention_bias.weight.detach()

        def compute(
            queries: int, keys: int, *_more: Any, table: Any = table, way: str = direction, **_named: Any
        ) -> Any:
            settings = {"direction": way, "num_buckets": 12, "max_distance": 9, "heads": 4}
            answer = posenc.t5(table=table, queries=queries, keys=keys, offset=0, **settings)  # type: ignore[arg-type]
            return answer.to_torch()["bias"][None]

        attention.compute_bias = compute
    given = logits(torch, model, **asked)
    assert np.array_equal(given, expected)
    for stack in (model.encoder, model.decoder):
        stack.block[0].layer[0].SelfAttention.compute_bias = lambda q, k, *_more, **_named: torch.zeros(1, 4, q, k)
    check(given, expected, logits(torch, model, **asked))


def test_blooms_biases(posenc: Posenc, torch: Any) -> None:
    config = library("transformers").BloomConfig(vocab_size=100, hidden_size=96, n_layer=2, n_head=6)
    model = stock(torch, "BloomForCausalLM", config)
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1], [1] * 11])
    asked = {"input_ids": tokens(torch), "attention_mask": mask}
    seen = mask.bool().numpy()
    expected = logits(torch, model, **asked)[seen]

    def alibi(attention_mask: Any, heads: int, dtype: Any) -> Any:
        assert dtype == torch.float32
        answer = posenc.alibi(heads=heads, queries=1, keys=11, attention_mask=attention_mask.bool(), preset="bloom")
        return answer.to_torch()["bias"].reshape(-1, 1, 11)

    model.transformer.build_alibi_tensor = alibi
    given = logits(torch, model, **asked)[seen]
    model.transformer.build_alibi_tensor = lambda mask, heads, dtype: torch.zeros(len(mask) * heads, 1, 11, dtype=dtype)
    check(given, expected, logits(torch, model, **asked)[seen])


# Other formats and runtimes


def test_tensors_of_every_number_format(posenc: Posenc, torch: Any) -> None:
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        answer = posenc.rope(length=5, dim=6, dtype=dtype, pairing="interleaved")
        tensor = answer.to_torch()["sin"]
        assert tensor.dtype == getattr(torch, dtype)
        assert np.array_equal(tensor.to(torch.float64).numpy(), answer["sin"].astype(np.float64))
        x = torch.randn(3, 5, 6, dtype=torch.float64).to(tensor.dtype)
        turned = posenc.apply.rope(q=x, offset=2).to_torch()["q"]
        back = posenc.apply.rope(q=turned, offset=2, direction="inverse").to_torch()["q"]
        assert back.dtype == x.dtype
        assert (back - x).abs().max() < {"float64": 1e-14, "float32": 1e-6, "float16": 8e-3, "bfloat16": 6e-2}[dtype]
    assert posenc.causal(length=3).to_torch()["mask"].tolist() == torch.ones(3, 3).tril().bool().tolist()


def test_a_bundle_in_pytorch(posenc: Posenc, torch: Any, tmp_path: Path) -> None:
    entries = {
        "rope": posenc.address("rope", length=9, dim=6, dtype="bfloat16"),
        "bias": posenc.address("alibi", heads=3, length=4),
    }
    answer = posenc.bundle(entries)
    file = tmp_path / "bundle.safetensors"
    file.write_bytes(posenc._http.post(f"{posenc._url}/v1/bundle.safetensors", json=entries).content)
    loaded = library("safetensors.torch").load_file(file)
    assert loaded.keys() == {"rope.cos", "rope.sin", "bias"}
    for name, tensor in answer.to_torch().items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)
    with library("safetensors").safe_open(file, framework="pt") as lazy:
        assert torch.equal(lazy.get_slice("rope.sin")[3:5], loaded["rope.sin"][3:5])


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_an_onnx_rotary_embedding_takes_its_caches_from_the_service(pairing: Any, posenc: Posenc, torch: Any) -> None:
    onnx, runtime = library("onnx"), library("onnxruntime")
    heads, length, dim, start = 3, 7, 16, 90
    caches = posenc.rope(length=128, dim=dim, columns="half", base=500000.0)
    shape = [2, heads, length, dim]
    helper, kinds = onnx.helper, onnx.TensorProto
    node = helper.make_node(
        "RotaryEmbedding", ["x", "position_ids", "cos", "sin"], ["y"], domain="com.microsoft",
        interleaved=int(pairing == "interleaved"),
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "rotary",
        [
            helper.make_tensor_value_info("x", kinds.FLOAT, shape),
            helper.make_tensor_value_info("position_ids", kinds.INT64, [2, length]),
        ],
        [helper.make_tensor_value_info("y", kinds.FLOAT, shape)],
        [onnx.numpy_helper.from_array(np.array(caches[name]), name) for name in ("cos", "sin")],
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=10)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = torch.randn(shape)
    positions = torch.arange(start, start + length).expand(2, length)
    (given,) = session.run(None, {"x": x.numpy(), "position_ids": positions.numpy()})
    angles = positions[0].double()[:, None] * 500000.0 ** (-torch.arange(0, dim, 2).double() / dim)
    pairs = torch.stack(x.double().chunk(2, -1), -1) if pairing == "half" else x.double().unflatten(-1, (-1, 2))
    turned = torch.view_as_real(
        torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles)
    )
    expected = torch.cat([turned[..., 0], turned[..., 1]], -1) if pairing == "half" else turned.flatten(-2)
    assert np.abs(given - expected.numpy()).max() < 1e-6
    assert np.abs(given - x.numpy()).max() > 0.5


def test_a_gguf_tensor_of_divisors(posenc: Posenc, tmp_path: Path) -> None:
    """`rope_freqs.weight` as llama.cpp's converter makes it of a Llama 3 config, by its rule in Python's arithmetic."""
    gguf = library("gguf")
    factor, low, high, trained, dim, base = 32.0, 1.0, 4.0, 8192, 64, 500000.0
    answer = posenc.rope(
        dim=dim, base=base, output="divisors", rope_type="llama3", factor=factor, low_freq_factor=low,
        high_freq_factor=high, original_max_position_embeddings=trained,
    )  # fmt: skip
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_tensor("rope_freqs.weight", np.array(answer.array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tensor,) = gguf.GGUFReader(tmp_path / "model.gguf").tensors
    assert (tensor.name, tensor.tensor_type.name, list(tensor.shape)) == ("rope_freqs.weight", "F32", [dim // 2])
    expected = []
    for channel in range(0, dim, 2):
        wavelength = 2 * math.pi * base ** (channel / dim)
        smooth = (trained / wavelength - low) / (high - low)
        between = 1 / ((1 - smooth) / factor + smooth)
        expected.append(1.0 if wavelength < trained / high else factor if wavelength > trained / low else between)
    assert np.allclose(tensor.data, np.array(expected, np.float32), rtol=2e-7)
    assert len(set(expected)) > 3
