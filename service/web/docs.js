"use strict";

// The document says that the service is at "/". Behind a proxy that strips a path prefix it is where this page is.
const here = new URL(".", window.location.href);

// Swagger UI shows image/svg+xml as the text that it is; here it is the picture that it means.
const pictures = {
  wrapComponents: {
    responseBody: (Original, { React }) => (props) => {
      if (!/^image\/svg\+xml/.test(props.contentType) || typeof props.content !== "string")
        return React.createElement(Original, props);
      const source = `data:image/svg+xml,${encodeURIComponent(props.content)}`;
      return React.createElement("img", { src: source, alt: "The answer, as a picture" });
    },
  },
};

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

async function show() {
  const answer = await fetch(new URL("openapi.json", here));
  const document = await answer.json();
  document.servers = [{ url: here.href.replace(/\/$/, "") }];
  window.ui = SwaggerUIBundle({
    spec: document,
    dom_id: "#docs",
    deepLinking: true,
    // A family at a time: from 150 rows on only those in sight would be in the page, and its search would miss the rest.
    docExpansion: "none",
    tryItOutEnabled: true,
    displayRequestDuration: true,
    // Colouring a table of 65,536 numbers froze the page for 27 seconds.
    syntaxHighlight: false,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [pictures, resolving],
  });
}

show();
