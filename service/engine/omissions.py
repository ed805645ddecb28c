"""What the service leaves out, and why: schemes of the literature and of libraries that no scheme here answers.

Whoever looks for one of them in vain finds it in `GET /v1/schemes` and in the README, with the reason and, where there
is one, the way to get the same numbers from what there is.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Omission:
    """One scheme, variant or rule that is left out: the topic it belongs to, and the reason."""

    name: str
    topic: str
    reason: str


RELATIVE = (
    Omission(
        "AlphaFold's and ESMFold's bins",
        "relative positions",
        "biases/shaw answers index - 1 of ESMFold's table (left and right = position_bins); its row 0 is for "
        "masked pairs, and residue numbers with gaps are the caller's to subtract",
    ),
    Omission(
        "CPMAnt's segment buckets",
        "relative positions",
        "within a segment they are biases/t5-buckets; across segments the row is num_buckets + query segment * "
        "segments + key segment, which needs no table",
    ),
    Omission(
        "CoPE",
        "relative positions",
        "its positions are sums of gates that the queries and keys themselves open, so they belong to the "
        "attention, not to a table",
    ),
    Omission(
        "DynamicPositionBias and other networks of the distance (x-transformers, T5 MLP)",
        "relative positions",
        "networks of any depth, activation and normalisation; the one of FIRE is answered by biases/fire",
    ),
    Omission(
        "Forgetting Transformer and other data-dependent decays",
        "relative positions",
        "their biases are running sums of gates computed from the tokens",
    ),
    Omission(
        "Funnel's relative attention",
        "relative positions",
        "its rows follow the pooling of each block, a matter of the model's layers; at stride 1 they are those of "
        "biases/transformer-xl",
    ),
    Omission(
        "Inkling's distance profiles",
        "relative positions",
        "a learned number for every distance: the table is the model's, and its index is the distance",
    ),
    Omission(
        "LongT5's blocks in one array",
        "relative positions",
        "a block is biases/t5-buckets with queries=r, keys=3r, offset=r, the same for all blocks; global keys of "
        "a block are one request with its number as offset",
    ),
    Omission(
        "NeMo's KERPLE once its exponent inside the logarithm is trained",
        "relative positions",
        "-b ln(1 + a d^p) for p other than 1; as initialised it is biases/kerple with ALiBi's slopes as r1",
    ),
    Omission(
        "PoPE, polar embeddings (x-transformers)",
        "relative positions",
        "magnitudes of queries and keys become softplus of themselves, with a learned bias a head: an attention, "
        "not an encoding",
    ),
    Omission(
        "Swin v2's network",
        "relative positions",
        "its two layers are the model's, 512 wide; biases/swin-v2-coordinates answers with what goes in, 16 "
        "sigmoid(.) of what comes out is the table",
    ),
    Omission(
        "timm's geometric resizing of window bias tables",
        "relative positions",
        "it spaces the old rows geometrically and interpolates with a cubic of SciPy's; plainly, and as BEiT in "
        "transformers, the (2H - 1, 2W - 1) grid is resized by learned/resample",
    ),
    Omission(
        "transformers' DeBERTa v2 where queries and keys differ in number",
        "relative positions",
        "its helper is then called with buckets and maximum exchanged; biases/deberta-buckets gives what the "
        "paper says",
    ),
    Omission(
        "UDOP's boxes",
        "relative positions",
        "its buckets are of float32 differences of box centres, times 100 and cut to whole numbers; the first "
        "distances that biases/t5-buckets states (max_distance=100) are their bounds",
    ),
    Omission(
        "WavLM's gates",
        "relative positions",
        "they are computed from the hidden states; the buckets they scale are biases/t5-buckets",
    ),
    Omission(
        "ALiBi of JAIS and of Baichuan-13B",
        "relative positions",
        "their code comes with their checkpoints and was not compared; their slopes are the paper's, so "
        "biases/alibi with form=key-only or form=last-key has them, and JAIS's alibi_scaling is "
        "interpolation_factor",
    ),
    Omission(
        "Megatron's and NeMo's bidirectional ALiBi",
        "relative positions",
        "not compared with their code; -|i - j| times the slopes is biases/alibi with form=symmetric, divided by "
        "interpolation_factor",
    ),
    Omission(
        "ALiBi with slopes of its own for what lies ahead, or learned",
        "relative positions",
        "encoders differ in it: half of the heads for each direction, or learned offsets; biases/alibi with "
        "form=symmetric has one slope for both",
    ),
    Omission(
        "LayoutLM's attention in CogView's way",
        "relative positions",
        "softmax of alpha (s / alpha - max(s / alpha)), alpha 32, is softmax of s itself: a matter of float16, not "
        "of positions",
    ),
    Omission(
        "ProphetNet's predicting stream",
        "relative positions",
        "its buckets are those of biases/t5-buckets with direction=causal: with offset=1 for its left half of the "
        "keys, with offset=0 for the right",
    ),
    Omission(
        "timm's resize_rel_pos_bias_table_simple",
        "relative positions",
        "not compared with its code; it is bicubic on the (2H - 1, 2W - 1) grid, the three rows of a class token "
        "kept: learned/resample with method=bicubic",
    ),
)
LEARNED = (
    Omission(
        "Convolutional positional embeddings (wav2vec 2.0, HuBERT, WavLM, Data2Vec audio)",
        "learned tables",
        "a grouped convolution over the hidden states, which has no table of positions",
    ),
    Omission(
        "DistilBERT's resize to more rows",
        "learned tables",
        "its new rows are random numbers of PyTorch's generator",
    ),
    Omission(
        "Mllama's gated tile tables",
        "learned tables",
        "tanh(gate) mixes a table for tiles with one for patches: two rows of the model's own, and one multiplication",
    ),
    Omission(
        "The random numbers of a library",
        "learned tables",
        "no generator but its own gives them; distributions are matched, from a generator whose rows stand alone",
    ),
    Omission(
        "big_vision's own initialisation",
        "learned tables",
        "JAX draws other numbers; their distribution is that of encodings/learned with preset=siglip",
    ),
    Omission(
        "fairseq's LearnedPositionalEmbedding",
        "learned tables",
        "not compared with its code; encodings/learned with spread=inverse-sqrt-dim and offset_rule=roberta has "
        "its distribution, its rows and the zeros of its padding row",
    ),
    Omission(
        "keras-hub's PositionEmbedding",
        "learned tables",
        "not compared with its code; encodings/learned with distribution=uniform and spread=glorot",
    ),
    Omission(
        "Tables of zeros (BEiT, Swin, MAE, Kimi-K2.5)",
        "learned tables",
        "before training there is nothing in them to answer with; MAE writes encodings/sinusoidal-2d with "
        "preset=mae over its own",
    ),
    Omission(
        "timm's class token",
        "learned tables",
        "one row, encodings/learned with rows=1 and std=0.000001; the other rows are preset=vit",
    ),
    Omission(
        "Nemotron's and StarCoder2's initializer_range",
        "learned tables",
        "these models rotate and have no table of positions; encodings/learned with std=0.0134 or std=0.018042 is "
        "what it would be",
    ),
    Omission(
        "LayoutLM's positions of boxes",
        "learned tables",
        "sums of rows of the model's tables: one request to learned/lookup for each of x0, y0, x1 and y1 (and the "
        "width and height), the coordinates as positions",
    ),
    Omission(
        "Fractions of positions (Idefics2, Idefics3, SmolVLM, MiniCPM-V)",
        "learned tables",
        "patch i of m looks up cell floor(i n / m) of the n along that axis, but where float32 rounds i / m below "
        "its bound; learned/lookup takes row n + column as positions",
    ),
    Omission(
        "RADIO's resizing",
        "learned tables",
        "learned/resample with method=bilinear to a square of the longer side, of which the first rows and columns "
        "are kept",
    ),
    Omission(
        "Orders by merge blocks (Qwen3-VL, Cosmos 3 Edge)",
        "learned tables",
        "a permutation of the patches; learned/resample answers row after row: reshape to (rows / m, m, columns / "
        "m, m) and exchange the middle axes",
    ),
    Omission(
        "SigLIP 2's rows for padding",
        "learned tables",
        "they are copies of the first row of the image's own table, which learned/resample answers with",
    ),
    Omission(
        "Kimi-K2.5's frames",
        "learned tables",
        "frame t > 0 adds encodings/sinusoidal with preset=marian at position t - 1, frame 0 nothing",
    ),
    Omission(
        "PVT's resizing in transformers",
        "learned tables",
        "it gives its table the new height and width before it resizes it to them, so another number of patches "
        "fails; as meant, it is learned/resample with preset=step3p7",
    ),
    Omission(
        "Swin v2's and Donut's absolute tables in transformers",
        "learned tables",
        "they have a row for a class token that these models lack, and fail when added to the patches; Swin's are "
        "learned/resample with preset=siglip",
    ),
    Omission(
        "ViViT's resizing in transformers",
        "learned tables",
        "it takes the patches of all frames for one square grid and fits one frame, so the sum fails; as it goes, "
        "it is learned/resample with preset=vit",
    ),
)
TIME = (
    Omission(
        "GluonTS's aggregate lags and holiday features",
        "time",
        "the former read the caller's series at another frequency, the latter need tables of holidays that change "
        "from year to year",
    ),
    Omission(
        "Informer's TemporalEmbedding as one sum",
        "time",
        "it is the sum of encodings/sinusoidal at each column of encodings/calendar with preset=informer-marks "
        "(embed_type=fixed), or of learned rows",
    ),
    Omission(
        "Informer's TimeFeatureEmbedding",
        "time",
        "a learned linear map of the features that encodings/calendar answers with",
    ),
    Omission(
        "MusicFlamingo's rotation by time",
        "time",
        "angles that are products of a position, a frequency and a timestamp t: either half of its channels is "
        "encodings/rope with pairing=interleaved at the positions -2 pi t w / L, w the number of the window, or "
        "-4 pi^2 t n / L, n the frame, L max_position_embeddings",
    ),
    Omission(
        "Names of time zones",
        "time",
        "what they mean depends on tables that differ between machines and years: state Z or an offset",
    ),
    Omission(
        "SAITS",
        "time",
        "its table of positions is encodings/sinusoidal with preset=xlm; not compared with its code",
    ),
    Omission(
        "Temporal Fusion Transformer",
        "time",
        "it has no positional encoding: a recurrent layer has the steps in order",
    ),
    Omission(
        "TimesFM's shift to the first step that is no padding",
        "time",
        "encodings/sinusoidal with preset=timesfm at the positions (i - first) modulo length, in the body",
    ),
    Omission(
        "GluonTS's get_seasonality by itself",
        "time",
        "a number of the frequency alone: encodings/calendar states it as seasonality beside its table",
    ),
)
MASKS = (
    Omission(
        "BigBird's random blocks, Reformer's buckets",
        "masks and temperature",
        "drawn by the library's generator, or from the vectors themselves",
    ),
    Omission(
        "Block diffusion's training mask over noisy and clean halves",
        "masks and temperature",
        "three masks of masks/block joined by masks/combined; the layout of the halves is the trainer's",
    ),
    Omission(
        "Dilated windows (Longformer, NAT)",
        "masks and temperature",
        "every dilation is a window of the keys of one residue; nothing here skips keys",
    ),
    Omission(
        "Longformer's global tokens",
        "masks and temperature",
        "masks/sliding joined by OR (masks/combined) with rows and columns of ones; which tokens are global is "
        "the caller's",
    ),
    Omission(
        "NoPE layer rules (no_rope_layers, layer_types)",
        "masks and temperature",
        "they choose layers and have no numbers: such a layer has no encoding but its mask",
    ),
    Omission(
        "Scales that do not depend on positions (query_pre_attn_scalar, attention_multiplier)",
        "masks and temperature",
        "one number of a config",
    ),
    Omission(
        "vLLM's condition on Llama 4's temperature",
        "masks and temperature",
        "it leaves the factor out for max_model_len up to 32768: do not ask for encodings/temperature then",
    ),
    Omission(
        "keras-hub's compute_causal_mask",
        "masks and temperature",
        "not compared with its code; masks/causal with queries, keys and offset = cache_index, the same for the "
        "whole batch",
    ),
    Omission(
        "Norms of queries and keys (Llama 4's use_qk_norm, attn_qk_norm_scale of x-transformers)",
        "masks and temperature",
        "they are taken of the vectors themselves, the same at every position",
    ),
    Omission(
        "T5's bias and mask in one sum",
        "masks and temperature",
        "apply/mask adds a mask to what biases/t5 answers with, as to any scores",
    ),
    Omission(
        "Models without positional encodings (Jamba, Nemotron-H, Mamba; GraniteMoeHybrid by default)",
        "masks and temperature",
        "they have none; their attention layers have a causal mask: masks/causal",
    ),
    Omission(
        "Which layers rotate (SmolLM3, Cohere 2, EXAONE 4, AFMoE, Zamba 2's use_mem_rope)",
        "masks and temperature",
        "a rule of the config that chooses layers and has no numbers, as no_rope_layers",
    ),
)

AXES = (
    Omission(
        "DINOv3's shifts, jitters and rescaled coordinates",
        "several axes",
        "training draws them at random; evaluation has the coordinates of encodings/rope-axes with preset=dinov3",
    ),
    Omission(
        "Timescales of tensor2tensor's grids, other than 1 and 10000",
        "several axes",
        "encodings/sinusoidal-2d and -3d with preset=tensor2tensor, base = max_timescale / min_timescale and "
        "interpolation_scale = 1 / min_timescale",
    ),
    Omission(
        "Mochi's grid of positions",
        "several axes",
        "frames are counted, while rows and columns are bin centres that scale with the area: encodings/rope-mixed "
        "takes them as positions",
    ),
    Omission(
        "xPos on several axes",
        "several axes",
        "no library has it: those with xPos (torchscale, x-transformers, rotary-embedding-torch) have one axis of "
        "positions where they have it; encodings/rope and apply/rope answer it",
    ),
    Omission(
        "Qwen2.5-VL's window order",
        "several axes",
        "a permutation of patches for windowed attention; encodings/rope-axes answers in the order before it",
    ),
)

SCALING = (
    Omission(
        "transformers' dynamic NTK after a longer call",
        "scaling",
        "it keeps the larger base until a call is shorter than the trained length; no answer here depends on an "
        "earlier one: give seq_len of the longer call",
    ),
    Omission(
        "Qwen-1's use_dynamic_ntk",
        "scaling",
        "encodings/rope with rope_type=ntk_alpha and alpha = max(2^ceil(log2(n / L) + 1) - 1, 1), n the length "
        "of the call",
    ),
    Omission(
        "YaRN's ramp under M-RoPE in vLLM",
        "scaling",
        "it takes the length of its table, four times the trained one, for the trained length: "
        "original_max_position_embeddings times four beside the factor, with preset=vllm, has its numbers",
    ),
    Omission(
        "A list of linear factors in one cache (vLLM, for LoRA)",
        "scaling",
        "one request for each factor",
    ),
    Omission(
        "Dual chunk attention and FoPE (vLLM), Self-Extend and ReRoPE",
        "scaling",
        "they change positions or frequencies within attention itself: encodings/rope takes your positions and "
        "frequencies",
    ),
    Omission(
        "llama.cpp's arithmetic for ntk, dynamic, proportional and ntk_by_parts",
        "scaling",
        "llama.cpp has none of them but as rope_freqs: rope_type=divisors with the divisors of output=divisors",
    ),
    Omission(
        "DeepSeek's softmax factor applied",
        "scaling",
        "it is stated as softmax_factor beside the tables, which it is no part of",
    ),
)

ROTATION = (
    Omission(
        "An odd partial width (transformers: int(head_dim * partial_rotary_factor))",
        "rotation",
        "transformers turns one channel more, by base^(-2k/d) of the odd d: rotary_dim = d + 1 with those as "
        "rope_type=frequencies. Its YaRN fails there; vLLM, MLX, keras-hub and rotary-embedding-torch do at any odd "
        "width",
    ),
)

OMISSIONS: tuple[Omission, ...] = (*RELATIVE, *LEARNED, *TIME, *MASKS, *AXES, *SCALING, *ROTATION)
