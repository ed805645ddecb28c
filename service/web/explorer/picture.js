// The picture of one side: as wide as there is room for, in the colours of the page, asked for again until it comes.

import { AGAIN_MS, pictured } from "./asking.js";
import { element } from "./form.js";
import { isKeyed } from "./key.js";

const MOST_OF_SCREEN = 0.45;
// A picture that did not come is asked for so many times before that is told; then ever more rarely.
const PATIENT = 3;
const LONGEST_PAUSE_MS = 30_000;
// Where there is less room than this a wide picture would be smaller than its letters can be read.
const WIDE_PX = 900;
// A narrow picture stays where a wide one's scroll bar would call for it again.
const SCROLL_BAR_PX = 24;
export const dark = window.matchMedia("(prefers-color-scheme: dark)");

export class Picture {
  // `tell(sentences)` says what is amiss, `back()` that a picture came though it was told that there is none.
  constructor(which, { tell, back }) {
    Object.assign(this, { tell, back, again: 0 });
    this.image = element("img", { alt: "" });
    this.image.addEventListener("load", () => this.came());
    this.image.addEventListener("error", () => this.failed());
    new ResizeObserver(() => this.stay()).observe(this.image);
    this.box = element("div", {
      class: "picture scroll", role: "region", tabindex: "0", "aria-label": `Picture of the ${which}`,
    }, this.image);
    this.size = element("button", { type: "button", "aria-pressed": "false", hidden: true }, "Full size");
    this.size.addEventListener("click", () => {
      const isFull = this.box.classList.toggle("full");
      this.size.setAttribute("aria-pressed", String(isFull));
      this.resized();
    });
    new ResizeObserver(() => this.resized()).observe(this.box);
  }

  // A picture of an address alone has that address. An image sends no body and no key: a picture that needs one is asked
  // for and kept while it is shown. `at(query)` is where the picture with these parameters too is.
  async show(at, body, signal) {
    const drawing = (this.drawing = { isNarrow: this.isNarrow(), again: () => this.show(at, body, signal) });
    const theme = dark.matches ? [["theme", "dark"]] : [];
    const width = drawing.isNarrow ? [["picture_width", "narrow"]] : [];
    const target = at([...theme, ...width]);
    this.box.classList.add("waiting");
    this.again = 0;
    const source = body || isKeyed() ? await pictured(target, body, signal) : target;
    if (drawing !== this.drawing) return URL.revokeObjectURL(source);
    URL.revokeObjectURL(this.image.src);
    this.image.classList.toggle("narrow", drawing.isNarrow);
    if (source) this.image.src = source;
    else this.none();
  }

  // Another will follow: what is shown is faint until then.
  wait() {
    clearTimeout(this.later);
    this.drawing = null;
    this.box.classList.add("waiting");
  }

  // What is there stays, faint, until the form is right again; what was still on its way is not waited for.
  refused(title) {
    if (!this.image.complete) this.clear();
    if (this.image.alt) this.image.alt = `${title}, before what is refused`;
  }

  clear() {
    URL.revokeObjectURL(this.image.src);
    this.image.removeAttribute("src");
    this.image.alt = "";
  }

  describe(text) {
    this.image.alt = text;
  }

  // In full size a picture is as wide as on any screen, and scrolled.
  get isFull() {
    return this.box.classList.contains("full");
  }

  isNarrow() {
    const least = this.drawing?.isNarrow ? WIDE_PX + SCROLL_BAR_PX : WIDE_PX;
    return !this.isFull && this.box.clientWidth < least;
  }

  // Another picture where there is now room for a wide one, or no more.
  async resized() {
    this.offerSize();
    if (!this.drawing || this.drawing.isNarrow === this.isNarrow()) return;
    try {
      await this.drawing.again();
    } catch (error) {
      if (error.name !== "AbortError") this.none();
    }
  }

  // Where there is less room than a wide picture takes, a narrow one is seen, or all of the wide one, smaller.
  offerSize() {
    this.size.hidden = !this.isFull && !this.isNarrow() && this.image.naturalWidth <= this.box.clientWidth;
  }

  came() {
    if (this.again > PATIENT) this.back();
    this.again = 0;
    this.box.classList.remove("waiting");
    this.offerSize();
  }

  failed() {
    const source = this.image.src;
    if (source.startsWith("blob:")) return this.none();
    this.again += 1;
    if (this.again > PATIENT) this.tell(["There is no picture at the moment; it is asked for again and again."]);
    const pause = Math.min(AGAIN_MS * 2 ** Math.max(0, this.again - PATIENT), LONGEST_PAUSE_MS);
    this.later = setTimeout(() => { if (this.image.src === source) this.image.src = source; }, pause);
  }

  none() {
    this.box.classList.remove("waiting");
    this.tell(["There is no picture at the moment; change a parameter to try again."]);
  }

  // A picture that leaves room for the form stays in sight while that is scrolled.
  stay() {
    this.box.classList.toggle("stays", this.image.clientHeight < window.innerHeight * MOST_OF_SCREEN);
  }
}
