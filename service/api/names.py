"""The nearest known name for a misspelt one, or for one that another library uses."""

from collections.abc import Sequence
from difflib import SequenceMatcher

LONGEST = 64
# Likeness at which a name is more likely meant than not: one slip in three letters, or one in four of a longer name.
ALIKE_SHORT, ALIKE = 0.6, 0.72
SHORT = 4

# What the same thing is called elsewhere: in Hugging Face configurations, PyTorch modules and papers.
ELSEWHERE = {
    "head_dim": "dim",
    "d_model": "dim",
    "hidden_size": "dim",
    "embed_dim": "dim",
    "embedding_dim": "dim",
    "dims": "dim",
    "num_channels": "dim",
    "n_embd": "dim",
    "head_size": "dim",
    "theta": "base",
    "rope_theta": "base",
    "rotary_emb_base": "base",
    "max_period": "base",
    "max_timescale": "base",
    "max_wavelength": "base",
    "temperature": "base",
    "seq_len": "length",
    "seq_length": "length",
    "sequence_length": "length",
    "max_len": "length",
    "max_position_embeddings": "length",
    "num_positions": "length",
    "lengths": "segment_lengths",
    "seq_lens": "segment_lengths",
    "position": "positions",
    "position_ids": "positions",
    "start": "offset",
    "start_index": "offset",
    "num_heads": "heads",
    "n_heads": "heads",
    "n_head": "heads",
    "num_attention_heads": "heads",
    "rotary_pct": "partial_rotary_factor",
    "rope_pct": "partial_rotary_factor",
    "interleaved": "pairing",
    "rotary_interleaved": "pairing",
    "is_neox_style": "pairing",
    "traditional": "pairing",
    "order": "layout",
    "flip": "layout",
    "flip_sin_to_cos": "layout",
    "cos_first": "layout",
    "interleave_sin_cos": "layout",
    "shift": "frequency_shift",
    "freq_shift": "frequency_shift",
    "downscale_freq_shift": "frequency_shift",
    "reverse_coord": "axis_order",
    "inverse": "direction",
    "bias_max": "alibi_bias_max",
    "seq_len_interpolation_factor": "interpolation_factor",
    "relative_attention_num_buckets": "num_buckets",
    "relative_attention_max_distance": "max_distance",
    "bidirectional": "direction",
    "causal": "direction",
    "sliding_window": "window",
    "window_size": "window",
    "convention": "counting",
    "attention_chunk_size": "chunk_size",
    "prefix_len": "prefix",
    "batch_first": "batch_axis",
    "initializer_range": "std",
    "init_std": "std",
    "num_embeddings": "rows",
    "align_corners": "sampling",
    "num_prefix_tokens": "prefix",
    "mode": "method",
    "num_bands": "bands",
    "double": "float64",
    "float": "float32",
    "single": "float32",
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "halves": "sin-cos",
    "neox": "half",
    "gptj": "interleaved",
    # Models whose convention is listed under another's name.
    "t2t": "tensor2tensor",
    "m2m100": "fairseq",
    "nllb": "fairseq",
    "xglm": "fairseq",
    "trocr": "fairseq",
    "pegasus": "marian",
    "roformer": "marian",
    "flaubert": "xlm",
    "distilbert": "xlm",
    "videomae": "xlm",
}


def nearest_names(given: str, known: Sequence[str]) -> list[str]:
    """At most three known names, the likeliest first; none where none is likely meant.

    >>> nearest_names("lenght", ["length", "dim"]), nearest_names("head_dim", ["dim", "rotary_dim"])
    (['length'], ['dim'])
    >>> nearest_names("preset", ["offset", "output"])
    []
    """
    name = given[:LONGEST].lower()
    called = ELSEWHERE.get(name.replace("-", "_"), name)
    alike = ALIKE_SHORT if len(name) <= SHORT else ALIKE
    matcher = SequenceMatcher(b=name)
    scored = []
    for each in known:
        matcher.set_seq1(each.lower())
        if matcher.real_quick_ratio() >= alike and matcher.quick_ratio() >= alike and matcher.ratio() >= alike:
            scored.append((-matcher.ratio(), each))
    first = [called] if called in known else []
    return list(dict.fromkeys([*first, *(each for _, each in sorted(scored))]))[:3]
