// One side of the page: a scheme, its form, the picture, the first rows, and the code that asks for them.

import { element, makeForm, showFaults } from "./form.js";
import { ask, isKeyed } from "./key.js";
import { headerEnd, readBeginning } from "./safetensors.js";
import { LANGUAGES, snippet } from "./snippets.js";
import { addressOf, sideOf } from "./state.js";

const ROWS = 4;
const COLUMNS = 8;
const BEGINNING = 1 << 16;
const SOON_MS = 250;
const AGAIN_MS = 1000;
const dark = window.matchMedia("(prefers-color-scheme: dark)");

export class Side {
  // `changed()` is called whenever the side's address is another one.
  constructor({ id, base, schemes, language, changed }) {
    Object.assign(this, { id, base, schemes, language, changed });
    const which = id === "a" ? "first scheme" : "second scheme";
    this.box = element("section", { class: "side", "aria-label": which[0].toUpperCase() + which.slice(1) });
    this.status = element("p", { class: "status", role: "status" });
    this.image = element("img", { alt: "" });
    this.image.addEventListener("load", () => this.picture.classList.remove("waiting"));
    this.image.addEventListener("error", () => this.pictureFailed());
    this.picture = element("div", {
      class: "picture scroll", role: "region", tabindex: "0", "aria-label": `Picture of the ${which}`,
    }, this.image);
    this.rows = element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `First rows of the ${which}` });
    this.code = element("pre", { tabindex: "0", role: "region", "aria-label": `Code for the ${which}` });
    dark.addEventListener("change", () => this.entry && this.ask());
  }

  get address() {
    return sideOf(this.entry, this.parameters());
  }

  parameters() {
    return this.form.values();
  }

  pinned() {
    return new Map([...this.parameters(), ["revision", this.entry.revision]]);
  }

  // Shows a scheme with these parameters.
  show(entry, parameters) {
    this.entry = entry;
    this.shown = null;
    this.form = makeForm(entry, parameters, this.id, (when) => this.edited(when));
    this.link = element("a", { class: "address" });
    this.box.replaceChildren(
      this.chooser(), element("p", {}, firstSentence(entry.description)), this.form.form, this.status, this.picture,
      this.rows, element("h3", {}, "Address"), element("pre", {}, this.link), this.copier(), this.code,
    );
    this.ask();
  }

  chooser() {
    const families = Map.groupBy
      ? Map.groupBy(this.schemes, ({ family }) => family)
      : this.schemes.reduce((map, each) => map.set(each.family, [...(map.get(each.family) ?? []), each]), new Map());
    const groups = [...families].map(([family, entries]) =>
      element("optgroup", { label: family }, ...entries.map((each) =>
        element("option", { value: `${each.family}/${each.name}`, selected: each === this.entry }, each.title))));
    const select = element("select", { id: `${this.id}-scheme` }, ...groups);
    select.addEventListener("change", () => {
      const entry = this.schemes.find(({ family, name }) => `${family}/${name}` === select.value);
      this.show(entry, startOf(entry));
      this.changed();
      this.box.querySelector("select").focus();
    });
    return element("p", { class: "choose" },
      element("label", { for: select.id }, this.id === "a" ? "Scheme" : "Second scheme"), select);
  }

  copier() {
    const select = element("select", { id: `${this.id}-language` }, ...Object.entries(LANGUAGES).map(([key, [title]]) =>
      element("option", { value: key, selected: key === this.language }, title)));
    select.addEventListener("change", () => {
      this.language = select.value;
      this.changed();
      this.showCode();
    });
    const button = element("button", { type: "button" }, "Copy");
    button.addEventListener("click", async () => {
      this.status.textContent = (await copied(this.code)) ? "Copied." : "Selected: copy it with your keyboard.";
    });
    return element("p", { class: "copy" },
      element("span", {}, element("label", { for: select.id }, "As code for "), select), button);
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
    const asking = (this.asking = new AbortController());
    const parameters = this.pinned();
    const target = this.base + addressOf(this.entry, parameters, ".safetensors").slice(1);
    this.showAddress();
    this.picture.classList.add("waiting");
    try {
      const answer = await this.beginning(target, asking.signal);
      if (answer.problem) return this.refused(answer.problem);
      this.shown = readBeginning(answer.buffer, ROWS, COLUMNS);
      this.accepted(parameters);
    } catch (error) {
      if (error.name !== "AbortError") this.refused({ detail: `The service cannot be reached: ${error.message}` });
    }
  }

  async beginning(target, signal, most = BEGINNING) {
    const reply = await ask(target, { headers: { Range: `bytes=0-${most - 1}` }, signal });
    if (!reply.ok) return { problem: await problemOf(reply) };
    const buffer = await reply.arrayBuffer();
    // A long header, such as one of many positions, is read again whole, with room for the rows.
    const end = headerEnd(buffer);
    return end > buffer.byteLength ? this.beginning(target, signal, end + BEGINNING) : { buffer };
  }

  refused(problem) {
    const errors = problem.errors ?? [];
    showFaults(this.form.fields, this.id, errors);
    const beside = errors.filter(({ parameter }) => !this.form.fields.has(parameter));
    const told = beside.length || !errors.length ? [problem.detail] : errors.map(({ detail }) => detail);
    this.status.textContent = [...new Set(told)].join(" ");
    this.status.classList.add("refused");
  }

  accepted(parameters) {
    showFaults(this.form.fields, this.id, []);
    this.status.classList.remove("refused");
    this.status.textContent = this.shown.about.notes.join(" ");
    const theme = dark.matches ? [["theme", "dark"]] : [];
    this.again = 3;
    this.source = this.base + addressOf(this.entry, new Map([...parameters, ...theme]), ".svg").slice(1);
    this.showPicture();
    const sizes = this.shown.tensors.map(({ name, shape, kind }) => `${name}, ${shape.join(" by ") || "one value"}, ${kind}`);
    this.image.alt = `${this.entry.title} as a heatmap: ${sizes.join("; ")}`;
    this.rows.replaceChildren(tableOf(this.shown), ...factsOf(this.shown.about.facts));
    this.showAddress();
    this.showCode();
  }

  // An image cannot send a key: where there is one, its bytes are fetched.
  async showPicture() {
    const source = this.source;
    if (!isKeyed()) {
      this.image.src = source;
      return;
    }
    const reply = await ask(source).catch(() => null);
    const bytes = reply?.ok ? await reply.blob() : null;
    if (source !== this.source) return;
    URL.revokeObjectURL(this.fetched);
    this.fetched = bytes ? URL.createObjectURL(bytes) : "";
    if (bytes) this.image.src = this.fetched;
    else this.pictureFailed();
  }

  pictureFailed() {
    if (!this.source) return;
    if (this.again > 0) {
      this.again -= 1;
      const source = this.source;
      setTimeout(() => { if (this.source === source) this.showPicture(); }, AGAIN_MS);
    } else {
      this.picture.classList.remove("waiting");
      this.status.textContent = "There is no picture at the moment; change a parameter to try again.";
    }
  }

  showAddress() {
    this.link.textContent = addressOf(this.entry, this.pinned(), "");
    this.link.href = this.base + this.link.textContent.slice(1);
  }

  showCode() {
    if (this.shown) this.code.textContent = snippet(this.language, this.entry, this.pinned(), this.shown, this.base, isKeyed());
  }
}

