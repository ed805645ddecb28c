"""Numbers of published sources that are no installable library: `python -m tests.golden.make_sources FOLDER`.

FOLDER holds the files of SOURCES, as those releases and commits have them. The wanted definitions alone are run, with
stand-ins for what they import. The numbers are frozen; the sources are no part of this project.

`nemo.sandwich`, `nemo.kerple`: biases (heads, queries, keys) of six heads; `kerple.log`, `kerple.power` of three;
`fire.bias` (heads, length, length) of four with `fire.weight_in` and so on; `mtan.fixed` and `mtan.learned` (times,
channels) with `mtan.weights` and `.phases`; `time2vec.sin`, `.cos` likewise; `transformer_xl` (positions, channels);
`bert` indices (length, length). float32 but for the indices.
"""

import ast
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.golden.frozen import Numbers, library, save

SOURCES = {
    "nemo/sandwich_relative_position_embedding.py": "nemo_toolkit 2.0.0",
    "nemo/kerple_relative_position_embedding.py": "nemo_toolkit 2.0.0",
    "nemo/alibi_relative_position_embedding.py": "nemo_toolkit 2.0.0",
    "kerple/layers.py": "chijames/KERPLE 25be3d712e96a3353b374f1f8e36b97d86f97ffa megatron/mpu",
    "dape/positional_embeddings.py": "chuanyang-Zheng/DAPE bde344a844f2bd1f498b2bac70240dcda41c50c1 megatron/model",
    "mtan/models.py": "reml-lab/mTAN 7a3d536ee742f1cacb4a6d3478ac78a228d995ff src",
    "time2vec/periodic_activations.py": "ojus1/Time2Vec-PyTorch 5517dbfa2877c83c848200f575e755a40fca3391",
    "transformers4/modeling_transfo_xl.py": "transformers 4.57.1 models/deprecated/transfo_xl",
    "transformers4/modeling_bert.py": "transformers 4.57.1 models/bert",
}
QUERIES, KEYS, LENGTH, DIM = 5, 9, 12, 14
HEADS = {"nemo": 6, "kerple": 3, "fire": 4}
SANDWICH_DIM = 32
FIRE = {"c": 0.25, "threshold": 4.0, "eps": 1e-6}
TIMES = (0.0, 0.0104, 0.5, 0.9, 1.0, -2.25)
TXL = {"keys": 7, "clamp_len": 4}
BERT_POSITIONS = 8


def definitions(path: Path, names: tuple[str, ...], **scope: Any) -> SimpleNamespace:
    """Some functions and classes of a file, run alone."""
    wanted = [
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names
    ]
    exec(compile(ast.Module([*wanted], []), str(path), "exec"), scope)
    return SimpleNamespace(**{name: scope[name] for name in names})


def nemo(folder: Path, torch: Any) -> Numbers:
    import math  # noqa: PLC0415

    alibi = definitions(
        folder / "alibi_relative_position_embedding.py",
        ("get_slopes", "build_slopes", "build_relative_position"),
        torch=torch,
        math=math,
    )
    heads = HEADS["nemo"]
    made: Numbers = {}
    for name, kind, options in (
        ("sandwich", "SandwichRelativePositionEmbedding", {"hidden_size": SANDWICH_DIM}),
        ("kerple", "KERPLERelativePositionEmbedding", {}),
    ):
        scope = definitions(
            folder / f"{name}_relative_position_embedding.py",
            (kind,),
            torch=torch,
            experimental=lambda each: each,
            build_relative_position=alibi.build_relative_position,
            build_slopes=alibi.build_slopes,
        )
        layer = getattr(scope, kind)(
            bidirectional=True, num_attention_heads=heads, layer_type=None, max_seq_len=16, **options
        )
        made[f"nemo.{name}"] = layer(QUERIES, KEYS).detach().numpy()[0]
    return made


def kerple(folder: Path, torch: Any) -> Numbers:
    """The authors' kernels with weights drawn anew; under their causal matrix distances ahead are 0."""
    on_cpu = SimpleNamespace(current_device=lambda: "cpu")
    stand_in = SimpleNamespace(
        **{name: getattr(torch, name) for name in ("ones", "rand", "tril", "arange", "log", "Tensor", "nn", "float32")},
        cuda=on_cpu,
    )
    scope = definitions(
        folder / "layers.py",
        ("ParallelKerpleLog", "ParallelKerplePower"),
        torch=stand_in,
        Parameter=torch.nn.Parameter,
        get_model_parallel_world_size=lambda: 1,
        get_model_parallel_rank=lambda: 0,
    )
    heads = HEADS["kerple"]
    made: Numbers = {}
    for name, kind in (("log", scope.ParallelKerpleLog), ("power", scope.ParallelKerplePower)):
        arguments = SimpleNamespace(num_attention_heads=heads, pos_emb="kerple_ap_", params_dtype=torch.float32)
        layer = kind(arguments)
        bias = layer(torch.zeros(1, heads, KEYS, KEYS))
        made[f"kerple.{name}"] = bias.detach().numpy()[0]
        for weight in ("bias_a", "bias_p"):
            made[f"kerple.{name}.{weight}"] = getattr(layer, weight).detach().numpy().ravel()
    return made


