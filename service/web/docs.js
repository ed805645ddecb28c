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
    plugins: [pictures],
  });
}

show();
