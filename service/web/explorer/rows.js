// The first rows of an answer as a table, and what it says of itself.

import { element } from "./form.js";

// `axes` are what the first tensor's axes count.
export function tableOf({ first: { name, shape, kind }, rows }, axes) {
  const width = rows[0]?.length ?? 0;
  const last = shape.at(-1) ?? 1;
  const outer = axes.length === shape.length ? axes.slice(0, -2).map((axis) => `${axis} 0`) : [];
  const place = outer.length ? ` at ${outer.join(", ")}` : "";
  const caption = `First rows of ${name}${place}: ${shape.join(" x ") || "one value"}, ${kind}`;
  const head = element("tr", {}, element("th", { scope: "col" }, "row"),
    ...Array.from({ length: width }, (_, column) => element("th", { scope: "col" }, String(column))));
  const body = rows.map((row, number) => element("tr", {}, element("th", { scope: "row" }, String(number)),
    ...row.map((value) => element("td", {}, String(value))), ...(width < last ? [element("td", {}, "…")] : [])));
  if (width < last) head.append(element("th", { scope: "col" }, `… ${last - 1}`));
  return element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body));
}

export function factsOf(facts) {
  const told = Object.entries(facts).map(([name, value]) => `${name} = ${value}`);
  return told.length ? [element("p", { class: "facts" }, told.join(", "))] : [];
}
