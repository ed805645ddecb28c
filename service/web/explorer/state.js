// What the page shows, as the fragment of its address: one side or two, each the path and query of an answer, and
// in which language it is copied. A fragment is never sent to the server.

const START = "/v1/encodings/sinusoidal?length=50&dim=128";

export function readState(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const sides = given.getAll("side").filter((side) => side.startsWith("/v1/"));
  return { sides: sides.length ? sides.slice(0, 2) : [START], language: given.get("as") ?? "curl" };
}

export function writeState({ sides, language }) {
  return `#${[...sides.map((side) => `side=${readable(side)}`), `as=${language}`].join("&")}`;
}

// What a fragment may hold as it is stays as it is: people read addresses.
function readable(side) {
  return encodeURIComponent(side).replace(/%(2F|3F|3D|2C|3A)/g, decodeURIComponent);
}

// "/v1/encodings/rope?dim=8" as the scheme's key and the parameters in the order in which they stand there.
export function parseSide(side) {
  const [path, query = ""] = side.split("?", 2);
  return { key: path.replace(/^\/v1\//, ""), parameters: new Map(new URLSearchParams(query)) };
}

export function sideOf(entry, parameters) {
  return addressOf(entry, parameters, "");
}

// The address of an answer, relative to the page; commas and colons stay readable.
export function addressOf(entry, parameters, extension) {
  const query = new URLSearchParams([...parameters]).toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
  return entry.href + extension + (query ? `?${query}` : "");
}
