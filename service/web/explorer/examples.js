// What a scheme is first shown with, and its examples.

import { parseAddress } from "./state.js";

// The request of an example: parameters and the text of its body, which is empty where it has none.
export function requestOf(example) {
  const { parameters } = parseAddress(example.href);
  parameters.delete("revision");
  return { parameters, body: example.body ? written(example.body) : "" };
}

// A scheme's first example, with enough rows to be a picture; schemes of the caller's own arrays have their example's.
export function startOf(entry) {
  const start = requestOf(firstOf(entry));
  const given = start.parameters;
  const sizes = new Set(["length", "dim", "heads", "offset", "seed", "num_buckets"]);
  if (given.has("length") && [...given.keys()].every((name) => sizes.has(name))) {
    given.set("length", "64");
    if (given.has("dim")) given.set("dim", "64");
    if (given.has("heads")) given.set("heads", "8");
  }
  return start;
}

// An analysis shows more where more is looked at: of the examples that state what the first does, the largest.
function firstOf(entry) {
  const asked = entry.examples.filter(({ method }) => method === "GET");
  if (entry.family !== "analyses" || !asked.length) return asked[0] ?? entry.examples[0];
  const namesOf = (example) => [...requestOf(example).parameters.keys()].sort().join();
  const lengthOf = (example) => Number(requestOf(example).parameters.get("length") ?? 0);
  const alike = asked.filter((example) => namesOf(example) === namesOf(asked[0]));
  return alike.reduce((one, other) => (lengthOf(other) > lengthOf(one) ? other : one));
}

// The body that shows how a scheme takes arrays.
export function bodyOf(entry) {
  const example = entry.examples.find(({ body }) => body);
  return example ? written(example.body) : "";
}

// JSON as people read it: an array of numbers on one line.
export function written(value) {
  return JSON.stringify(value, null, 1).replace(/\[[^[\]{}"]*\]/g, (numbers) => numbers.replace(/\s+/g, " ").replace(/^\[ | \]$/g, (edge) => edge.trim()));
}
