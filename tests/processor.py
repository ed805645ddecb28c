"""What this process answers on this processor, as JSON: `python -m tests.processor`.

answers   a digest of each example of each scheme in each format and dtype, of larger tables, and of their ETags
controls  digests of what is known to differ between processors: numpy's, the C library's and BLAS's own results
features  the processor features that numpy uses beyond those it was built for
core      what OpenBLAS takes the processor for
"""

import ctypes
import hashlib
import io
import json
import math
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from service.api.parameters import parameters_schema
from service.engine.rounding import DTYPES
from tests.api.requests import EXAMPLES, PICTURES, Asked
from tests.clients import Client, in_process, settings
from tests.formats.holding import HOLDING
from tests.models.fixtures import fixtures

# Enough rows for whole blocks, negative positions, far and fractional ones, and the float32 arithmetics.
LARGER = (
    "/v1/encodings/sinusoidal.safetensors?length=5000&dim=80&offset=-999",
    "/v1/encodings/sinusoidal.safetensors?length=700&dim=33&offset=9007199254739000&layout=sin-cos",
    "/v1/encodings/sinusoidal.safetensors?positions=0.1,-7.25,1e15,123456.789,3e-9&dim=256&base=3.7",
    "/v1/encodings/sinusoidal.safetensors?length=3000&dim=34&arithmetic=float32",
    "/v1/encodings/sinusoidal.safetensors?length=3000&dim=34&arithmetic=float32&frequency_form=power",
    "/v1/encodings/sinusoidal-2d.safetensors?grid=40,60&dim=100&base_size=14",
    "/v1/encodings/sinusoidal-2d.safetensors?grid=40,60&dim=100&base_size=14&arithmetic=float32",
    "/v1/encodings/sinusoidal-2d.safetensors?grid=40,60&dim=100&base_size=14&arithmetic=float32-coordinates",
    "/v1/encodings/sinusoidal-3d.safetensors?grid=8,20,30&dim=96&coordinates=half-pixel",
    "/v1/encodings/detr.safetensors?grid=40,60&dim=100",
    "/v1/encodings/detr.safetensors?grid=40,60&dim=100&grid_axes=kept&channel_axis=first",
    "/v1/encodings/detr.safetensors?grid=40,60&dim=100&arithmetic=float32&offset=-0.5",
    "/v1/encodings/rope.safetensors?length=3000&dim=96&offset=130000&base=500000",
    "/v1/encodings/rope.safetensors?length=3000&dim=96&arithmetic=float32&base=500000",
    "/v1/encodings/rope.safetensors?length=3000&dim=96&arithmetic=ggml",
    "/v1/encodings/rope.safetensors?length=3000&dim=96&output=angles",
    "/v1/encodings/rope.safetensors?length=3000&dim=96&base=500000&rope_type=yarn&factor=16&original_max_position_embeddings=4096",
    "/v1/encodings/rope.safetensors?length=3000&dim=96&base=500000&rope_type=yarn&factor=16&original_max_position_embeddings=4096&arithmetic=float32",
    "/v1/encodings/rope.safetensors?length=3000&dim=96&base=500000&rope_type=yarn&factor=16&original_max_position_embeddings=4096&arithmetic=ggml",
    "/v1/encodings/rope.safetensors?length=99&dim=96&rope_type=ntk&factor=4&mixed_b=0.625&arithmetic=float32",
    "/v1/encodings/rope.safetensors?length=99&dim=96&rope_type=dynamic&factor=2&max_position_embeddings=9&seq_len=99",
    "/v1/encodings/rope.safetensors?length=3000&dim=96&xpos_scale_base=512&xpos_center=1500",
    "/v1/encodings/rope.safetensors?length=300&dim=96&xpos_scale_base=512&xpos_role=key",
    "/v1/encodings/rope.safetensors?length=3000&dim=96&xpos_scale_base=512&xpos_center=1500&arithmetic=float32",
    "/v1/biases/alibi.safetensors?heads=12&length=300",
    "/v1/biases/transformer-xl.safetensors?length=700&dim=33",
    "/v1/biases/swin-v2-coordinates.safetensors?window=12,16",
    "/v1/biases/kerple.safetensors?r1=1,0.3&r2=0.7,0.01&length=200",
    "/v1/biases/kerple.safetensors?r1=1,0.3&r2=0.7,1.3&length=200&form=power",
    "/v1/biases/fire.safetensors?length=300&threshold=100",
    "/v1/biases/alibi-slopes.safetensors?heads=71&alibi_bias_max=7.3",
    "/v1/encodings/age.safetensors?length=3000&offset=1000",
    "/v1/encodings/temperature.safetensors?length=3000&schedule=beam",
    "/v1/encodings/timestep.safetensors?length=300&dim=32&min_period=0.004&max_period=4",
    "/v1/encodings/calendar.safetensors?length=3000&unit=hours&frequency=min&values=cyclic",
    "/v1/encodings/learned.safetensors?rows=700&dim=33&seed=5",
    "/v1/encodings/learned.safetensors?rows=700&dim=33&distribution=truncated-normal&std=1.3",
    "/v1/encodings/learned.safetensors?rows=70&dim=33&distribution=uniform&spread=glorot",
    "/v1/encodings/rope.png?length=4096&dim=512&theme=dark",
    "/v1/biases/alibi.png?length=300&heads=12&picture_width=narrow",
)

