"use strict";

// The document says that the service is at "/". Behind a proxy that strips a path prefix it is where this page is.
const here = new URL(".", window.location.href);

// Swagger UI shows image/svg+xml as the text that it is; here it is the picture that it means. A text that is too long to
// be shown arrives here as a file (see `held`).
const answers = {
  wrapComponents: {
    responseBody: (Original, { React }) => (props) => {
      const { content, contentType } = props;
      if (content instanceof Blob && isText(contentType)) return React.createElement(Beginning, { ...props, React });
      if (!/^image\/svg\+xml/.test(contentType) || typeof content !== "string")
        return React.createElement(Original, props);
      const source = `data:image/svg+xml,${encodeURIComponent(content)}`;
      return React.createElement("img", { src: source, alt: "The answer, as a picture" });
    },
  },
};

// A table of 11 MB kept the page from answering for half a minute: read, copied, written anew and laid out line by line.
// Of a longer text than this its beginning is shown, and the whole is a file to save.
const MOST_SHOWN = 1 << 16;
const isText = (type) => /\b(json|text)\b/.test(type ?? "");

// Asks as `fetch` does; a text that is too long to be shown is given as a file where its text is asked for, so that
// nothing goes through it.
async function held(url, request) {
  const reply = await fetch(url, request);
  const { ok, status, statusText, headers } = reply;
  const whole = await reply.blob();
  const isLong = isText(headers.get("Content-Type")) && whole.size > MOST_SHOWN;
  return {
    ok, status, statusText, headers, url: reply.url,
    text: async () => (isLong ? whole : whole.text()),
    blob: async () => whole,
  };
}

// The beginning of a long text, a row of a table a line, and a link that saves the whole of it.
function Beginning({ React, content: whole, url, headers = {} }) {
  const [shown, setShown] = React.useState({});
  React.useEffect(() => {
    let isLeft = false;
    const address = URL.createObjectURL(whole);
    whole.slice(0, MOST_SHOWN).text().then((text) => {
      if (!isLeft) setShown({ address, text: text.replaceAll("],[", "],\n[") });
    });
    return () => {
      isLeft = true;
      URL.revokeObjectURL(address);
    };
  }, [whole]);
  const [, name] = /filename="([^"]+)"/.exec(headers["content-disposition"]) ?? [];
  const told = `The first ${MOST_SHOWN.toLocaleString("en")} of ${whole.size.toLocaleString("en")} bytes. `;
  const saved = name ?? `${new URL(url).pathname.split("/").at(-1)}.json`; // what has no name of its own is JSON
  return React.createElement("div", {},
    React.createElement("h5", {}, "Response body"),
    React.createElement("p", {}, told, React.createElement("a", { href: shown.address, download: saved }, "Save all of it")),
    React.createElement("pre", { className: "microlight" }, shown.text ?? ""));
}

// What an operation refers to, put in its place. Swagger UI's own reader goes through the whole document again for every
// operation that is opened, which takes seconds for one of this size; this one goes through that operation.
function inlined(document, part, within = []) {
  if (part === null || typeof part !== "object") return part;
  if (Array.isArray(part)) return part.map((each) => inlined(document, each, within));
  const { $ref: reference, ...own } = part;
  if (typeof reference !== "string" || !reference.startsWith("#/"))
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, inlined(document, value, within)]));
  if (within.includes(reference)) return part; // a schema that holds itself
  return { ...inlined(document, at(document, reference), [...within, reference]), ...inlined(document, own, within) };
}

function at(document, reference) {
  const steps = reference.slice(2).split("/").map((step) => step.replace(/~1/g, "/").replace(/~0/g, "~"));
  return steps.reduce((here, step) => here[step], document);
}

const resolving = () => ({
  fn: {
    resolveSubtree: async (document, path) => {
      const part = path.reduce((here, step) => here?.[step], document);
      return { spec: inlined(document, part), errors: [] };
    },
  },
});

// From 150 rows on Swagger UI keeps only those in sight in the page, and neither its search nor a list of headings finds
// the rest. Where opening a family would come to that, the one that was opened first is closed.
const MOST_ROWS = 149;
let opened = [];

const families = {
  statePlugins: {
    layout: {
      wrapActions: {
        show: (original, { specSelectors }) => (key, isShown) => {
          const [kind, family, operation] = [key].flat();
          if (kind !== "operations-tag" || operation !== undefined) return original(key, isShown);
          const listed = specSelectors.taggedOperations();
          const rowsOf = (name) => listed.getIn([name, "operations"])?.size ?? 0;
          opened = opened.filter((name) => name !== family);
          if (isShown) opened.push(family);
          while (opened.length > 1 && opened.reduce((sum, name) => sum + rowsOf(name), listed.size) > MOST_ROWS)
            original(["operations-tag", opened.shift()], false);
          return original(key, isShown);
        },
      },
    },
  },
};

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const dim = () => window.document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", dim);
dim();

async function show() {
  const answer = await fetch(new URL("openapi.json", here));
  const document = await answer.json();
  document.servers = [{ url: here.href.replace(/\/$/, "") }];
  window.ui = SwaggerUIBundle({
    spec: document,
    dom_id: "#docs",
    deepLinking: true,
    docExpansion: "none",
    tryItOutEnabled: true,
    displayRequestDuration: true,
    // Colouring a table of 65,536 numbers froze the page for 27 seconds.
    syntaxHighlight: false,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [answers, resolving, families],
    requestInterceptor: (request) => Object.assign(request, { userFetch: held }),
  });
}

show();
