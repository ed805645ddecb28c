// What the page shows, as the fragment of its address: a model where one is looked at, needs where advice is asked for, one side or two, each the path
// and query of an answer with its body after it, and in which language it is copied. A fragment is never sent to the
// server.

const START = "/v1/encodings/sinusoidal?length=50&dim=128";
// Programs that people send addresses with cut longer ones.
const LONGEST_BODY = 2000;

// `mistakes` are sentences about what the fragment says and the page does not show.
export function readState(fragment, languages) {
  const state = { model: "", needs: "", sides: [], language: languages[0], mistakes: [] };
  for (const [name, value] of new URLSearchParams(fragment.replace(/^#/, ""))) {
    if (name === "model") state.model = value;
    else if (name === "advice") state.needs = value;
    else if (name === "as" && languages.includes(value)) state.language = value;
    else if (name === "as") state.mistakes.push(`There is no code as ${value || "nothing"}; there is ${languages.join(", ")}.`);
    else if (name === "side" && state.sides.length < 2) state.sides.push({ address: value, body: "" });
    else if (name === "body" && state.sides.length) state.sides.at(-1).body = value;
    else state.mistakes.push(`${name || "Nothing"}=${value} in the address of this page is not used.`);
  }
  state.mistakes.push(...state.sides.flatMap(({ address }) => repeated(address)));
  if (!state.sides.length) state.sides = [{ address: START, body: "" }];
  return state;
}

// The service refuses a parameter that is stated twice; a form has one field for it.
function repeated(address) {
  const stated = [...new URLSearchParams(address.split("?").slice(1).join("?"))];
  const last = new Map(stated);
  return [...last].filter(([name]) => stated.filter(([each]) => each === name).length > 1)
    .map(([name, value]) => `${name} was stated more than once; what is shown has the last, ${name}=${value}.`);
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
  const [path, query] = [address.split("?", 1)[0], address.split("?").slice(1).join("?")];
  return { key: path.replace(/^\/v1\//, ""), parameters: new Map(new URLSearchParams(query)) };
}

// The address of an answer, relative to the page; commas and colons stay readable.
export function addressOf(entry, parameters, extension) {
  const query = new URLSearchParams([...parameters]).toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
  return entry.href + extension + (query ? `?${query}` : "");
}
