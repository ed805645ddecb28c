"""How models turn vectors on several axes: named sets of parameters, with the number formats of their roundings."""

from service.engine.scheme import Usage


def _model(who: str, preset: str, **parameters: str) -> Usage:
    return Usage(who, {"arithmetic": "float32", **parameters}, preset=preset)


ROTATIONS = (
    _model("Qwen2-VL, Qwen2.5-VL, Qwen2.5-Omni: text", "qwen2-vl", sections="16,24,24", base="1000000"),
    _model("Qwen3-VL, Qwen3-Omni: text", "qwen3-vl", sections="24,20,20", section_rule="interleaved", base="5000000"),
    _model(
        "Qwen3.5: text",
        "qwen3-5",
        rotary_dim="64",
        sections="11,11,10",
        section_rule="interleaved",
        base="10000000",
    ),
    _model("GLM-4V, GLM-OCR: text", "glm-4v", rotary_dim="64", sections="8,12,12", pairing="interleaved"),
    _model(
        "Qwen2-VL, Qwen3-VL: vision, products and sums in float32",
        "qwen2-vl-vision",
        sections="20,20",
        frequencies="per-axis",
        table_dtype="float32",
        rotary_dim="80",
    ),
    _model(
        "ERNIE-4.5-VL: text, products and sums in float32",
        "ernie-4-5-vl",
        sections="22,22,20",
        section_order="1,2,0",
        section_rule="spatial-first",
        pairing="interleaved",
        base="500000",
        table_dtype="float32",
    ),
    _model(
        "HunYuan-VL: text (no rotation), products and sums in float32",
        "hunyuan-vl",
        sections="16,16,16,16",
        section_rule="doubled",
        compute_dtype="float32",
    ),
    _model(
        "Wan: angles in float64, products and sums in float32",
        "wan",
        sections="22,21,21",
        frequencies="per-axis",
        pairing="interleaved",
        arithmetic="exact",
        table_dtype="float32",
    ),
    _model(
        "V-JEPA 2 (no rotation; every step in the number format of the vectors)",
        "v-jepa-2",
        rotary_dim="126",
        sections="21,21,21",
        frequencies="per-axis",
        pairing="half-per-axis",
        turning="neighbours",
        arithmetic="table-dtype",
    ),
)
