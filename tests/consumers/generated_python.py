"""Calls one operation of each family with the client that openapi-python-client made; prints what came back as JSON.

generated_python.py FOLDER ADDRESS     FOLDER holds the package `generated`
"""

import importlib
import io
import json
import sys
from typing import Any

import numpy as np

folder, address = sys.argv[1:]
sys.path.insert(0, folder)
generated = importlib.import_module("generated")
models = importlib.import_module("generated.models")
types = importlib.import_module("generated.types")
client = generated.Client(base_url=address)


def call(tag: str, operation: str, **arguments: Any) -> Any:
    """What an operation answers, as the generated client understands it."""
    module = importlib.import_module(f"generated.api.{tag}.{operation}")
    return module.sync(client=client, **arguments)


def array(file: Any) -> Any:
    return np.load(io.BytesIO(file.payload.read()))


def upload(values: Any) -> Any:
    file = io.BytesIO()
    np.save(file, values)
    return types.File(payload=io.BytesIO(file.getvalue()), mime_type="application/octet-stream")


x = np.arange(8, dtype=np.float32).reshape(2, 4)
npy = models.Extension.NPY
rope = call("encodings", "encodings_rope", dim=4, length=3, pairing=models.EncodingsRopePairing.INTERLEAVED)
body = models.LearnedResampleBody.from_dict({"tensors": {"x": x.tolist()}})
mask = models.PositionsFromMaskBody.from_dict({"tensors": {"attention_mask": [[1, 1, 0], [0, 1, 1]]}})
infer = models.InferenceRequest.from_dict({"parameters": {"length": 3, "dim": 4}, "inputs": []})
bundled = models.BundleBody.from_dict({"slopes": "/v1/biases/alibi-slopes?heads=2"})
refused = call("encodings", "encodings_rope", dim=5, length=3)
assert isinstance(refused, models.Problem)

results = {
    "encodings": rope.tensors.sin.data,
    "base": rope.parameters.base,
    "file": array(call("encodings", "encodings_rope_file", extension=npy, dim=4, length=3)).tolist(),
    "biases": call("biases", "biases_alibi_slopes", heads=3).tensors.slopes.data,
    "masks": call("masks", "masks_causal", length=2).tensors.mask.data,
    "analyses": call("analyses", "analyses_wavelengths", dim=4).tensors.to_dict(),
    "permutations": call("permutations", "permutations_rope", dim=4).tensors.to_dict(),
    "learned": call(
        "learned", "learned_resample", body=body, length=3, method=models.LearnedResampleMethod.LINEAR
    ).tensors.to_dict(),
    "positions": call("positions", "positions_from_mask", body=mask).tensors.to_dict(),
    "upload": array(call("apply", "apply_sinusoidal_file", extension=npy, body=upload(x), offset=5)).tolist(),
    "bundle": len(call("bundle", "bundle_file", extension=models.BundleFileExtension.NPZ, body=bundled).payload.read()),
    "catalogue": call("catalogue", "schemes_get", scheme="rope").schemes[0].title,
    "inference": call("inference", "inference_infer", model=models.InferenceInferModel("encodings.rope"), body=infer)
    .outputs[1]
    .data,
    "status": refused.status,
    "fault": refused.errors[0].code,
}
print(json.dumps(results))
