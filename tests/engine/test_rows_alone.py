"""Any block of rows, alone, in any order, on any thread, from a cold or a warm cache, is that block of the whole."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine import SCHEMES, by_key
from service.engine.scheme import whole
from service.engine.tables import Call, TableCache
from tests.engine.answers import Array

RANDOM = np.random.default_rng(17)
TOKENS_OF_HEADS = np.arange(8 * 12, dtype=np.int8).reshape(8, 12)
TOKENS = RANDOM.integers(0, 2, (4, 30))
SCORES = RANDOM.standard_normal((2, 3, 15, 10)).astype(np.float32)
REQUESTS: dict[str, tuple[str, dict[str, Any], dict[str, Array]]] = {
    "sinusoidal": ("encodings/sinusoidal", {"length": 300, "offset": -150, "dim": 34}, {}),
    "sinusoidal odd": (
        "encodings/sinusoidal",
        {"length": 90, "offset": 2**40, "dim": 7, "layout": "cos-sin", "dtype": "bfloat16", "padding_idx": 2**40 + 9},
        {},
    ),
    "sinusoidal angles": ("encodings/sinusoidal", {"length": 90, "dim": 6, "output": "angles", "dtype": "float64"}, {}),
    "sinusoidal listed": ("encodings/sinusoidal", {"dim": 6}, {"positions": RANDOM.standard_normal((9, 10)) * 1e5}),
    "sinusoidal-2d": ("encodings/sinusoidal-2d", {"grid": (9, 10), "dim": 12, "class_tokens": 3}, {}),
    "sinusoidal-2d kept": (
        "encodings/sinusoidal-2d",
        {"grid": (9, 11), "dim": 7, "channel_split": "rounded-up", "token_order": "column-major", "grid_axes": "kept"},
        {},
    ),
    "sinusoidal-2d float32": (
        "encodings/sinusoidal-2d",
        {"grid": (9, 11), "dim": 8, "base_size": (5,), "layout": "sines-first", "arithmetic": "float32"},
        {},
    ),
    "sinusoidal-3d": (
        "encodings/sinusoidal-3d",
        {"grid": (3, 4, 8), "dim": 12, "coordinates": "half-pixel", "dtype": "bfloat16"},
        {},
    ),
    "detr": ("encodings/detr", {"grid": (9, 11), "dim": 8, "dtype": "float64"}, {}),
    "detr masked": (
        "encodings/detr",
        {"dim": 8, "arithmetic": "float32"},
        {"mask": np.tri(10, 9, 2, int)[None].repeat(2, 0)},
    ),
    "detr planes": (
        "encodings/detr",
        {"dim": 8, "grid_axes": "kept", "channel_axis": "first"},
        {"mask": np.tri(10, 9, 2, int)[None].repeat(2, 0)},
    ),
    "sinusoidal-2d planes": (
        "encodings/sinusoidal-2d",
        {"grid": (9, 11), "dim": 12, "layout": "interleaved", "grid_axes": "kept", "channel_axis": "first"},
        {},
    ),
    "detr-boxes": ("encodings/detr-boxes", {"dim": 8}, {"positions": RANDOM.random((9, 10, 4))}),
    "rope": ("encodings/rope", {"length": 300, "offset": 1000, "dim": 12, "base": 500000.0, "dtype": "float16"}, {}),
    "rope pairs": ("encodings/rope", {"length": 90, "dim": 12, "pairing": "interleaved", "dtype": "float64"}, {}),
    "rope float32": ("encodings/rope", {"length": 90, "offset": -7, "dim": 12, "arithmetic": "float32"}, {}),
    "rope complex": ("encodings/rope", {"length": 90, "offset": 8, "dim": 12, "output": "complex"}, {}),
    "rope ggml": ("encodings/rope", {"length": 90, "dim": 12, "arithmetic": "ggml", "columns": "half"}, {}),
    "rope axes": (
        "encodings/rope-axes",
        {
            "dim": 16,
            "rotary_dim": 12,
            "sections": (2, 2, 2),
            "frequencies": "per-axis",
            "grid": (3, 6, 8),
            "spatial_merge_size": 2,
            "class_token": "first",
            "rest": "first",
            "pairing": "interleaved",
        },
        {},
    ),
    "rope axes of positions": (
        "encodings/rope-axes",
        {"dim": 16, "sections": (4, 2, 2), "section_rule": "interleaved", "output": "angles", "dtype": "float64"},
        {"positions": RANDOM.standard_normal((9, 10, 3)) * 1e3},
    ),
    "rope axes frequencies": (
        "encodings/rope-axes",
        {"dim": 16, "sections": (4, 4), "output": "frequencies", "arithmetic": "ggml", "section_order": (1, 0)},
        {},
    ),
    "rope mixed": (
        "encodings/rope-mixed",
        {"dtype": "bfloat16"},
        {"frequencies": RANDOM.standard_normal((3, 4, 5)), "positions": RANDOM.standard_normal((9, 10, 3)) * 40},
    ),
    "timestep": ("encodings/timestep", {"length": 300, "offset": -9, "dim": 13, "scale": 0.3}, {}),
    "timestep float32": (
        "encodings/timestep",
        {"dim": 12, "arithmetic": "float32", "dtype": "float16"},
        {"positions": RANDOM.uniform(0, 1000, (9, 10))},
    ),
    "cyclic": ("encodings/cyclic", {"length": 300, "offset": -9, "period": (7.0, 365.25), "origin": 0.5}, {}),
    "fourier": ("encodings/fourier", {"length": 90, "offset": -7, "bands": 3, "include_input": "first"}, {}),
    "fourier of points": (
        "encodings/fourier",
        {"bands": 5, "coordinates": "last-axis", "layout": "cos-sin", "dtype": "float64"},
        {"positions": RANDOM.standard_normal((9, 10, 3))},
    ),
    "gaussian-fourier": ("encodings/gaussian-fourier", {"length": 90, "offset": -7, "dim": 6, "seed": 3}, {}),
    "gaussian-fourier of points": (
        "encodings/gaussian-fourier",
        {"dim": 8, "seed": 3, "coordinates": "last-axis", "layout": "interleaved"},
        {"positions": RANDOM.standard_normal((9, 10, 3))},
    ),
    "time2vec": ("encodings/time2vec", {"length": 90, "offset": -7, "dim": 5, "seed": 3, "origin": 0.5}, {}),
    "mtan": ("encodings/mtan", {"length": 90, "offset": -7, "dim": 6, "origin": 3.0, "dtype": "float16"}, {}),
    "calendar": ("encodings/calendar", {"length": 300, "offset": -150, "unit": "hours", "frequency": "min"}, {}),
    "calendar cyclic": (
        "encodings/calendar",
        {"length": 300, "offset": -150, "unit": "days", "frequency": "W", "values": "cyclic", "dtype": "float16"},
        {},
    ),
    "lags": ("encodings/lags", {"length": 90, "offset": -7, "frequency": "h", "dtype": "int32"}, {}),
    "age": ("encodings/age", {"length": 300, "scale": "natural", "dtype": "float64"}, {}),
    "timestep of periods": ("encodings/timestep", {"length": 90, "dim": 9, "min_period": 0.004, "max_period": 4.0}, {}),
    "alibi": ("biases/alibi", {"heads": 6, "queries": 15, "keys": 11}, {}),
    "alibi key-only": ("biases/alibi", {"heads": 90, "length": 11, "form": "key-only", "dtype": "float16"}, {}),
    "alibi counted": ("biases/alibi", {"heads": 3, "queries": 9, "dtype": "float16"}, {"attention_mask": TOKENS}),
    "alibi of BLOOM": (
        "biases/alibi",
        {"heads": 12, "form": "last-key", "arithmetic": "float32-powers", "head_dim": 7},
        {"attention_mask": TOKENS},
    ),
    "slopes": ("biases/alibi-slopes", {"heads": 71}, {}),
    "permutation": ("permutations/rope", {"dim": 10, "rotary_dim": 6, "heads": 3}, {}),
    "t5 buckets": ("biases/t5-buckets", {"queries": 150, "keys": 11, "offset": 90}, {}),
    "t5 positions": ("biases/t5-buckets", {}, {"positions": RANDOM.integers(-300, 300, (3, 2, 9))}),
    "t5": ("biases/t5", {"heads": 5, "queries": 15, "keys": 110, "seed": 3}, {}),
    "t5 of a table": (
        "biases/t5",
        {"length": 40, "direction": "causal", "scale": 0.3, "dtype": "bfloat16"},
        {"table": RANDOM.standard_normal((32, 3))},
    ),
    "shaw vectors": ("biases/shaw-vectors", {"queries": 5, "keys": 40, "dim": 7, "seed": 3, "left": 3}, {}),
    "shaw": ("biases/shaw", {"queries": 15, "keys": 110, "sign": "query-key", "dtype": "int32"}, {}),
    "deberta": ("biases/deberta-buckets", {"length": 300, "output": "index"}, {}),
    "swin": ("biases/swin-index", {"window": (3, 4, 2)}, {}),
    "beit": ("biases/swin-index", {"window": (5, 4), "class_token": "first", "dtype": "int32"}, {}),
    "levit": ("biases/swin-index", {"window": (5, 4), "distances": "absolute"}, {}),
    "vits": ("biases/shaw", {"length": 30, "max_relative_position": 4, "beyond": "zero-row"}, {}),
    "axis": ("biases/decomposed-index", {"queries": 40, "keys": 30, "arithmetic": "float32"}, {}),
    "xlnet backward": (
        "biases/transformer-xl",
        {"queries": 30, "keys": 50, "dim": 8, "span": "xlnet-bi", "direction": "backward"},
        {},
    ),
    "swin v2": ("biases/swin-v2-coordinates", {"window": (6, 9), "dtype": "float64"}, {}),
    "transformer-xl": ("biases/transformer-xl", {"length": 90, "dim": 10}, {}),
    "xlnet": (
        "biases/transformer-xl",
        {"queries": 30, "keys": 50, "dim": 9, "span": "xlnet-bi", "clamp_len": 20, "dtype": "bfloat16"},
        {},
    ),
    "temporal distance": ("biases/temporal-distance", {"dim": 6}, {"positions": RANDOM.standard_normal((2, 9)) * 1e4}),
    "kerple": ("biases/kerple", {"r1": (1.0, 0.3), "r2": (0.2, 5.0), "queries": 15, "keys": 40}, {}),
    "sandwich": ("biases/sandwich", {"heads": 3, "dim": 10, "queries": 15, "keys": 40}, {}),
    "fire": ("biases/fire", {"queries": 25, "keys": 40, "threshold": 20, "dtype": "float64"}, {}),
    "fire bias": (
        "biases/fire",
        {"queries": 25, "keys": 40, "threshold": 20, "output": "bias", "heads": 3, "seed": 4},
        {},
    ),
    "fire weights": ("biases/fire", {"output": "weights", "heads": 30, "hidden": 5, "seed": 4}, {}),
    "beam": ("encodings/temperature", {"length": 300, "offset": 8100, "schedule": "beam"}, {}),
    "temperature": ("encodings/temperature", {"length": 300, "offset": 8100, "dtype": "float64"}, {}),
    "causal": ("masks/causal", {"queries": 90, "keys": 70}, {}),
    # Over the same keys, so from the same table, but from another position on.
    "causal top-left": ("masks/causal", {"queries": 60, "keys": 70, "alignment": "top-left"}, {}),
    "sliding": ("masks/sliding", {"length": 90, "window": 7, "direction": "bidirectional", "dtype": "float16"}, {}),
    "chunked": ("masks/chunked", {"chunk_size": 4}, {"attention_mask": TOKENS}),
    "prefix": ("masks/prefix", {"length": 90, "prefix": 20, "offset": -9, "empty_rows": "attend-all"}, {}),
    "block": ("masks/block", {"length": 90, "block_size": 8, "reach": "causal", "dtype": "bfloat16"}, {}),
    "packed": ("masks/packed", {"segment_lengths": (31, 2, 57), "queries": 95}, {}),
    "segments": (
        "masks/segments",
        {"empty_rows": "attend-all", "dtype": "float32", "fill": "-inf"},
        {"segment_ids": RANDOM.integers(0, 3, TOKENS.shape), "attention_mask": TOKENS},
    ),
    "padding": ("masks/padding", {"queries": 5}, {"attention_mask": TOKENS}),
    "combined": ("masks/combined", {"operator": "or"}, {"a": np.tri(30, dtype=int), "b": TOKENS[:, None, :]}),
    "apply sinusoidal": ("apply/sinusoidal", {"offset": 5}, {"x": RANDOM.standard_normal((6, 15, 10))}),
    "apply rope": (
        "apply/rope",
        {"axes": "length-heads", "pairing": "interleaved", "rotary_dim": 6},
        {"q": RANDOM.standard_normal((15, 6, 10)).astype(np.float32), "k": RANDOM.standard_normal((15, 2, 10))},
    ),
    "apply rope in float32": (
        "apply/rope",
        {"rotary_dim": 6, "rotary_channels": "last", "output_pairing": "interleaved", "compute_dtype": "float32"},
        {"q": RANDOM.standard_normal((6, 15, 10)).astype(np.float16)},
    ),
    "apply rope shifted": (
        "apply/rope",
        {"direction": "shift", "angle_sign": "negative", "offset": 3},
        {"q": RANDOM.standard_normal((6, 15, 10)), "from_positions": RANDOM.integers(0, 90, (6, 15))},
    ),
    "apply permutation": (
        "apply/permutation",
        {"dim": 10, "rotary_dim": 6, "projection": "grouped", "kv_heads": 2},
        {"x": RANDOM.standard_normal((100, 3, 2))},
    ),
    "apply permutation to the last axis": ("apply/permutation", {"dim": 6, "axis": "last"}, {"x": TOKENS_OF_HEADS}),
    "from mask": ("positions/from-mask", {"offset": 2, "fill": 1, "last": 9}, {"attention_mask": TOKENS}),
    "from ids": ("positions/from-mask", {"dtype": "int32"}, {"input_ids": RANDOM.integers(0, 3, (40, 7))}),
    "packed positions": ("positions/packed", {"padding_segment": 2}, {"segment_ids": RANDOM.integers(0, 4, (40, 7))}),
    "multimodal": (
        "positions/multimodal",
        {
            "segments": [{"type": "text", "tokens": 90}, {"type": "video", "grid": [3, 8, 4], "audio_tokens": 5}],
            "axes": "last",
            "padded_length": 130,
            "padding_side": "left",
        },
        {},
    ),
    "apply rope mixed": (
        "apply/rope-mixed",
        {"pairing": "half", "axes": "length-heads"},
        {
            "q": RANDOM.standard_normal((2, 11, 4, 14)).astype("f4"),
            "k": RANDOM.standard_normal((11, 4, 14)),
            "frequencies": RANDOM.standard_normal((3, 4, 5)),
            "positions": RANDOM.standard_normal((11, 3)) * 40,
        },
    ),
    "apply rope axes": (
        "apply/rope-axes",
        {"sections": (2, 3), "section_rule": "interleaved", "axes": "length-heads", "direction": "inverse"},
        {
            "q": RANDOM.standard_normal((4, 15, 6, 10)).astype(np.float32),
            "k": RANDOM.standard_normal((4, 15, 2, 10)),
            "positions": RANDOM.integers(0, 99, (4, 15, 2)),
        },
    ),
    "sinusoidal float32": ("encodings/sinusoidal", {"length": 90, "dim": 34, "arithmetic": "float32"}, {}),
    "similarity": ("analyses/similarity", {"length": 90, "dim": 12}, {}),
    "similarity of a table": ("analyses/similarity", {"measure": "cosine"}, {"x": RANDOM.standard_normal((60, 7))}),
    "decay": ("analyses/decay", {"of": "alibi", "length": 50, "heads": 70}, {}),
    "shift": ("analyses/shift", {"dim": 80, "length": 70, "shift": 3}, {}),
    "norm": ("analyses/norm", {}, {"x": RANDOM.standard_normal((70, 6))}),
    "attention permuted": ("analyses/permutation", {}, {"x": RANDOM.standard_normal((70, 6))}),
    "extrapolation": ("analyses/extrapolation", {"dim": 64, "trained_length": 50, "length": 120}, {}),
    "attention": ("analyses/attention", {"of": "alibi", "length": 60, "depth": 60}, {}),
    "precision": ("analyses/precision", {"length": 300, "offset": 5000, "dim": 12}, {}),
    "apply mask": (
        "apply/mask",
        {"empty_rows": "attend-all"},
        {"x": RANDOM.standard_normal((4, 3, 10, 30)), "mask": TOKENS[:, None]},
    ),
    "learned normal": ("encodings/learned", {"rows": 300, "dim": 34, "seed": 3}, {}),
    "learned truncated": (
        "encodings/learned",
        {"rows": 90, "dim": 6, "distribution": "truncated-normal", "std": 1.5, "length": 80, "offset": 5},
        {},
    ),
    "learned uniform": (
        "encodings/learned",
        {"rows": 90, "dim": 6, "distribution": "uniform", "offset_rule": "roberta", "dtype": "float16"},
        {},
    ),
    "learned listed": ("encodings/learned", {"rows": 90, "dim": 6}, {"positions": RANDOM.integers(0, 90, (9, 10))}),
    "lookup": (
        "learned/lookup",
        {"offset_rule": "opt", "dtype": "bfloat16"},
        {"x": RANDOM.standard_normal((34, 7)), "positions": RANDOM.integers(-2, 32, (9, 10))},
    ),
    "lookup counted": ("learned/lookup", {"length": 30, "offset": 3}, {"x": RANDOM.standard_normal((34, 7))}),
    "lookup masked": (
        "learned/lookup",
        {"offset_rule": "roberta"},
        {"x": RANDOM.standard_normal((34, 7)), "attention_mask": TOKENS},
    ),
    "resample": ("learned/resample", {"length": 130, "dtype": "float32"}, {"x": RANDOM.standard_normal((34, 7))}),
    "resample zeros": ("learned/resample", {"length": 90, "prefix": 3}, {"x": np.eye(34, dtype=np.float32)}),
    "resample grid": (
        "learned/resample",
        {"grid": (9, 11), "old_grid": (3, 10), "prefix": 4, "antialias": "antialias"},
        {"x": RANDOM.standard_normal((34, 7)).astype(np.float32)},
    ),
    "resample shrunk": (
        "learned/resample",
        {"grid": (3, 4), "antialias": "antialias", "method": "bilinear"},
        {"x": RANDOM.standard_normal((1, 20, 30, 7))},
    ),
    "resample padded": (
        "learned/resample",
        {"grid": (9, 11), "old_grid": (3, 10), "prefix": 4, "method": "pad"},
        {"x": RANDOM.standard_normal((34, 7))},
    ),
    "factorised": (
        "learned/factorised",
        {"joining": "sum"},
        {"rows": RANDOM.standard_normal((9, 7)), "columns": RANDOM.standard_normal((10, 7))},
    ),
    "factorised channels": (
        "learned/factorised",
        {"axes": "channels-first"},
        {"rows": RANDOM.standard_normal((9, 7)), "columns": RANDOM.standard_normal((10, 4))},
    ),
    "apply alibi counted": (
        "apply/alibi",
        {"form": "symmetric", "arithmetic": "bfloat16"},
        {"x": RANDOM.standard_normal((4, 3, 10, 30)), "attention_mask": TOKENS},
    ),
    "apply t5": ("apply/t5", {"seed": 2, "num_buckets": 8, "max_distance": 9}, {"x": SCORES}),
    "apply kerple": ("apply/kerple", {"r1": (1.0, 0.3, 2.0), "r2": (0.2, 5.0, 1.0)}, {"x": SCORES}),
    "apply sandwich": ("apply/sandwich", {"dim": 6, "offset": 100}, {"x": SCORES}),
    "apply fire": (
        "apply/fire",
        {"threshold": 9},
        {
            "x": SCORES,
            "weight_in": RANDOM.standard_normal(5),
            "bias_in": RANDOM.standard_normal(5),
            "weight_out": RANDOM.standard_normal((3, 5)),
            "bias_out": RANDOM.standard_normal(3),
        },
    ),
    "apply shaw": (
        "apply/shaw",
        {"left": 4, "right": 3},
        {"x": SCORES, "q": RANDOM.standard_normal((2, 3, 15, 6)), "table": RANDOM.standard_normal((3, 8, 6))},
    ),
    "apply transformer-xl": (
        "apply/transformer-xl",
        {"span": "legacy"},
        {"x": SCORES, "relative": RANDOM.standard_normal((2, 3, 15, 10))},
    ),
    "apply alibi": ("apply/alibi", {"form": "symmetric"}, {"x": RANDOM.standard_normal((2, 3, 15, 10))}),
}
# What no request above is about is tried with the first example of its record.
REQUESTS |= {
    scheme.name: ("/".join(scheme.key), dict(scheme.examples[0].query), {})
    for scheme in SCHEMES
    if not scheme.needs_body and "/".join(scheme.key) not in {address for address, _, _ in REQUESTS.values()}
}
WHOLE: dict[str, dict[str, Array]] = {}
CACHES = {limit: TableCache(limit) for limit in (0, 20_000, 1 << 22)}


def call_of(name: str, cache: TableCache) -> Call:
    address, parameters, inputs = REQUESTS[name]
    scheme = by_key(*address.split("/"))
    params = scheme.params(**parameters)
    return cache.call(scheme, params, inputs, scheme.tensors(params, inputs))


def block_of(name: str, tensor: str, start: int, stop: int) -> bytes:
    """That block of the whole, computed once without any cache."""
    if name not in WHOLE:
        address, parameters, inputs = REQUESTS[name]
        scheme = by_key(*address.split("/"))
        WHOLE[name] = whole(scheme, scheme.params(**parameters), inputs)
    table = WHOLE[name][tensor]
    return table.reshape(-1, table.shape[-1])[start:stop].tobytes()


def test_every_scheme_is_here() -> None:
    assert {address for address, _, _ in REQUESTS.values()} == {"/".join(scheme.key) for scheme in SCHEMES}


@pytest.mark.parametrize("name", REQUESTS)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_in_any_order_from_any_cache(name: str, data: st.DataObject) -> None:
    cache = data.draw(st.sampled_from([*CACHES.values(), TableCache(1 << 20)]))
    call = call_of(name, cache)
    for _ in range(3):
        tensor = data.draw(st.sampled_from(list(call.tensors)))
        start = data.draw(st.integers(0, call.tensors[tensor].rows - 1))
        stop = data.draw(st.integers(start + 1, call.tensors[tensor].rows))
        assert cache.rows(call, tensor, start, stop).tobytes() == block_of(name, tensor, start, stop)


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("limit", [0, 20_000, 1 << 22])
def test_on_threads(name: str, limit: int) -> None:
    cache = TableCache(limit)
    call = call_of(name, cache)
    tensor = next(iter(call.tensors))
    rows = call.tensors[tensor].rows
    bounds = [(start, min(rows, start + 13)) for start in range(0, rows, 7)] * 2
    RANDOM.shuffle(bounds)
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda bound: cache.rows(call, tensor, *bound).tobytes(), bounds))
    assert got == [block_of(name, tensor, *bound) for bound in bounds]
