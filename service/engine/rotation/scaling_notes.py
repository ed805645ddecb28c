"""What deserves saying about a scaling: parameters that decide nothing, and a factor that its lengths contradict."""

from service.engine.rotation.scaling import PARAMETERS, TAKES, has_own_mscales
from service.engine.rotation.scaling_parameters import Scaling


def scaling_notes(params: Scaling) -> list[str]:
    """What deserves saying about the scaling: parameters without effect, and a factor that its lengths contradict."""
    kind = params.rope_type
    idle = [name for name in PARAMETERS if name not in TAKES[kind]]
    notes = [f"{name} has no effect with rope_type={kind}" for name in idle if getattr(params, name) is not None]
    if params.truncate is False and params.truncate_rule == "always" and "truncate" in TAKES[kind]:
        notes.append("truncate=false has no effect with truncate_rule=always")
    return notes + _idle_attention(params) + _contradicted_factor(params)


def _idle_attention(params: Scaling) -> list[str]:
    """What says how large A is, beside what comes before it."""
    names: tuple[str, ...]
    if params.rope_type == "yarn" and params.mscale_rule == "neither":
        names, where = ("mscale", "mscale_all_dim", "attention_factor"), "with mscale_rule=neither"
    elif params.rope_type == "longrope":
        names, where = _idle_in_longrope(params)
    else:
        return []
    return [f"{name} has no effect {where}" for name in names if getattr(params, name) is not None]


def _idle_in_longrope(params: Scaling) -> tuple[tuple[str, ...], str]:
    if has_own_mscales(params):
        return ("attention_factor",), "beside short_mscale and long_mscale"
    if params.longrope_attention == "ratio":
        return ("attention_factor",), "with longrope_attention=ratio"
    return (), ""


def _contradicted_factor(params: Scaling) -> list[str]:
    """A factor that is not the ratio of the lengths: used, or not."""
    trained, largest, factor = (
        params.original_max_position_embeddings,
        params.max_position_embeddings,
        params.factor,
    )
    if params.rope_type not in ("yarn", "longrope", "ntk_by_parts") or not (trained and largest and factor):
        return []
    ratio = largest / trained
    if ratio in (1, factor):
        return []
    said = f"factor is {factor:g}, and max_position_embeddings / original_max_position_embeddings is {ratio:g}: "
    return [said + _choice_of_factor(params)]


def _choice_of_factor(params: Scaling) -> str:
    if params.rope_type != "longrope":
        return "the factor was used"
    if has_own_mscales(params):
        return "neither was used, but short_mscale and long_mscale"
    if params.longrope_attention == "ratio":
        return "the ratio was used"
    if params.attention_factor is not None:
        return "neither was used, but attention_factor"
    return "the factor was used" if params.longrope_attention in (None, "factor") else "the ratio was used"
