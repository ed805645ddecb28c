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

// `request` is the scheme's entry, the parameters and the body, which is empty for a GET. `shown` is what is known of the
// answer: its tensors by name, dtype and shape. `base` is where the service is; where it is keyed, the code takes the key
// from where `posenc get` does.
export function snippet(language, { entry, parameters, body }, shown, base, keyed) {
  const at = (extension, more = []) =>
    base.replace(/\/$/, "") + addressOf(entry, new Map([...parameters, ...more]), extension);
  return LANGUAGES[language][1]({ entry, shown, at, keyed, body: onOneLine(body) });
}

const isBrain = (tensors) => tensors.some(({ dtype }) => dtype === "BF16");
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const quoted = (text) => JSON.stringify(text);
// JSON on one line, its numbers as they were written, as a string of Python and of JavaScript.
const onOneLine = (json) =>
  json.replace(/("(?:[^"\\]|\\.)*")|\s+|([,:])/g, (_, text, mark) => text ?? (mark ? `${mark} ` : ""));
const single = (text) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
// The tensors of several types of layer are called full_attention.cos and so on.
const variable = (name) => name.replaceAll(/\W/g, "_");

function curl({ entry, shown, at, keyed, body }) {
  const extension = isBrain(shown.tensors) || shown.tensors.length > 1 ? ".safetensors" : ".npy";
  const key = keyed ? ` \\\n  -H "Authorization: Bearer $POSENC_API_KEY"` : "";
  const posted = body ? ` \\\n  -H 'Content-Type: application/json' --data ${shell(body)}` : "";
  return `curl -s ${shell(at(extension))} -o ${entry.name}${extension}${key}${posted}`;
}

function python({ shown, at, keyed, body }) {
  if (isBrain(shown.tensors)) return brain({ shown, at, keyed, body });
  const { imported, opened } = pythonRequest(keyed, body);
  const begin = `import io\n${imported}\n\nimport numpy as np\n\n`;
  const loaded = (extension, name) =>
    `${begin}${opened(at(extension))}    ${name} = np.load(io.BytesIO(answer.read()))\n`;
  if (shown.tensors.length === 1) return loaded(".npy", variable(shown.tensors[0].name));
  return loaded(".npz", "tensors") + shown.tensors.map(({ name }) => `${variable(name)} = tensors[${quoted(name)}]\n`).join("");
}

function brain({ shown, at, keyed, body }) {
  const { imported, opened } = pythonRequest(keyed, body);
  const each = shown.tensors.map(({ name, shape }) => {
    const address = at(".bin", shown.tensors.length > 1 ? [["tensor", name]] : []);
    const read = `np.frombuffer(answer.read(), ml_dtypes.bfloat16).reshape(${shape.join(", ")})`;
    return `${opened(address)}    ${variable(name)} = ${read}\n`;
  });
  return `${imported}\n\nimport ml_dtypes\nimport numpy as np\n\n${each.join("")}`;
}

// What Python imports, and how it opens an address.
function pythonRequest(keyed, body) {
  if (!keyed && !body) return { imported: "from urllib.request import urlopen", opened: (address) => `with urlopen(${quoted(address)}) as answer:\n` };
  const headers = [
    ...(keyed ? [`"Authorization": "Bearer " + os.environ["POSENC_API_KEY"]`] : []),
    ...(body ? [`"Content-Type": "application/json"`] : []),
  ];
  const data = body ? `    data=${single(body)}.encode(),\n` : "";
  const opened = (address) => `request = Request(
    ${quoted(address)},
${data}    headers={${headers.join(", ")}},
)
with urlopen(request) as answer:
`;
  return { imported: `${keyed ? "import os\n" : ""}from urllib.request import Request, urlopen`, opened };
}

function javascript({ shown, at, keyed, body }) {
  const several = shown.tensors.length > 1;
  const each = shown.tensors.map(({ name, dtype, shape }) => {
    const address = at(".bin", several ? [["tensor", name]] : []);
    const bits = { F16: ", float16 as bits", BF16: ", bfloat16 as bits" }[dtype] ?? "";
    return `const ${variable(name)} = await get(${quoted(address)}, ${ARRAYS[dtype]}); // ${shape.join(" x ") || "one value"}${bits}\n`;
  });
  const headers = [
    ...(keyed ? ["Authorization: `Bearer ${process.env.POSENC_API_KEY}`"] : []),
    ...(body ? [`"Content-Type": "application/json"`] : []),
  ];
  const options = [
    ...(body ? [`method: "POST"`] : []),
    ...(headers.length ? [`headers: { ${headers.join(", ")} }`] : []),
    ...(body ? [`body: ${single(body)}`] : []),
  ];
  const asked = options.length ? `, {\n${options.map((each) => `    ${each},\n`).join("")}  }` : "";
  return `// A module: in a file that ends in .mjs, or in <script type="module">. A page of another origin is answered where
// the service was started with --cors-origins.
async function get(address, Values) {
  const answer = await fetch(address${asked});
  if (!answer.ok) throw new Error(await answer.text());
  return new Values(await answer.arrayBuffer());
}

${each.join("")}`;
}

function pytorch({ entry, shown, at, keyed, body }) {
  const name = entry.name.split("-").map((word) => word[0].toUpperCase() + word.slice(1)).join("");
  const answers = shown.tensors.map((tensor) => `self.${variable(tensor.name)}`).join(", ");
  const title = entry.title.endsWith(".") ? entry.title : `${entry.title}.`;
  const { imported, opened } = pythonRequest(keyed, body);
  const indented = opened(at(".safetensors")).replaceAll(/^(?=.)/gm, "        ");
  return `${imported}

import torch
from safetensors.torch import load


class ${name}(torch.nn.Module):
    """${title}"""

    def __init__(self):
        super().__init__()
${indented}            for name, tensor in load(answer.read()).items():
                self.register_buffer(name.replace(".", "_"), tensor, persistent=False)

    def forward(self):
        return ${answers}
`;
}
