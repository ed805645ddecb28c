// A model by its name, or a pasted config.json, as a list of what can be looked at.

import { problemOf } from "./asking.js";
import { bodyOf, written } from "./examples.js";
import { fitted } from "./fitting.js";
import { element } from "./form.js";
import { ask } from "./key.js";
import { parseAddress } from "./state.js";

export class Models {
  // `choose(entry, request)` shows one of a plan's addresses; `changed()` is called when another model is looked at.
  constructor({ base, entryOf, choose, changed }) {
    Object.assign(this, { base, entryOf, choose, changed, model: "" });
    this.box = document.getElementById("models");
    this.name = document.getElementById("model-name");
    this.config = document.getElementById("model-config");
    this.status = document.getElementById("model-status");
    this.plan = document.getElementById("model-plan");
    this.box.addEventListener("toggle", () => this.box.open && this.list());
    document.getElementById("model-by-name").addEventListener("submit", (event) => {
      event.preventDefault();
      this.look(this.name.value.trim());
    });
    document.getElementById("model-by-config").addEventListener("submit", (event) => {
      event.preventDefault();
      this.read(this.config.value);
    });
  }

  // Fills the list of names, once it may be wanted.
  async list() {
    const names = document.getElementById("model-names");
    if (names.childElementCount || this.isListing) return;
    this.isListing = true;
    const reply = await ask(new URL("v1/models", this.base));
    const { models } = await reply.json();
    names.append(...models.map(({ name }) => element("option", { value: name })));
  }

  async look(name) {
    if (!name) return this.refused({ detail: "Name a model first, such as llama-3.1-8b." });
    await this.ask(`v1/models/${encodeURIComponent(name)}`, {}, name);
    this.showFirst();
  }

  async read(text) {
    await this.ask("v1/models/resolve", { method: "POST", headers: { "Content-Type": "application/json" }, body: text }, "");
    this.showFirst();
  }

  // Shows the model that the address bar names; what the sides show is in the address bar too.
  async restore(name) {
    if (name === this.model) return;
    this.model = name;
    this.box.open = Boolean(name);
    this.name.value = name;
    if (name) await this.ask(`v1/models/${encodeURIComponent(name)}`, {}, name);
    else this.plan.replaceChildren();
  }

  async ask(path, options, name) {
    this.first = null;
    try {
      const reply = await ask(new URL(path, this.base), options);
      if (!reply.ok) return this.refused(await problemOf(reply));
      const plan = await reply.json();
      // "." leads to the list of all models.
      if (!plan.uses) return this.refused({ detail: `${name} is no model.` });
      this.model = name;
      this.accepted(plan);
    } catch (error) {
      this.refused({ detail: `The service cannot be reached: ${error.message}` });
    }
  }

  refused({ detail, errors = [] }) {
    this.plan.replaceChildren();
    this.status.classList.add("refused");
    this.status.textContent = [...new Set([detail, ...errors.map((each) => each.detail)])].join(" ");
  }

  accepted(plan) {
    this.status.classList.remove("refused");
    const many = plan.uses.length === 1 ? "one use" : `${plan.uses.length} uses`;
    this.status.textContent = [`${plan.name ?? plan.model_type}: ${many} of positions.`, ...plan.notes].join(" ");
    this.plan.replaceChildren(...plan.uses.map((use) => this.item(use)));
  }

  // One use of positions: what it is, where, what is unexpected about it, and what of it can be looked at.
  item(use) {
    const dim = Number(Object.values(use.addresses).map(({ href }) => parseAddress(href).parameters.get("dim")).find(Boolean));
    const told = Object.entries(use.addresses).map(([what, address]) => ({ what, shown: this.shownAt(address, dim) }));
    const known = told.filter(({ shown }) => shown);
    known.sort((one, other) => rankOf(one.shown[0]) - rankOf(other.shown[0]));
    const buttons = known.map(({ what, shown }) => {
      if (!this.first || rankOf(shown[0]) < rankOf(this.first[0])) this.first = shown;
      const button = element("button", { type: "button" }, `Show ${what} (${shown[0].family}/${shown[0].name})`);
      button.addEventListener("click", () => this.choose(...shown, true));
      return button;
    });
    const notes = use.notes.map((note) => element("p", { class: "hint" }, note));
    return element("li", {}, element("p", {}, element("strong", {}, use.role), `: ${whereOf(use)}`), ...notes,
      element("p", { class: "buttons" }, ...buttons));
  }

  // An address as what a side shows: the scheme's entry and the request. The vectors of an address without a body are as
  // wide as the tables beside it.
  shownAt({ method, href, body }, dim) {
    const { key, parameters } = parseAddress(href);
    const entry = this.entryOf(key);
    if (!entry) return null;
    parameters.delete("revision");
    if (method === "GET") return [entry, { parameters, body: "" }];
    return [entry, body ? { parameters, body: written(body) } : fitted(entry, parameters, dim, bodyOf(entry))];
  }

  showFirst() {
    if (this.first) this.choose(...this.first, false);
    this.changed();
  }
}

// An encoding is looked at first, and what it does to someone's own vectors last.
const FAMILIES = ["encodings", "biases", "learned", "masks"];

function rankOf({ family }) {
  return FAMILIES.includes(family) ? FAMILIES.indexOf(family) : FAMILIES.length;
}

function whereOf({ encoding, scope, layer_type: type, layers, window }) {
  return [
    encoding,
    ...(scope ? [`of ${scope}`] : []),
    ...(type ? [type] : []),
    ...(layers?.length ? [layersOf(layers)] : []),
    ...(window ? [`window ${window.size ?? ""} (${window.kind})`] : []),
  ].join(", ");
}

// [0, 1, 2, 3] as "layers 0 to 3"; [0, 2, 4, 6, 8, 10] as "6 layers: 0, 2, 4, 6, …".
function layersOf(layers) {
  const [first, last] = [layers[0], layers.at(-1)];
  if (layers.length === 1) return `layer ${first}`;
  if (last - first === layers.length - 1) return `layers ${first} to ${last}`;
  return `${layers.length} layers: ${layers.slice(0, 4).join(", ")}${layers.length > 4 ? ", …" : ""}`;
}
