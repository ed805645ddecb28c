"""The questions of the page on which someone asks for advice: a field for each need that advice knows."""

from html import escape

from service.api.openapi_parameters import needs_parameters
from service.api.openapi_shared import Schema


def fields() -> str:
    """As HTML, to stand in a form.

    >>> fields().splitlines()[0]
    '<div class="field"><label for="need-modality">modality</label>'
    """
    return "\n".join(_field(each) for each in needs_parameters())


def _field(told: Schema) -> str:
    name, schema = told["name"], told["schema"]
    stands = f'id="need-{name}" name="{name}" aria-describedby="need-{name}-hint"'
    return (
        f'<div class="field"><label for="need-{name}">{escape(name.replace("_", " "))}</label>\n'
        f"{_select(stands, schema) if 'enum' in schema else _number(stands)}\n"
        f'<p class="hint" id="need-{name}-hint">{escape(told["description"].replace("`", ""))}</p></div>'
    )


def _select(stands: str, schema: Schema) -> str:
    default = schema["default"]
    options = "".join(f"<option>{each}</option>" for each in dict.fromkeys((default, *schema["enum"])))
    return f'<select {stands} data-otherwise="{default}">{options}</select>'


def _number(stands: str) -> str:
    return f'<input {stands} type="text" inputmode="numeric" spellcheck="false">'
