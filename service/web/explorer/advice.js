// What someone needs, and which schemes the service advises for it: ranked, with its reasons, each a step from being shown.

import { problemOf } from "./asking.js";
import { element, showFaults } from "./form.js";
import { ask } from "./key.js";
import { parseAddress } from "./state.js";

export class Advice {
  // `choose(entry, request)` shows one that is advised; `changed()` is called when other needs are stated.
  constructor({ base, entryOf, choose, changed }) {
    Object.assign(this, { base, entryOf, choose, changed, needs: "" });
    this.box = document.getElementById("advice");
    this.form = document.getElementById("needs");
    this.status = document.getElementById("advice-status");
    this.ranked = document.getElementById("advised");
    this.out = document.getElementById("ruled-out");
    this.fields = new Map([...this.form.querySelectorAll("[name]")].map((input) =>
      [input.name, { input, box: input.closest(".field") }]));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.state();
    });
    this.form.addEventListener("change", () => this.state());
  }

  // Asks for what the form says; the address bar holds it.
  async state() {
    const given = [...this.fields].map(([name, { input }]) => [name, input.value.trim(), input.dataset.otherwise]);
    const stated = given.filter(([, value, otherwise]) => value && value !== otherwise);
    this.needs = new URLSearchParams(stated.map(([name, value]) => [name, value])).toString();
    this.changed();
    await this.ask();
  }

  // Shows the needs that the address bar names.
  async restore(needs) {
    if (needs === this.needs) return;
    this.needs = needs;
    const stated = new URLSearchParams(needs);
    for (const [name, { input }] of this.fields) input.value = stated.get(name) ?? input.dataset.otherwise ?? "";
    this.box.open = Boolean(needs);
    if (needs) await this.ask();
    else this.answered([], []);
  }

  async ask() {
    const { needs } = this;
    try {
      const reply = await ask(new URL(`v1/advice?${needs}`, this.base));
      const told = reply.ok ? await reply.json() : { problem: await problemOf(reply) };
      if (needs !== this.needs) return;
      if (told.problem) this.refused(told.problem);
      else this.accepted(told);
    } catch (error) {
      this.refused({ detail: `The service cannot be reached: ${error.message}` });
    }
  }

  refused({ detail, errors = [] }) {
    showFaults(this.fields, "need", errors);
    this.status.classList.add("refused");
    this.status.textContent = detail;
    this.answered([], []);
  }

  accepted({ considered, advice, ruled_out: out }) {
    showFaults(this.fields, "need", []);
    this.status.classList.remove("refused");
    this.status.textContent = `Considered: ${considered.join(", ")}. The best comes first.`;
    this.answered(advice, out);
  }

  answered(advice, out) {
    this.ranked.replaceChildren(...advice.map((each) => this.item(each)));
    const title = element("summary", {}, out.length === 1 ? "One is ruled out" : `${out.length} are ruled out`);
    this.out.replaceChildren(...(out.length ? [title, element("ul", {}, ...out.map((each) => this.item(each)))] : []));
  }

  item({ name, points, href, scheme, family, reasons }) {
    const standing = points === null ? "" : `, ${points} ${Math.abs(points) === 1 ? "point" : "points"}`;
    const { key, parameters } = parseAddress(href);
    parameters.delete("revision");
    const button = element("button", { type: "button" }, `Show ${name}`);
    button.addEventListener("click", () => this.choose(this.entryOf(key), { parameters, body: "" }, true));
    return element("li", {}, element("p", {}, element("strong", {}, name), standing),
      element("ul", { class: "hint" }, ...reasons.map((reason) => element("li", {}, said(reason)))),
      element("p", { class: "buttons" }, button, element("a", { href: `schemes/${scheme}#${family}` }, `${name} explained`)));
  }
}

function said({ need, points, property, says, because }) {
  const weight = points === null ? "ruled out" : points > 0 ? `+${points}` : String(points);
  return `${need} (${weight}): ${because}; ${property}: ${says}`;
}