def fire(folder: Path, torch: Any) -> Numbers:
    heads = HEADS["fire"]
    scope = definitions(folder / "positional_embeddings.py", ("FIRE",), torch=torch, nn=torch.nn)
    layer = scope.FIRE(heads, 32, FIRE["c"], 2 * FIRE["threshold"], FIRE["eps"])  # they halve it
    made = {"fire.bias": layer(torch.zeros(1, heads, LENGTH, LENGTH)).detach().numpy()[0]}
    hidden, last = layer.mlp[0], layer.mlp[2]
    named = {
        "weight_in": hidden.weight[:, 0],
        "bias_in": hidden.bias,
        "weight_out": last.weight,
        "bias_out": last.bias,
    }
    return made | {f"fire.{name}": weight.detach().numpy() for name, weight in named.items()}


def times(folder: Path, torch: Any) -> Numbers:
    """mTAN's two embeddings and a Time2Vec port."""
    scope = definitions(folder / "mtan" / "models.py", ("enc_mtan_rnn",), nn=torch.nn, torch=torch, np=np)
    network = SimpleNamespace(
        embed_time=DIM, device="cpu", linear=torch.nn.Linear(1, 1), periodic=torch.nn.Linear(1, DIM - 1)
    )
    at = torch.tensor([TIMES])
    made: Numbers = {
        "mtan.fixed": scope.enc_mtan_rnn.fixed_time_embedding(network, at).numpy()[0],
        "mtan.learned": scope.enc_mtan_rnn.learn_time_embedding(network, at).detach().numpy()[0],
        "mtan.weights": torch.cat([network.linear.weight, network.periodic.weight]).detach().numpy()[:, 0],
        "mtan.phases": torch.cat([network.linear.bias, network.periodic.bias]).detach().numpy(),
    }
    names = ("t2v", "SineActivation", "CosineActivation")
    port = definitions(folder / "time2vec" / "periodic_activations.py", names, nn=torch.nn, torch=torch)
    for name, kind in (("sin", port.SineActivation), ("cos", port.CosineActivation)):
        layer = kind(1, DIM)
        made[f"time2vec.{name}"] = layer(at[0][:, None]).detach().numpy()
        made[f"time2vec.{name}.weights"] = torch.cat([layer.w, layer.w0], dim=1).detach().numpy()[0]
        made[f"time2vec.{name}.phases"] = torch.cat([layer.b, layer.b0]).detach().numpy()
    return made


def transformers4(folder: Path, torch: Any) -> Numbers:
    """Transformer-XL's rows, clamped, and which row of BERT's relative table each query and key take."""
    table = definitions(folder / "modeling_transfo_xl.py", ("PositionalEmbedding",), nn=torch.nn, torch=torch)
    positions = torch.arange(TXL["keys"] - 1, -1, -1.0).clamp_(max=TXL["clamp_len"])
    made: Numbers = {"transformer_xl": table.PositionalEmbedding(DIM)(positions)[:, 0].numpy()}
    steps = [
        node
        for node in ast.walk(ast.parse((folder / "modeling_bert.py").read_text()))
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) in ("position_ids_l", "position_ids_r", "distance")
        and "key_length - 1" not in ast.unparse(node.value)
    ]
    scope: dict[str, Any] = {"torch": torch, "query_length": BERT_POSITIONS, "key_length": BERT_POSITIONS}
    scope["hidden_states"] = torch.zeros(1)
    for step in sorted(steps, key=lambda node: node.lineno)[:3]:
        exec(ast.unparse(step), scope)
    return made | {"bert": (scope["distance"] + BERT_POSITIONS - 1).numpy()}


def build(folder: Path) -> Numbers:
    """Everything the file holds, by name."""
    torch = library("torch")
    torch.manual_seed(11)
    return {
        **nemo(folder / "nemo", torch),
        **kerple(folder / "kerple", torch),
        **fire(folder / "dape", torch),
        **times(folder, torch),
        **transformers4(folder / "transformers4", torch),
    }


if __name__ == "__main__":
    save("sources", build(Path(sys.argv[1])), "torch", "numpy", sources=SOURCES)
