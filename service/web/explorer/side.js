// One side of the page: a scheme, its form, the picture, the first rows, and the code that asks for them.

import { beginning } from "./asking.js";
import { makeBody } from "./body.js";
import { requestOf, startOf } from "./examples.js";
import { element, makeForm, showFaults } from "./form.js";
import { isKeyed } from "./key.js";
import { Picture, dark } from "./picture.js";
import { factsOf, tableOf } from "./rows.js";
import { readBeginning } from "./safetensors.js";
import { LANGUAGES, snippet } from "./snippets.js";
import { addressOf, isShareable } from "./state.js";

const ROWS = 4;
const COLUMNS = 8;
const SIZES = new Set(["length", "queries", "keys", "rows", "dim", "heads", "grid"]);
const SOON_MS = 250;
const TOO_LONG = "Your data is too long for the address of this page: a link to it shows the example's.";

export class Side {
  // `changed()` is called whenever what the side shows is another request; `alike(request)` is a new scheme's, in the
  // sizes of what it is compared with.
  constructor({ id, base, schemes, language, alike, changed }) {
    Object.assign(this, { id, base, schemes, language, alike, changed });
    const which = id === "a" ? "first scheme" : "second scheme";
    this.box = element("section", { class: "side", "aria-label": which[0].toUpperCase() + which.slice(1) });
    this.status = element("p", { class: "status", role: "status" });
    this.button = element("button", { type: "button" }, "Copy");
    this.button.addEventListener("click", async () => {
      this.status.textContent = (await copied(this.code)) ? "Copied." : "Selected: copy it with your keyboard.";
    });
    this.picture = new Picture(which, {
      tell: (sentences) => this.tell(sentences), back: () => this.shown && this.accepted(),
    });
    this.rows = element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `First rows of the ${which}` });
    this.code = element("pre", { tabindex: "0", role: "region", "aria-label": `Code for the ${which}` });
    dark.addEventListener("change", () => this.entry && this.ask());
  }

  // What is asked for, as the address bar holds it.
  get request() {
    return { address: addressOf(this.entry, this.parameters(), ""), body: this.body.text() };
  }

  parameters() {
    return this.form.values();
  }

  pinned() {
    return new Map([...this.parameters(), ["revision", this.entry.revision]]);
  }

  // Shows a scheme with these parameters and this body.
  show(entry, { parameters, body }) {
    this.entry = entry;
    this.shown = null;
    this.form = makeForm(entry, parameters, this.id, (when) => this.edited(when));
    this.body = makeBody(entry, body, this.id, (when) => this.edited(when));
    this.link = element("a", { class: "address" });
    this.method = element("span", {});
    this.clear();
    this.box.replaceChildren(
      ...this.chooser(), this.explanation(), element("div", { class: "controls" }, this.form.form, this.body.box),
      element("div", { class: "seen" }, this.status, this.picture.box, this.picture.size, this.rows),
      element("div", { class: "told" },
        element("h3", {}, "Address"), element("pre", {}, this.method, this.link), this.copier(), this.code),
    );
    this.ask();
  }

  // Nothing is shown that is of another scheme.
  clear() {
    this.picture.clear();
    this.rows.replaceChildren();
    this.code.textContent = "";
  }

  // Says, until another scheme or example is chosen, that the page was asked for something that there is not.
  mistaken(sentences) {
    this.box.prepend(element("p", { class: "status refused mistaken", role: "alert" }, sentences.join(" ")));
  }

  chooser() {
    const scheme = element("select", { id: `${this.id}-scheme` }, ...groupsOf(this.schemes, this.entry));
    scheme.addEventListener("change", () => {
      const entry = this.schemes.find(({ family, name }) => `${family}/${name}` === scheme.value);
      this.choose(entry, this.alike(startOf(entry)), "scheme");
    });
    const example = element("select", { id: `${this.id}-example` },
      element("option", { value: "" }, "(choose one)"),
      ...this.entry.examples.map(({ title }, number) => element("option", { value: String(number) }, title)));
    example.addEventListener("change", () => {
      if (example.value) this.choose(this.entry, requestOf(this.entry.examples[Number(example.value)]), "example");
    });
    return [labelled(this.id === "a" ? "Scheme" : "Second scheme", scheme, "scheme"), labelled("Example of it", example, "example")];
  }

  // Shows another request; the form is made anew, and the focus stays on the list that was chosen from.
  choose(entry, request, list) {
    this.show(entry, request);
    this.changed();
    document.getElementById(`${this.id}-${list}`).focus();
  }

  explanation() {
    const { name, explanation } = this.entry;
    const more = element("a", { href: `schemes/${name}` }, "Formula, paper and who uses it");
    return element("p", { class: "explanation" }, `${explanation} `, more);
  }

  copier() {
    const select = element("select", { id: `${this.id}-language` }, ...Object.entries(LANGUAGES).map(([key, [title]]) =>
      element("option", { value: key, selected: key === this.language }, title)));
    select.addEventListener("change", () => {
      this.language = select.value;
      this.changed();
      this.showCode();
    });
    return element("p", { class: "copy" },
      element("span", {}, element("label", { for: select.id }, "As code for "), select), this.button);
  }

  edited(when) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.changed();
      this.ask();
    }, when === "soon" ? SOON_MS : 0);
  }

  // Asks for the beginning of the answer, which is refused or gives the rows; the picture follows. An older question
  // that is not answered yet is dropped.
  async ask() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.picture.wait();
    const { signal } = (this.asking = new AbortController());
    const parameters = this.pinned();
    const body = this.body.text();
    this.showAddress();
    this.button.disabled = true; // until the code is that of the address
    this.rows.classList.add("waiting");
    try {
      const answer = await beginning(this.at(parameters, ".safetensors"), body, signal);
      if (answer.problem) return this.refused(answer.problem);
      this.shown = readBeginning(answer.buffer, Object.keys(this.entry.tensors), ROWS, COLUMNS);
      this.accepted();
      await this.picture.show((more) => this.at(new Map([...parameters, ...more]), ".svg"), body, signal);
    } catch (error) {
      if (error.name !== "AbortError") this.refused({ detail: `The service cannot be reached: ${error.message}` });
    }
  }

  at(parameters, extension) {
    return this.base + addressOf(this.entry, parameters, extension).slice(1);
  }

  refused(problem) {
    const errors = (problem.errors ?? []).map((error) => (isTooLarge(error) ? { ...error, parameter: this.largest() } : error));
    showFaults(this.form.fields, this.id, errors);
    const beside = errors.filter(({ parameter }) => !this.form.fields.has(parameter));
    this.body.mark(beside.length > 0 || !errors.length);
    const told = beside.length || !errors.length ? [problem.detail] : errors.map(({ detail }) => detail);
    this.tell(told);
    this.status.classList.add("refused");
    this.shown = null;
    this.picture.refused(this.entry.title);
    this.code.textContent = "There is no code for what is refused.";
  }

  // The field of the size that is the largest: what an answer that would be too large is to have less of.
  largest() {
    const sizes = [...this.parameters()].filter(([name]) => SIZES.has(name));
    const sizeOf = ([, value]) => value.split(",").reduce((all, each) => all * Number(each), 1);
    return sizes.reduce((one, other) => (sizeOf(other) > sizeOf(one) ? other : one), ["query", "0"])[0];
  }

  tell(sentences) {
    this.status.textContent = [...new Set(sentences)].join(" ");
  }

  accepted() {
    showFaults(this.form.fields, this.id, []);
    this.body.mark(false);
    this.status.classList.remove("refused");
    this.rows.classList.remove("waiting");
    this.tell([...this.shown.about.notes, ...(isShareable(this.body.text()) ? [] : [TOO_LONG])]);
    const sizes = this.shown.tensors.map(({ name, shape, kind }) => `${name}, ${shape.join(" by ") || "one value"}, ${kind}`);
    this.picture.describe(`${this.entry.title} as a heatmap: ${sizes.join("; ")}`);
    this.rows.replaceChildren(tableOf(this.shown, this.axesOf(this.shown.first)), ...factsOf(this.shown.about.facts));
    this.showAddress();
    this.showCode();
  }

  // What the axes of a tensor count; it may have more than one form.
  axesOf({ name, shape }) {
    return this.entry.tensors[name]?.find((axes) => axes.length === shape.length) ?? [];
  }

  showAddress() {
    this.link.textContent = addressOf(this.entry, this.pinned(), "");
    const isPosted = Boolean(this.body.text());
    this.method.textContent = isPosted ? "POST " : "";
    // A link asks with GET.
    if (isPosted) this.link.removeAttribute("href");
    else this.link.href = this.base + this.link.textContent.slice(1);
  }

  showCode() {
    if (!this.shown) return;
    const request = { entry: this.entry, parameters: this.pinned(), body: this.body.text() };
    this.code.textContent = snippet(this.language, request, this.shown, this.base, isKeyed());
    this.button.disabled = false;
  }
}

function isTooLarge({ parameter, code }) {
  return parameter === "query" && code === "too_large";
}

function labelled(text, select, kind) {
  return element("p", { class: `choose ${kind}` }, element("label", { for: select.id }, text), select);
}

function groupsOf(schemes, chosen) {
  const families = new Map();
  for (const each of schemes) families.set(each.family, [...(families.get(each.family) ?? []), each]);
  return [...families].map(([family, entries]) =>
    element("optgroup", { label: family }, ...entries.map((each) =>
      element("option", { value: `${each.family}/${each.name}`, selected: each === chosen }, each.title))));
}

async function copied(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    // Without leave, or outside a secure context: the text is selected, so that a key copies it.
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return false;
  }
}
