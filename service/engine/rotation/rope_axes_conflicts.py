"""Parameters of rotation on several axes that contradict each other."""

from service.engine.errors import Refusal
from service.engine.rotation.rope_sections import RopeAxes, rotated

SHARED = ("shared", "strided")  # series of all pairs together, which a `rope_type` scales
# The series that arithmetics other than the exact one have.
KNOWN = {
    "ggml": ("shared", "per-axis"),
    "float32": ("shared", "per-axis", "strided"),
    "table-dtype": ("per-axis",),
}


def refuse_conflicts(params: RopeAxes) -> None:
    """Refuse the first contradiction, by the name of the parameter to change."""
    if params.ntk_factor != (1.0,) and params.frequencies != "per-axis":
        raise Refusal("ntk_factor", "conflict", "ntk_factor stretches the base of an axis: add frequencies=per-axis")
    _refuse_scalings(params)
    if (params.max_frequency is None) == (params.frequencies == "linear"):
        wanted = "is needed with" if params.max_frequency is None else "is for"
        code = "missing" if params.max_frequency is None else "conflict"
        raise Refusal("max_frequency", code, f"max_frequency {wanted} frequencies=linear")
    if params.arithmetic == "exact":
        return
    known = KNOWN[params.arithmetic]
    plain = params.interpolation_scale == (1.0,) and params.base_size is None and params.angle_factor == "one"
    stretched = params.arithmetic != "float32" and params.ntk_factor != (1.0,)
    if params.frequencies not in known or stretched or not plain or params.coordinates.startswith(("unit", "share")):
        detail = (
            f"arithmetic={params.arithmetic} knows base^-x times a position as it is: frequencies "
            f"{' or '.join(known)}, no factors and no scaled coordinates; use arithmetic=exact"
        )
        raise Refusal("arithmetic", "conflict", detail)


def _refuse_scalings(params: RopeAxes) -> None:
    """Refuse a scaling of series that have none, and lists of frequencies that do not fit."""
    if params.rope_type != "default" and params.frequencies not in SHARED:
        detail = (
            f"rope_type={params.rope_type} scales the frequencies that the axes share: frequencies is "
            f"{params.frequencies}, {' or '.join(SHARED)} would do"
        )
        raise Refusal("rope_type", "conflict", detail)
    if (params.raw_frequencies is None) == (params.rope_type == "frequencies"):
        wanted = "is needed with" if params.raw_frequencies is None else "is for"
        code = "missing" if params.raw_frequencies is None else "conflict"
        raise Refusal("raw_frequencies", code, f"raw_frequencies {wanted} rope_type=frequencies")
    pairs, given = rotated(params) // 2, len(params.raw_frequencies or ())
    if given not in (0, pairs):
        detail = f"raw_frequencies has one entry a pair: expected {pairs}, got {given}"
        raise Refusal("raw_frequencies", "shape", detail, limit=pairs, requested=given)