# A table of 14 x 14 and a class token, and what it becomes.
RESIZED = (
    "grid=16,24&prefix=1",
    "grid=9,5&prefix=1&antialias=antialias",
    "grid=16,24&prefix=1&method=bilinear&sampling=align-corners",
    "length=700&ratio=plus-tenth",
)

MULTIPLIER = "deepseek2.rope.scaling.yarn_log_multiplier"
DEEPSEEK = {
    "general.architecture": "deepseek2",
    "deepseek2.attention.head_count": 4,
    "deepseek2.embedding_length": 32,
    "deepseek2.rope.dimension_count": 8,
    "deepseek2.rope.scaling.type": "yarn",
    "deepseek2.rope.scaling.factor": 2.0,
    "deepseek2.rope.scaling.original_context_length": 4096,
}


def answers() -> dict[str, str]:
    with in_process(settings()) as client:
        return dict(_answers(client))


def _answers(client: Client) -> Iterator[tuple[str, str]]:
    for example in EXAMPLES:
        for extension in HOLDING:
            for dtype in _dtypes(example):
                asked = Asked(example.scheme, example.example, extension, dtype)
                reply = asked.send(client)
                if reply.status_code == 200:
                    yield f"{asked.method} {asked.target}", _digest(reply.content, reply.headers.get("etag", ""))
                else:
                    # A format that cannot hold the dtype, or several tensors; a choice that goes with another dtype.
                    assert reply.status_code == 406 or "dtype" in reply.json()["detail"], reply.text
    for asked in PICTURES:
        if asked.extension == "png" or asked.example is asked.scheme.examples[0]:
            reply = asked.send(client)
            assert reply.status_code == 200, reply.text
            yield f"{asked.method} {asked.target}", _digest(reply.content, reply.headers.get("etag", ""))
    for target in LARGER:
        for dtype in DTYPES:
            reply = client.get(f"{target}&dtype={dtype}")
            assert reply.status_code == 200, reply.text
            yield f"GET {target}&dtype={dtype}", _digest(reply.content, reply.headers["etag"])
    yield from _resized(client)
    yield from _resolved(client)


def _resolved(client: Client) -> Iterator[tuple[str, str]]:
    """Plans, whose facts are numbers too; of hundreds of factors a power differs between processors for one or two."""
    known = {name: fixture["config"] for name, fixture in fixtures().items()}
    headers = {f"deepseek2 {number}": DEEPSEEK | {MULTIPLIER: number / 2000} for number in range(490, 510)}
    for name, config in (known | headers).items():
        reply = client.post("/v1/models/resolve", json=config)
        if reply.status_code == 200:
            yield f"POST /v1/models/resolve {name}", _digest(reply.content)


def _resized(client: Client) -> Iterator[tuple[str, str]]:
    table = io.BytesIO()
    np.save(table, (np.arange(197.0 * 48) * 0.618034 % 1.0 - 0.5).reshape(197, 48))
    sent: dict[str, Any] = {"content": table.getvalue(), "headers": {"Content-Type": "application/octet-stream"}}
    for query in RESIZED:
        for dtype in DTYPES:
            target = f"/v1/learned/resample.safetensors?{query}&dtype={dtype}"
            reply = client.post(target, **sent)
            assert reply.status_code == 200, reply.text
            yield f"POST {target}", _digest(reply.content)


def _dtypes(example: Asked) -> list[str]:
    if "dtype" in example.example.query or "dtype" not in example.scheme.params.model_fields:
        return [""]
    return [f"&dtype={dtype}" for dtype in parameters_schema(example.scheme)["properties"]["dtype"]["enum"]]


def controls() -> dict[str, str]:
    x = np.arange(1, 100_001) * 0.37
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 300, 300))
    powers = np.array([value**0.37 for value in x.tolist()])
    waves = np.array([function(value) for function in (math.sin, math.exp) for value in (x / 1e3).tolist()])
    return {
        "numpy": _digest(np.sin(x.astype(np.float32)).tobytes(), np.exp(x / 1e4).tobytes()),
        "libc": _digest(waves.tobytes(), powers.tobytes()),
        "blas": _digest((a @ b).tobytes()),
    }


def features() -> list[str]:
    umath = import_module("numpy._core._multiarray_umath")
    there, built, dispatched = umath.__cpu_features__, umath.__cpu_baseline__, umath.__cpu_dispatch__
    return [name for name, on in there.items() if on and name not in built and name in dispatched]


def core() -> str | None:
    """None where numpy has another BLAS."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "openblas" in line:
            name = getattr(ctypes.CDLL(line.split()[-1]), "scipy_openblas_get_corename64_", None)
            if name is not None:
                name.restype = ctypes.c_char_p
                return str(name().decode())
    return None


def _digest(*parts: bytes | str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.encode())
    return digest.hexdigest()


if __name__ == "__main__":
    print(json.dumps({"answers": answers(), "controls": controls(), "features": features(), "core": core()}))
