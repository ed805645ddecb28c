// One side of the page: a scheme, its form, the picture, the first rows, and the code that asks for them.

import { AGAIN_MS, beginning, pictured } from "./asking.js";
import { makeBody } from "./body.js";
import { requestOf, startOf } from "./examples.js";
import { element, makeForm, showFaults } from "./form.js";
import { isKeyed } from "./key.js";
import { factsOf, tableOf } from "./rows.js";
import { readBeginning } from "./safetensors.js";
import { LANGUAGES, snippet } from "./snippets.js";
import { addressOf, isShareable } from "./state.js";

const MOST_OF_SCREEN = 0.45;
const ROWS = 4;
const COLUMNS = 8;
const SIZES = new Set(["length", "queries", "keys", "rows", "dim", "heads", "grid"]);
const SOON_MS = 250;
// A picture that did not come is asked for so many times before that is told; then ever more rarely.
const PATIENT = 3;
const LONGEST_PAUSE_MS = 30_000;
const TOO_LONG = "Your data is too long for the address of this page: a link to it shows the example's.";
// Where there is less room than this a wide picture would be smaller than its letters can be read.
const WIDE_PX = 900;
// A narrow picture stays where a wide one's scroll bar would call for it again.
const SCROLL_BAR_PX = 24;
const dark = window.matchMedia("(prefers-color-scheme: dark)");

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
    this.image = element("img", { alt: "" });
    this.image.addEventListener("load", () => {
      if (this.again > PATIENT && this.shown) this.accepted();
      this.again = 0;
      this.picture.classList.remove("waiting");
      this.offerSize();
    });
    this.image.addEventListener("error", () => this.pictureFailed());
    new ResizeObserver(() => this.stay()).observe(this.image);
    this.picture = element("div", {
      class: "picture scroll", role: "region", tabindex: "0", "aria-label": `Picture of the ${which}`,
    }, this.image);
    this.size = element("button", { type: "button", "aria-pressed": "false", hidden: true }, "Full size");
    this.size.addEventListener("click", () => {
      const isFull = this.picture.classList.toggle("full");
      this.size.setAttribute("aria-pressed", String(isFull));
      this.resized();
    });
    new ResizeObserver(() => this.resized()).observe(this.picture);
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
      element("div", { class: "seen" }, this.status, this.picture, this.size, this.rows),
      element("div", { class: "told" },
        element("h3", {}, "Address"), element("pre", {}, this.method, this.link), this.copier(), this.code),
    );
    this.ask();
  }

  // Nothing is shown that is of another scheme.
  clear() {
    this.leavePicture();
    this.rows.replaceChildren();
    this.code.textContent = "";
  }

  leavePicture() {
    URL.revokeObjectURL(this.image.src);
    this.image.removeAttribute("src");
    this.image.alt = "";
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
    clearTimeout(this.later);
    this.asking?.abort();
    this.drawing = null;
    const { signal } = (this.asking = new AbortController());
    const parameters = this.pinned();
    const body = this.body.text();
    this.showAddress();
    this.button.disabled = true; // until the code is that of the address
    this.picture.classList.add("waiting");
    this.rows.classList.add("waiting");
    try {
      const answer = await beginning(this.at(parameters, ".safetensors"), body, signal);
      if (answer.problem) return this.refused(answer.problem);
      this.shown = readBeginning(answer.buffer, Object.keys(this.entry.tensors), ROWS, COLUMNS);
      this.accepted();
      await this.showPicture(parameters, body, signal);
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
    // What is there stays, faint, until the form is right again; what was still on its way is not waited for.
    if (!this.image.complete) this.leavePicture();
    if (this.image.alt) this.image.alt = `${this.entry.title}, before what is refused`;
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
    this.image.alt = `${this.entry.title} as a heatmap: ${sizes.join("; ")}`;
    this.rows.replaceChildren(tableOf(this.shown, this.axesOf(this.shown.first)), ...factsOf(this.shown.about.facts));
    this.showAddress();
    this.showCode();
  }

  // What the axes of a tensor count; it may have more than one form.
  axesOf({ name, shape }) {
    return this.entry.tensors[name]?.find((axes) => axes.length === shape.length) ?? [];
  }

  // A picture of an address alone has that address. An image sends no body and no key: a picture that needs one is asked
  // for and kept while it is shown.
  async showPicture(parameters, body, signal) {
    const drawing = (this.drawing = { isNarrow: this.isNarrow(), again: () => this.showPicture(parameters, body, signal) });
    const theme = dark.matches ? [["theme", "dark"]] : [];
    const width = drawing.isNarrow ? [["picture_width", "narrow"]] : [];
    const target = this.at(new Map([...parameters, ...theme, ...width]), ".svg");
    this.picture.classList.add("waiting");
    this.again = 0;
    const source = body || isKeyed() ? await pictured(target, body, signal) : target;
    if (drawing !== this.drawing) return URL.revokeObjectURL(source);
    URL.revokeObjectURL(this.image.src);
    this.image.classList.toggle("narrow", drawing.isNarrow);
    if (source) this.image.src = source;
    else this.noPicture();
  }

  // In full size a picture is as wide as on any screen, and scrolled.
  get isFull() {
    return this.picture.classList.contains("full");
  }

  isNarrow() {
    const least = this.drawing?.isNarrow ? WIDE_PX + SCROLL_BAR_PX : WIDE_PX;
    return !this.isFull && this.picture.clientWidth < least;
  }

  // Another picture where there is now room for a wide one, or no more.
  async resized() {
    this.offerSize();
    if (!this.drawing || this.drawing.isNarrow === this.isNarrow()) return;
    try {
      await this.drawing.again();
    } catch (error) {
      if (error.name !== "AbortError") this.noPicture();
    }
  }

  // Where there is less room than a wide picture takes, a narrow one is seen, or all of the wide one, smaller.
  offerSize() {
    this.size.hidden = !this.isFull && !this.isNarrow() && this.image.naturalWidth <= this.picture.clientWidth;
  }

  pictureFailed() {
    const source = this.image.src;
    if (source.startsWith("blob:")) return this.noPicture();
    this.again += 1;
    if (this.again > PATIENT) this.tell(["There is no picture at the moment; it is asked for again and again."]);
    const pause = Math.min(AGAIN_MS * 2 ** Math.max(0, this.again - PATIENT), LONGEST_PAUSE_MS);
    this.later = setTimeout(() => { if (this.image.src === source) this.image.src = source; }, pause);
  }

  noPicture() {
    this.picture.classList.remove("waiting");
    this.tell(["There is no picture at the moment; change a parameter to try again."]);
  }

  // A picture that leaves room for the form stays in sight while that is scrolled.
  stay() {
    this.picture.classList.toggle("stays", this.image.clientHeight < window.innerHeight * MOST_OF_SCREEN);
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
