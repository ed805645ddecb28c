// An answer as code: for a shell, for Python with numpy, for JavaScript, and as a PyTorch module.

import { addressOf } from "./state.js";

const ARRAYS = {
  F64: "Float64Array", F32: "Float32Array", F16: "Uint16Array", BF16: "Uint16Array",
  I64: "BigInt64Array", I32: "Int32Array", I16: "Int16Array", I8: "Int8Array", U8: "Uint8Array", BOOL: "Uint8Array",
};

export const LANGUAGES = {
  curl: ["curl", curl],
  python: ["Python (numpy)", python],
  javascript: ["JavaScript", javascript],
  pytorch: ["PyTorch module", pytorch],
};

// `shown` is what is known of the answer: its tensors by name, dtype and shape. `base` is where the service is; where it
// is keyed, the code takes the key from where `posenc get` does.
export function snippet(language, entry, parameters, shown, base, keyed) {
  const at = (extension, more = []) =>
    base.replace(/\/$/, "") + addressOf(entry, new Map([...parameters, ...more]), extension);
  const open = (address) => `urlopen(${keyed ? `Request(${quoted(address)}, headers=HEADERS)` : quoted(address)})`;
  const urllib = keyed
    ? `import os\nfrom urllib.request import Request, urlopen\n`
    : "from urllib.request import urlopen\n";
  const headers = keyed ? `HEADERS = {"Authorization": "Bearer " + os.environ["POSENC_API_KEY"]}\n\n` : "";
  return LANGUAGES[language][1]({ entry, shown, at, keyed, open, urllib, headers });
}

const ofOneKind = (tensors) => new Set(tensors.map(({ dtype, shape }) => `${dtype} ${shape}`)).size === 1;
const isBrain = (tensors) => tensors.some(({ dtype }) => dtype === "BF16");
const named = (entry) => entry.name.replaceAll("-", "_");
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const quoted = (text) => JSON.stringify(text);

function curl({ entry, shown, at, keyed }) {
  const extension = isBrain(shown.tensors) || !ofOneKind(shown.tensors) ? ".safetensors" : ".npy";
  const key = keyed ? ` -H "Authorization: Bearer $POSENC_API_KEY"` : "";
  return `curl -s${key} ${shell(at(extension))} -o ${entry.name}${extension}`;
}

function python({ shown, at, open, urllib, headers }) {
  const names = shown.tensors.map(({ name }) => name);
  if (isBrain(shown.tensors)) return brain({ shown, at, open, urllib, headers });
  const begin = `import io\n${urllib}\nimport numpy as np\n\n${headers}`;
  if (ofOneKind(shown.tensors)) {
    return `${begin}with ${open(at(".npy"))} as answer:\n    ${names.join(", ")} = np.load(io.BytesIO(answer.read()))\n`;
  }
  const each = names.map((name) => `${name} = tensors[${quoted(name)}]\n`).join("");
  return `${begin}with ${open(at(".npz"))} as answer:\n    tensors = np.load(io.BytesIO(answer.read()))\n${each}`;
}

function brain({ shown, at, open, urllib, headers }) {
  const each = shown.tensors.map(({ name, shape }) => {
    const address = at(".bin", shown.tensors.length > 1 ? [["tensor", name]] : []);
    return `with ${open(address)} as answer:\n    ${name} = np.frombuffer(answer.read(), ml_dtypes.bfloat16).reshape(${shape.join(", ")})\n`;
  });
  return `${urllib}\nimport ml_dtypes\nimport numpy as np\n\n${headers}${each.join("")}`;
}

function javascript({ shown, at, keyed }) {
  const several = shown.tensors.length > 1;
  const each = shown.tensors.map(({ name, dtype, shape }) => {
    const address = at(".bin", several ? [["tensor", name]] : []);
    const bits = { F16: ", float16 as bits", BF16: ", bfloat16 as bits" }[dtype] ?? "";
    return `const ${name} = await get(${quoted(address)}, ${ARRAYS[dtype]}); // ${shape.join(" x ") || "one value"}${bits}\n`;
  });
  const key = keyed ? ", { headers: { Authorization: `Bearer ${process.env.POSENC_API_KEY}` } }" : "";
  return `async function get(address, Values) {\n  const answer = await fetch(address${key});\n  if (!answer.ok) throw new Error(await answer.text());\n  return new Values(await answer.arrayBuffer());\n}\n\n${each.join("")}`;
}

function pytorch({ entry, shown, at, open, urllib, headers }) {
  const name = named(entry).split("_").map((word) => word[0].toUpperCase() + word.slice(1)).join("");
  const names = shown.tensors.map((tensor) => tensor.name);
  const answers = names.map((each) => `self.${each}`).join(", ");
  const title = entry.title.endsWith(".") ? entry.title : `${entry.title}.`;
  return `${urllib}
import torch
from safetensors.torch import load

${headers}
class ${name}(torch.nn.Module):
    """${title}"""

    def __init__(self):
        super().__init__()
        with ${open(at(".safetensors"))} as answer:
            for name, tensor in load(answer.read()).items():
                self.register_buffer(name, tensor, persistent=False)

    def forward(self):
        return ${answers}
`;
}
