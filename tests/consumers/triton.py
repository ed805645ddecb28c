"""Calls the Open Inference Protocol with NVIDIA's client; prints what came back as JSON.

triton.py HOST:PORT
"""

import json
import sys
from typing import Any

import ml_dtypes
import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

client = triton.InferenceServerClient(sys.argv[1])
ROPE = {"length": 3, "dim": 4}


def given(name: str, values: Any, datatype: str, binary: bool = True) -> Any:
    tensor = triton.InferInput(name, list(values.shape), datatype)
    tensor.set_data_from_numpy(values, binary_data=binary)
    return tensor


def refused(call: Any) -> list[str]:
    """Status and message of a refusal, as the client reads the error object."""
    try:
        call()
    except InferenceServerException as error:
        return [error.status(), error.message()]
    raise AssertionError("nothing was refused")


wanted = [triton.InferRequestedOutput("cos", binary_data=True), triton.InferRequestedOutput("sin", binary_data=False)]
rope = client.infer("encodings.rope", [], outputs=wanted, parameters=ROPE, request_id="7")
q = (np.arange(24) / 8).reshape(2, 3, 4)
vectors = {}
for datatype, dtype in {"FP16": np.float16, "BF16": ml_dtypes.bfloat16, "FP32": np.float32, "FP64": np.float64}.items():
    turned = client.infer("apply.rope", [given("q", q.astype(dtype), datatype)], parameters={"offset": 5}).as_numpy("q")
    assert turned.dtype == dtype
    vectors[datatype] = turned.astype(float).tolist()
plain = client.infer("apply.rope", [given("q", q.astype(np.float32), "FP32", binary=False)], parameters={"offset": 5})
texts = np.array([b"sin-cos"], dtype=object)
table = client.infer(
    "encodings.sinusoidal",
    [given("layout", texts, "BYTES"), given("dim", np.array([4]), "INT64"), given("length", np.array([3]), "INT64")],
)
mask = client.infer("masks.causal", [], parameters={"length": 3}).as_numpy("mask")

print(
    json.dumps(
        {
            "live": client.is_server_live() and client.is_server_ready() and client.is_model_ready("biases.alibi"),
            "not ready": client.is_model_ready("biases.nothing"),
            "version": client.is_model_ready("biases.alibi", "1"),
            "server": client.get_server_metadata(),
            "model": client.get_model_metadata("biases.alibi-slopes"),
            "index": len(client.get_model_repository_index()),
            "cos": rope.as_numpy("cos").tolist(),
            "sin": rope.as_numpy("sin").tolist(),
            "id": rope.get_response()["id"],
            "vectors": vectors,
            "plain": plain.as_numpy("q").tolist(),
            "table": table.as_numpy("encoding").tolist(),
            "mask": mask.tolist(),
            "unknown model": refused(lambda: client.get_model_metadata("encodings.rop")),
            "unknown parameter": refused(
                lambda: client.infer("encodings.rope", [], parameters={"lenght": 3, "dim": 4})
            ),
            "unknown output": refused(
                lambda: client.infer(
                    "encodings.rope", [], parameters=ROPE, outputs=[triton.InferRequestedOutput("tan")]
                )
            ),
            "wrong input": refused(lambda: client.infer("apply.rope", [given("query", q, "FP64")])),
        }
    )
)
