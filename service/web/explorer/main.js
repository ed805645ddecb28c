// The explorer: one scheme or two side by side, or a model's; the address bar holds what is shown.

import { Advice } from "./advice.js";
import { startOf } from "./examples.js";
import { fitted } from "./fitting.js";
import { element } from "./form.js";
import { ask, followLinks } from "./key.js";
import { Models } from "./models.js";
import { Side } from "./side.js";
import { LANGUAGES } from "./snippets.js";
import { parseAddress, readState, writeState } from "./state.js";

const base = new URL(".", window.location.href).href;
const place = document.getElementById("sides");
const compare = document.getElementById("compare");
let schemes = [];
let sides = [];
let models;
let advice;
let remembered = ""; // the schemes that the newest entry of the browser's history shows

async function start() {
  const reply = await ask(new URL("v1/schemes", base));
  ({ schemes } = await reply.json());
  const shared = { base, entryOf: known, choose: showAt, changed: remember };
  models = new Models(shared);
  advice = new Advice(shared);
  followLinks(`${base}v1/`);
  show();
  window.addEventListener("hashchange", show);
  compare.addEventListener("click", toggle);
}

// Shows what the address bar says, unless it already does.
function show() {
  const isStep = window.location.hash === `#${place.parentElement.id}`; // of the link that skips the page's head
  const state = readState(isStep ? "" : window.location.hash, Object.keys(LANGUAGES));
  if (sides.length && isStep) return remember();
  if (sides.length && writeState(stateNow()) === window.location.hash) return;
  sides = state.sides.map(({ address, body }, number) => {
    const { key, parameters } = parseAddress(address);
    const entry = known(key);
    parameters.delete("revision");
    const isGiven = entry && (parameters.size || body);
    const request = isGiven ? completed(entry, parameters, body) : startOf(entry ?? schemes[0]);
    if (!entry) state.mistakes.push(noScheme(address, schemes[0]));
    return open(number, entry ?? schemes[0], request, state.language);
  });
  if (state.mistakes.length) sides[0].mistaken(state.mistakes);
  arrange();
  models.restore(state.model);
  advice.restore(state.needs);
  remembered = sides.map(({ entry }) => entry.href).join();
  // The bar says what is shown, and the page what it was asked for.
  if (state.mistakes.length) remember();
}

function noScheme(address, { title }) {
  return `There is no scheme at ${address.split("?", 1)[0]}, which this page was asked for. What it shows instead is ${title}.`;
}

const known = (key) => schemes.find(({ family, name }) => `${family}/${name}` === key);

// An address of what needs a body, without it, is shown with one that fits.
function completed(entry, parameters, body) {
  if (body || entry.methods.includes("GET")) return { parameters, body };
  return fitted(entry, parameters, 0, startOf(entry).body);
}

function open(number, entry, request, language) {
  const alike = (start) => (sides.length === 2 ? withSizesOf(sides[1 - number], start) : start);
  const side = new Side({ id: "ab"[number], base, schemes, language, alike, changed: remember });
  side.show(entry, request);
  return side;
}

// Shows an address of a model, or what is advised, on the first side, and goes there where someone asked for that one.
function showAt(entry, request, isAskedFor) {
  sides[0].show(entry, request);
  remember();
  if (isAskedFor) document.getElementById("a-scheme").focus();
}

function toggle() {
  if (sides.length === 2) sides.pop();
  else {
    const other = known(sides[0].entry.name === "rope" ? "encodings/sinusoidal" : "encodings/rope");
    sides.push(open(1, other, withSizesOf(sides[0], startOf(other)), sides[0].language));
  }
  arrange();
  remember();
}

// Two tables are compared where they are of one size.
function withSizesOf(side, request) {
  const own = side.parameters();
  for (const name of ["length", "heads", "dim"])
    if (own.has(name) && request.parameters.has(name)) request.parameters.set(name, own.get(name));
  return request;
}

function arrange() {
  place.replaceChildren(...sides.map(({ box }) => box));
  place.classList.toggle("two", sides.length === 2);
  compare.setAttribute("aria-pressed", String(sides.length === 2));
}

function stateNow() {
  const { model } = models;
  const { needs } = advice;
  return { model, needs, sides: sides.map(({ request }) => request), language: sides[0].language };
}

// What is changed of a scheme changes the entry of the browser's history; another scheme makes a new one, to go back from.
function remember() {
  const chosen = sides.map(({ entry }) => entry.href).join();
  const isNew = remembered && chosen !== remembered;
  remembered = chosen;
  window.history[isNew ? "pushState" : "replaceState"](null, "", writeState(stateNow()));
}

start().catch((error) => {
  place.replaceChildren(element("p", { class: "status refused", role: "alert" }, `The catalogue cannot be read: ${error.message}`));
});