// The parameters that a scheme is first shown with: its first example's, with enough rows to be a picture.
export function startOf(entry) {
  const example = entry.examples.find(({ method }) => method === "GET");
  const given = new Map(new URLSearchParams(example?.href.split("?", 2)[1] ?? ""));
  given.delete("revision");
  const sizes = new Set(["length", "dim", "heads", "offset"]);
  if (given.has("length") && [...given.keys()].every((name) => sizes.has(name))) {
    given.set("length", "64");
    if (given.has("dim")) given.set("dim", "64");
    if (given.has("heads")) given.set("heads", "8");
  }
  return given;
}

function firstSentence(description) {
  return description.replaceAll("`", "").replaceAll("**", "").split(/\n\n|(?<=\.)\s/)[0];
}

async function problemOf(reply) {
  try {
    return await reply.json();
  } catch {
    return { detail: `The service answered with status ${reply.status}.` };
  }
}

function tableOf({ tensors, rows }) {
  const [{ name, shape, kind }] = tensors;
  const width = rows[0]?.length ?? 0;
  const last = shape.at(-1) ?? 1;
  const caption = `First rows of ${name}: ${shape.join(" x ") || "one value"}, ${kind}`;
  const head = element("tr", {}, element("th", { scope: "col" }, "row"),
    ...Array.from({ length: width }, (_, column) => element("th", { scope: "col" }, String(column))));
  const body = rows.map((row, number) => element("tr", {}, element("th", { scope: "row" }, String(number)),
    ...row.map((value) => element("td", {}, String(value))), ...(width < last ? [element("td", {}, "…")] : [])));
  if (width < last) head.append(element("th", { scope: "col" }, `… ${last - 1}`));
  return element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body));
}

function factsOf(facts) {
  const told = Object.entries(facts).map(([name, value]) => `${name} = ${value}`);
  return told.length ? [element("p", { class: "facts" }, told.join(", "))] : [];
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
