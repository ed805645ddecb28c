// The explorer: one scheme or two side by side; the address bar holds what is shown.

import { element } from "./form.js";
import { ask } from "./key.js";
import { Side, startOf } from "./side.js";
import { parseSide, readState, writeState } from "./state.js";

const base = new URL(".", window.location.href).href;
const place = document.getElementById("sides");
const compare = document.getElementById("compare");
let schemes = [];
let sides = [];

async function start() {
  const reply = await ask(new URL("v1/schemes", base));
  const catalogue = await reply.json();
  // What cannot do without the caller's own arrays has no address that shows it.
  schemes = catalogue.schemes.filter(({ methods }) => methods.includes("GET"));
  show();
  window.addEventListener("hashchange", show);
  compare.addEventListener("click", toggle);
}

// Shows what the address bar says, unless it already does.
function show() {
  const state = readState(window.location.hash);
  if (sides.length && writeState(stateNow()) === window.location.hash) return;
  sides = state.sides.map((side, number) => {
    const { key, parameters } = parseSide(side);
    return open(number, entryOf(key), entryOf(key) === known(key) ? parameters : new Map(), state.language);
  });
  arrange();
}

const known = (key) => schemes.find(({ family, name }) => `${family}/${name}` === key);
const entryOf = (key) => known(key) ?? schemes[0];

function open(number, entry, parameters, language) {
  const side = new Side({ id: "ab"[number], base, schemes, language, changed: remember });
  side.show(entry, parameters.size ? parameters : startOf(entry));
  return side;
}

function toggle() {
  if (sides.length === 2) sides.pop();
  else {
    const key = sides[0].entry.name === "rope" ? "encodings/sinusoidal" : "encodings/rope";
    sides.push(open(1, entryOf(key), new Map(), sides[0].language));
  }
  arrange();
  remember();
}

function arrange() {
  place.replaceChildren(...sides.map(({ box }) => box));
  place.classList.toggle("two", sides.length === 2);
  compare.setAttribute("aria-pressed", String(sides.length === 2));
}

function stateNow() {
  return { sides: sides.map(({ address }) => address), language: sides[0].language };
}

function remember() {
  window.history.replaceState(null, "", writeState(stateNow()));
}

start().catch((error) => {
  place.replaceChildren(element("p", { class: "status refused", role: "alert" }, `The catalogue cannot be read: ${error.message}`));
});
