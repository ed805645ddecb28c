// A form made from a scheme's entry in the catalogue: a field for each parameter, the usual ones first.

const USUAL = new Set(["length", "queries", "keys", "dim", "heads", "grid", "preset", "dtype", "base", "layout", "pairing"]);
const NOT_SHOWN = new Set(["revision", "nonfinite", "theme", "picture_width"]);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// The parameters of a scheme that a form has: before all others those that are stated, by the request or by the scheme's
// first example, and those that most callers state.
export function fieldsOf(entry, given) {
  const { properties, required } = entry.parameters;
  const example = entry.examples.find(({ method }) => method === "GET");
  const stated = new Set([...given.keys(), ...required, ...new URLSearchParams(example?.href.split("?", 2)[1] ?? "").keys()]);
  const shown = Object.keys(properties).filter(
    (name) => !NOT_SHOWN.has(name) && (name !== "tensor" || properties.tensor.enum.length > 1),
  );
  const first = shown.filter((name) => stated.has(name) || USUAL.has(name));
  const must = (name) => Number(required.includes(name)) * 2 + Number(USUAL.has(name));
  first.sort((one, other) => must(other) - must(one));
  return { first, more: shown.filter((name) => !first.includes(name)) };
}

// `changed(when)` is called with "now" after a choice, and with "soon" while someone types.
export function makeForm(entry, parameters, id, changed) {
  const { first, more } = fieldsOf(entry, parameters);
  // What an address says beside them, such as a pasted block, is kept where it can be seen and taken out.
  const others = [...parameters.keys()].filter((name) => !Object.hasOwn(entry.parameters.properties, name));
  const fields = new Map();
  const make = (name) => {
    const field = makeField(entry, name, parameters.get(name) ?? "", `${id}-${name}`, changed);
    fields.set(name, field);
    return field.box;
  };
  const stray = (name) => {
    const box = make(name);
    const button = element("button", { type: "button" }, `Take ${name} out`);
    button.addEventListener("click", () => {
      fields.delete(name);
      box.remove();
      form.querySelector("input, select").focus();
      changed("now");
    });
    box.append(button);
    return box;
  };
  const form = element("form", { autocomplete: "off", "aria-label": `Parameters of ${entry.title}` });
  form.append(element("div", { class: "fields" }, ...first.map(make), ...others.map(stray)));
  if (more.length) {
    const hidden = more.map(make);
    form.append(
      element("details", {}, element("summary", {}, `${more.length} more parameters`),
        element("div", { class: "fields" }, ...hidden)),
    );
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    changed("now");
  });
  return { form, fields, values: () => valuesOf(fields) };
}

function valuesOf(fields) {
  const given = [...fields].map(([name, { input }]) => [name, input.value.trim()]);
  return new Map(given.filter(([, value]) => value !== ""));
}

function makeField(entry, name, value, id, changed) {
  const schema = Object.hasOwn(entry.parameters.properties, name) ? entry.parameters.properties[name] : {};
  const input = makeInput(schema, value, id, entry.parameters.required.includes(name));
  input.setAttribute("aria-describedby", `${id}-hint`);
  input.addEventListener(input.tagName === "SELECT" ? "change" : "input", () =>
    changed(input.tagName === "SELECT" ? "now" : "soon"),
  );
  const box = element("div", { class: "field" }, element("label", { for: id }, name), input);
  box.append(element("p", { class: "hint", id: `${id}-hint` }, hint(schema)));
  return { box, input };
}

function makeInput(schema, value, id, required) {
  const choices = schema.type === "boolean" ? ["true", "false"] : schema.enum;
  if (choices) {
    const standing = schema.default === undefined ? "(not stated)" : `${schema.default} (default)`;
    const options = choices.filter((each) => each !== schema.default || each === value);
    const known = value === "" || choices.includes(value) ? [] : [value];
    return element("select", { id },
      element("option", { value: "" }, standing),
      ...[...options, ...known].map((each) => element("option", { value: each, selected: each === value }, each)),
    );
  }
  const isNumber = schema.type === "integer" || schema.type === "number";
  return element("input", {
    id,
    value,
    required,
    type: "text",
    inputmode: isNumber && !(schema.minimum < 0) ? "decimal" : "text",
    placeholder: schema.default ?? "",
    spellcheck: "false",
    autocapitalize: "off",
  });
}

// A description without the marks of code, as long as there is room for.
function hint(schema) {
  const text = (schema.description ?? "").replaceAll("`", "");
  return text.length > 160 ? `${text.slice(0, 159)}…` : text;
}

// Shows what the service says of each field; what it says of no field is the caller's to show.
export function showFaults(fields, id, errors) {
  for (const [name, { box, input }] of fields) {
    const told = errors.filter((error) => error.parameter === name);
    box.querySelector(".fault")?.remove();
    input.toggleAttribute("aria-invalid", false);
    input.setAttribute("aria-describedby", `${id}-${name}-hint`);
    if (!told.length) continue;
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", `${id}-${name}-fault ${id}-${name}-hint`);
    box.append(element("p", { class: "fault", id: `${id}-${name}-fault` }, told.map((each) => each.detail).join(" ")));
    const details = box.closest("details");
    if (details) details.open = true;
  }
}
