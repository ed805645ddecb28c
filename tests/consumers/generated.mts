// Calls one operation of each family with openapi-fetch, typed by what openapi-typescript made; prints JSON.
//     node generated.mjs ADDRESS
import createClient from "openapi-fetch";
import type { components, paths } from "./generated.js";

declare const process: { argv: string[] };

const client = createClient<paths>({ baseUrl: process.argv[2] });

function answered<T>(reply: { data?: T; error?: unknown; response: Response }): T {
  if (reply.data === undefined) throw new Error(JSON.stringify(reply.error));
  return reply.data;
}

const rope = answered(
  await client.GET("/v1/encodings/rope", { params: { query: { dim: 4, length: 3, pairing: "interleaved" } } }),
);
const bin = answered(
  await client.GET("/v1/encodings/rope.{extension}", {
    params: { path: { extension: "bin" }, query: { dim: 4, length: 3, tensor: "sin" } },
    parseAs: "arrayBuffer",
  }),
);
const slopes = answered(await client.GET("/v1/biases/alibi-slopes", { params: { query: { heads: 3 } } }));
const causal = answered(await client.GET("/v1/masks/causal", { params: { query: { length: 2 } } }));
const waves = answered(await client.GET("/v1/analyses/wavelengths", { params: { query: { dim: 4 } } }));
const moved = answered(await client.GET("/v1/permutations/rope", { params: { query: { dim: 4 } } }));
const resized = answered(
  await client.POST("/v1/learned/resample", {
    params: { query: { length: 3, method: "linear" } },
    body: { tensors: { x: [[0, 1, 2, 3], [4, 5, 6, 7]] } },
  }),
);
const ids = answered(
  await client.POST("/v1/positions/from-mask", { body: { tensors: { attention_mask: [[1, 1, 0], [0, 1, 1]] } } }),
);
// One npy of 2 x 4 numbers, made here.
const header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }".padEnd(117) + "\n";
const npy = new Blob([
  new Uint8Array([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, 118, 0]),
  header,
  new Float32Array([0, 1, 2, 3, 4, 5, 6, 7]),
]);
const added = answered(
  await client.POST("/v1/apply/sinusoidal.{extension}", {
    params: { path: { extension: "bin" }, query: { offset: 5 } },
    headers: { "Content-Type": "application/octet-stream" },
    body: npy as unknown as { tensors: { x: unknown[] } },
    bodySerializer: (body) => body as unknown as BodyInit,
    parseAs: "arrayBuffer",
  }),
);
const bundled = answered(
  await client.POST("/v1/bundle.{extension}", {
    params: { path: { extension: "npz" } },
    body: { slopes: "/v1/biases/alibi-slopes?heads=2" },
    parseAs: "arrayBuffer",
  }),
);
const known = answered(await client.GET("/v1/schemes/{scheme}", { params: { path: { scheme: "rope" } } }));
const inferred = answered(
  await client.POST("/v2/models/{model}/infer", {
    params: { path: { model: "encodings.rope" } },
    body: { parameters: { length: 3, dim: 4 }, inputs: [] },
  }),
);
const refused = await client.GET("/v1/encodings/rope", { params: { query: { dim: 5, length: 3 } } });
const problem: components["schemas"]["Problem"] | undefined = refused.error;

const numbers = (data: unknown) => Array.from(new Float32Array(data as ArrayBuffer));
console.log(
  JSON.stringify({
    encodings: rope.tensors.sin?.data,
    base: rope.parameters.base,
    file: numbers(bin),
    biases: slopes.tensors.slopes?.data,
    masks: causal.tensors.mask?.data,
    analyses: waves.tensors,
    permutations: moved.tensors,
    learned: resized.tensors,
    positions: ids.tensors,
    upload: numbers(added),
    bundle: (bundled as unknown as ArrayBuffer).byteLength,
    catalogue: known.schemes[0]?.title,
    inference: (inferred as components["schemas"]["InferenceResponse"]).outputs[1]?.data,
    status: problem?.status,
    fault: problem?.errors[0]?.code,
  }),
);
