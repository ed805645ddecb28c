"""The mathematics: every scheme the service knows, in one explicit tuple."""

from typing import Any

from service.engine.analyses import (
    attention,
    decay,
    extrapolation,
    norm,
    permutation,
    precision,
    shift,
    similarity,
    wavelengths,
)
from service.engine.biases import (
    alibi,
    alibi_slopes,
    deberta_buckets,
    decomposed_index,
    fire,
    kerple,
    sandwich,
    shaw,
    shaw_vectors,
    swin_index,
    swin_v2_coordinates,
    t5,
    t5_buckets,
    temporal_distance,
    transformer_xl,
)
from service.engine.encodings import (
    age,
    calendar,
    cyclic,
    detr,
    detr_boxes,
    fourier,
    gaussian_fourier,
    lags,
    mtan,
    rope,
    rope_axes,
    rope_mixed,
    sinusoidal,
    sinusoidal_2d,
    sinusoidal_3d,
    temperature,
    time2vec,
    timestep,
)
from service.engine.encodings import learned as initial_table
from service.engine.learned import factorised, lookup, resample
from service.engine.masks import block, causal, chunked, combined, packed, padding, prefix, segments, sliding
from service.engine.operations import alibi as apply_alibi
from service.engine.operations import fire as apply_fire
from service.engine.operations import kerple as apply_kerple
from service.engine.operations import mask as apply_mask
from service.engine.operations import permutation as apply_permutation
from service.engine.operations import rope as apply_rope
from service.engine.operations import rope_axes as apply_rope_axes
from service.engine.operations import rope_mixed as apply_rope_mixed
from service.engine.operations import sandwich as apply_sandwich
from service.engine.operations import shaw as apply_shaw
from service.engine.operations import sinusoidal as apply_sinusoidal
from service.engine.operations import t5 as apply_t5
from service.engine.operations import transformer_xl as apply_transformer_xl
from service.engine.permutations import rope as permutation_rope
from service.engine.position_ids import from_mask, multimodal
from service.engine.position_ids import packed as packed_positions
from service.engine.scheme import Scheme

SCHEMES: tuple[Scheme[Any, Any], ...] = (
    sinusoidal.SCHEME,
    sinusoidal_2d.SCHEME,
    sinusoidal_3d.SCHEME,
    detr.SCHEME,
    detr_boxes.SCHEME,
    rope.SCHEME,
    rope_axes.SCHEME,
    rope_mixed.SCHEME,
    timestep.SCHEME,
    fourier.SCHEME,
    gaussian_fourier.SCHEME,
    cyclic.SCHEME,
    calendar.SCHEME,
    lags.SCHEME,
    age.SCHEME,
    time2vec.SCHEME,
    mtan.SCHEME,
    temperature.SCHEME,
    initial_table.SCHEME,
    alibi.SCHEME,
    alibi_slopes.SCHEME,
    t5.SCHEME,
    t5_buckets.SCHEME,
    shaw.SCHEME,
    shaw_vectors.SCHEME,
    deberta_buckets.SCHEME,
    swin_index.SCHEME,
    swin_v2_coordinates.SCHEME,
    decomposed_index.SCHEME,
    transformer_xl.SCHEME,
    temporal_distance.SCHEME,
    kerple.SCHEME,
    sandwich.SCHEME,
    fire.SCHEME,
    causal.SCHEME,
    sliding.SCHEME,
    chunked.SCHEME,
    prefix.SCHEME,
    block.SCHEME,
    packed.SCHEME,
    segments.SCHEME,
    padding.SCHEME,
    combined.SCHEME,
    precision.SCHEME,
    wavelengths.SCHEME,
    similarity.SCHEME,
    decay.SCHEME,
    shift.SCHEME,
    norm.SCHEME,
    permutation.SCHEME,
    extrapolation.SCHEME,
    attention.SCHEME,
    permutation_rope.SCHEME,
    lookup.SCHEME,
    resample.SCHEME,
    factorised.SCHEME,
    from_mask.SCHEME,
    packed_positions.SCHEME,
    multimodal.SCHEME,
    apply_sinusoidal.SCHEME,
    apply_rope.SCHEME,
    apply_rope_axes.SCHEME,
    apply_rope_mixed.SCHEME,
    apply_permutation.SCHEME,
    apply_alibi.SCHEME,
    apply_t5.SCHEME,
    apply_shaw.SCHEME,
    apply_transformer_xl.SCHEME,
    apply_kerple.SCHEME,
    apply_sandwich.SCHEME,
    apply_fire.SCHEME,
    apply_mask.SCHEME,
)


def by_key(family: str, name: str) -> Scheme[Any, Any]:
    """The scheme of that family and name; KeyError where there is none."""
    return _BY_KEY[family, name]


_BY_KEY = {scheme.key: scheme for scheme in SCHEMES}
