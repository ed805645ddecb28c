// What the page shows, as the fragment of its address: a model where one is looked at, needs where advice is asked for, one side or two, each the path
// and query of an answer with its body after it, and in which language it is copied. A fragment is never sent to the
// server.

const START = "/v1/encodings/sinusoidal?length=50&dim=128";
// Programs that people send addresses with cut longer ones.
const LONGEST_BODY = 2000;

export function readState(fragment) {
  const state = { model: "", needs: "", sides: [], language: "curl" };
  for (const [name, value] of new URLSearchParams(fragment.replace(/^#/, ""))) {
    if (name === "model") state.model = value;
    if (name === "advice") state.needs = value;
    if (name === "as") state.language = value;
    if (name === "side") state.sides.push({ address: value, body: "" });
    if (name === "body" && state.sides.length) state.sides.at(-1).body = value;
  }
  state.sides = state.sides.length ? state.sides.slice(0, 2) : [{ address: START, body: "" }];
  return state;
}

export function writeState({ model, needs, sides, language }) {
  const each = sides.flatMap(({ address, body }) => [
    `side=${readable(address)}`,
    ...(body && isShareable(body) ? [`body=${readable(body)}`] : []),
  ]);
  const beside = Object.entries({ model, advice: needs }).filter(([, value]) => value);
  return `#${[...beside.map(([name, value]) => `${name}=${readable(value)}`), ...each, `as=${language}`].join("&")}`;
}

export function isShareable(body) {
  return body.length <= LONGEST_BODY;
}

// What a fragment may hold as it is stays as it is: people read addresses.
function readable(text) {
  return encodeURIComponent(text).replace(/%(2F|3F|3D|2C|3A)/g, decodeURIComponent);
}

// "/v1/encodings/rope?dim=8" as the scheme's key and the parameters in the order in which they stand there.
export function parseAddress(address) {
  const [path, query = ""] = address.split("?", 2);
  return { key: path.replace(/^\/v1\//, ""), parameters: new Map(new URLSearchParams(query)) };
}

// The address of an answer, relative to the page; commas and colons stay readable.
export function addressOf(entry, parameters, extension) {
  const query = new URLSearchParams([...parameters]).toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
  return entry.href + extension + (query ? `?${query}` : "");
}
