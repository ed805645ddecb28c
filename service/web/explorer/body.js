// The field for the caller's own arrays: the JSON body of a POST.

import { element } from "./form.js";

// `changed(when)` is called as a form's is. A scheme that takes no body has no field, and its text is empty.
export function makeBody(entry, text, id, changed) {
  if (!entry.methods.includes("POST")) return { box: "", text: () => "", mark() {} };
  const isNeeded = !entry.methods.includes("GET");
  const input = element("textarea", {
    id: `${id}-body`, rows: "8", spellcheck: "false", autocapitalize: "off", "aria-describedby": `${id}-body-hint`,
  });
  input.value = text;
  input.addEventListener("input", () => changed("soon"));
  const box = element("details", { class: "body field", open: Boolean(text) || isNeeded },
    element("summary", {}, isNeeded ? "Your own data" : "Your own data, if you like"),
    element("label", { for: input.id }, "Body, as JSON"), input,
    element("div", { class: "hint", id: `${id}-body-hint` }, "It may hold what follows; an example of it shows how.", holds(entry)));
  return {
    box,
    // What needs a body is asked for with one, and the service says what it lacks.
    text: () => input.value.trim() || (isNeeded ? "{}" : ""),
    mark: (isWrong) => input.setAttribute("aria-invalid", String(isWrong)),
  };
}

function holds({ inputs }) {
  const each = inputs.map(({ name, description, required }) =>
    element("li", {}, element("code", {}, name), `${required ? " (needed)" : ""}: ${description.replaceAll("`", "")}`));
  return element("ul", {}, ...each);
}
