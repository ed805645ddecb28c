// The key of a server that wants one. It is asked for when an answer says so, held by this page alone, and gone with it.

import { element } from "./form.js";

let key = "";
let asking = null;

export const isKeyed = () => key !== "";

// fetch with the key; without one that is known there, someone is asked for it.
export async function ask(target, options = {}) {
  for (;;) {
    const sent = key;
    const headers = { ...options.headers, ...(sent && { Authorization: `Bearer ${sent}` }) };
    const reply = await fetch(target, { ...options, headers });
    if (reply.status !== 401) return reply;
    if (sent === key) {
      asking ??= asked(sent ? "The server does not know this key." : "This server wants an API key.");
      key = await asking;
      asking = null;
    }
  }
}

// A link sends no key: what lies below `place` is asked for with it, and saved or shown as the service says.
export function followLinks(place) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || !isKeyed() || !link.href.startsWith(place)) return;
    event.preventDefault();
    follow(link.href);
  });
}

async function follow(href) {
  const reply = await ask(href);
  const address = URL.createObjectURL(await reply.blob());
  const name = /^attachment; filename="(.*)"$/.exec(reply.headers.get("Content-Disposition") ?? "");
  if (name) element("a", { href: address, download: name[1] }).click();
  else window.location.assign(address);
}

// Resolves to what is typed.
function asked(why) {
  const input = element("input", {
    id: "key", type: "password", required: true, pattern: "[!-~]+", autocomplete: "off", spellcheck: "false",
    title: "visible ASCII characters, no spaces",
  });
  const form = element("form", { class: "key", "aria-label": "API key" },
    element("p", { role: "status" }, why), element("label", { for: "key" }, "API key"), input,
    element("button", {}, "Use this key"));
  document.getElementById("sides").before(form);
  input.focus();
  return new Promise((resolve) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      form.remove();
      resolve(input.value);
    });
  });
}
