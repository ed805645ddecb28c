"""Which encoding suits which needs, as data: a candidate's rule for a need gives points or takes some away, or rules it
out, and cites the property of the scheme that decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Modality = Literal["text", "image", "video", "audio", "time-series"]
OUT = None  # instead of points: not a candidate under that need


@dataclass(frozen=True, slots=True)
class Rule:
    """What a need means for a candidate: points, and the property of its scheme that is the reason."""

    points: int | None
    cites: str
    because: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scheme with some parameters, for some modalities. `{…}` in the query
    stands for a number of the request's (`numbers_of`)."""

    family: str
    scheme: str
    name: str
    modalities: tuple[Modality, ...]
    rules: Mapping[str, Rule]
    query: Mapping[str, str]
    only: str = ""  # a need without which it is no candidate
    instead: Mapping[Modality, Mapping[str, str]] = field(default_factory=dict)  # of the query, for a modality
    # What a need means elsewhere than in the first of the modalities.
    elsewhere: Mapping[Modality, Mapping[str, Rule]] = field(default_factory=dict)

    def rules_for(self, modality: Modality) -> Mapping[str, Rule]:
        return {**self.rules, **self.elsewhere.get(modality, {})}

    def query_for(self, modality: Modality) -> Mapping[str, str]:
        return self.instead.get(modality, self.query)


LEARNED, EXTRAPOLATES, MEMORY = "learned parameters", "extrapolates", "memory per head"
DISTANCE, CACHING, IMPLEMENTATION = "distance", "caching", "implementation"
HAS_NONE = Rule(1, LEARNED, "there is nothing to train")
HAS_SOME = Rule(OUT, LEARNED, "it has parameters of its own")
SPEECH = "some codecs and recognisers of speech turn queries and keys (Mimi, Moonshine)"

CANDIDATES: tuple[Candidate, ...] = (
    Candidate(
        "encodings",
        "rope",
        "RoPE with scaling (YaRN)",
        ("text", "audio"),
        {
            "general": Rule(5, DISTANCE, "language models of today turn queries and keys, and extend them so"),
            "simplest": Rule(-2, IMPLEMENTATION, "and the frequencies are scaled by parts"),
            "fit": Rule(2, EXTRAPOLATES, "a little is lost within the trained length"),
            "extrapolation": Rule(
                2, EXTRAPOLATES, "YaRN keeps fast pairs and stretches slow ones, after a short tuning"
            ),
            "beyond training": Rule(
                7, EXTRAPOLATES, "scaling brings the angles of far positions back among trained ones"
            ),
            "distance": Rule(4, DISTANCE, "what attention sees is the difference"),
            "no parameters": HAS_NONE,
            "little memory": Rule(3, MEMORY, "no bias is stored"),
            "caching": Rule(3, CACHING, "a cached key needs no second look"),
        },
        {
            "length": "{shown}",
            "dim": "128",
            "rope_type": "yarn",
            "factor": "{factor}",
            "original_max_position_embeddings": "{trained}",
        },
        only="beyond training",
        elsewhere={"audio": {"general": Rule(3, DISTANCE, SPEECH)}},
    ),
    Candidate(
        "encodings",
        "rope",
        "RoPE",
        ("text", "audio", "time-series"),
        {
            "general": Rule(6, DISTANCE, "language models of today turn queries and keys"),
            "simplest": Rule(1, IMPLEMENTATION, "pairings are easily confused"),
            "fit": Rule(3, DISTANCE, "relative by construction, at no cost in parameters"),
            "extrapolation": Rule(2, EXTRAPOLATES, "far angles were never seen: scale them"),
            "beyond training": Rule(-1, EXTRAPOLATES, "without scaling it fails soon beyond the trained length"),
            "fixed length": Rule(-1, EXTRAPOLATES, "what it has at other lengths is not asked for"),
            "distance": Rule(4, DISTANCE, "what attention sees is the difference"),
            "no parameters": HAS_NONE,
            "little memory": Rule(3, MEMORY, "no bias is stored"),
            "caching": Rule(3, CACHING, "a cached key needs no second look"),
        },
        {"length": "{shown}", "dim": "128"},
        elsewhere={
            "audio": {"general": Rule(3, DISTANCE, SPEECH)},
            "time-series": {"general": Rule(3, DISTANCE, "some large models of series have it (Moirai, Time-MoE)")},
        },
    ),
    Candidate(
        "encodings",
        "sinusoidal",
        "Sinusoidal",
        ("text", "audio", "time-series"),
        {
            "general": Rule(2, DISTANCE, "the first of all, now rarely chosen for large models"),
            "simplest": Rule(6, IMPLEMENTATION, "a few lines, and nothing to train"),
            "fit": Rule(1, DISTANCE, "the model has to find distances itself"),
            "extrapolation": Rule(0, EXTRAPOLATES, "defined everywhere, and little use there"),
            "beyond training": Rule(-3, EXTRAPOLATES, "rows beyond training are strange to the model"),
            "fixed length": Rule(1, IMPLEMENTATION, "one table serves all"),
            "distance": Rule(-1, DISTANCE, "only as far as it is learned"),
            "no parameters": HAS_NONE,
            "little memory": Rule(2, MEMORY, "one table for all heads"),
            "caching": Rule(2, CACHING, "positions are in the embeddings already"),
        },
        {"length": "{shown}", "dim": "512"},
        elsewhere={
            "audio": {"general": Rule(4, IMPLEMENTATION, "Whisper's encoder adds it to its frames")},
            "time-series": {
                "general": Rule(3, IMPLEMENTATION, "Informer and Autoformer add it beside what the calendar says")
            },
        },
    ),
    Candidate(
        "encodings",
        "learned",
        "Learned table",
        ("text", "image", "audio"),
        {
            "general": Rule(1, EXTRAPOLATES, "it ends where its rows end"),
            "simplest": Rule(2, IMPLEMENTATION, "a look-up, but it must be trained"),
            "fit": Rule(5, LEARNED, "every position gets what the data ask for"),
            "extrapolation": Rule(OUT, EXTRAPOLATES, "a position without a row has no encoding"),
            "beyond training": Rule(OUT, EXTRAPOLATES, "a position without a row has no encoding"),
            "fixed length": Rule(5, LEARNED, "every position that comes has a row, and each is trained alike"),
            "distance": Rule(-3, DISTANCE, "distances are not in it"),
            "no parameters": HAS_SOME,
            "little memory": Rule(1, LEARNED, "one table for all heads"),
            "caching": Rule(2, CACHING, "positions are in the embeddings already"),
        },
        {"rows": "{shown}", "dim": "768", "seed": "0"},
        elsewhere={"image": {"general": Rule(2, LEARNED, "ViT, CLIP and DINOv2 learn a row for each patch")}},
    ),
    Candidate(
        "biases",
        "alibi",
        "ALiBi",
        ("text", "audio"),
        {
            "general": Rule(2, DISTANCE, "a strong pull to near keys, which recall from afar pays for"),
            "simplest": Rule(4, IMPLEMENTATION, "one line, but in every attention call"),
            "fit": Rule(1, DISTANCE, "the same fall with distance in all data"),
            "extrapolation": Rule(6, EXTRAPOLATES, "made to be trained short and used long, as it is"),
            "beyond training": Rule(4, EXTRAPOLATES, "longer inputs need nothing new"),
            "distance": Rule(3, DISTANCE, "distance is all that it knows"),
            "no parameters": HAS_NONE,
            "little memory": Rule(-1, MEMORY, "unless the kernel takes slopes, the bias is as large as the scores"),
            "caching": Rule(2, CACHING, "a cached key needs no second look"),
        },
        {"length": "64", "heads": "8"},
    ),
    Candidate(
        "biases",
        "t5",
        "T5's relative bias",
        ("text", "audio"),
        {
            "general": Rule(2, DISTANCE, "good, and slower than turning queries and keys"),
            "simplest": Rule(0, IMPLEMENTATION, "the bounds of buckets are easily off by one"),
            "fit": Rule(3, DISTANCE, "each head learns what distances mean to it"),
            "extrapolation": Rule(3, EXTRAPOLATES, "beyond the last bucket all is one distance"),
            "beyond training": Rule(2, EXTRAPOLATES, "beyond the last bucket all is one distance"),
            "distance": Rule(5, DISTANCE, "distance, in words that are learned"),
            "no parameters": HAS_SOME,
            "little memory": Rule(-3, MEMORY, "the bias is as large as the scores"),
            "caching": Rule(-1, CACHING, "a row of the bias for every step"),
        },
        {"length": "64", "heads": "8", "seed": "0"},
        elsewhere={"audio": {"general": Rule(2, DISTANCE, "WavLM's, with a gate of the content")}},
    ),
    Candidate(
        "biases",
        "shaw",
        "Shaw's relative vectors",
        ("text", "audio"),
        {
            "general": Rule(1, DISTANCE, "seldom used now"),
            "simplest": Rule(-1, IMPLEMENTATION, "a second product in every attention call"),
            "fit": Rule(3, DISTANCE, "vectors for distances, which meet the content"),
            "extrapolation": Rule(2, EXTRAPOLATES, "far distances are one"),
            "beyond training": Rule(1, EXTRAPOLATES, "far distances are one"),
            "distance": Rule(5, DISTANCE, "distance, as a vector"),
            "no parameters": HAS_SOME,
            "little memory": Rule(-4, MEMORY, "vectors for every query and key, unless they are skewed"),
            "caching": Rule(-2, CACHING, "a product with relative vectors for every step"),
        },
        {"length": "64", "left": "16"},
        elsewhere={"audio": {"general": Rule(2, DISTANCE, "w2v-BERT 2.0 and VITS have them")}},
    ),
    Candidate(
        "biases",
        "transformer-xl",
        "Transformer-XL's relative sinusoids",
        ("text", "audio"),
        {
            "general": Rule(1, DISTANCE, "seldom used now for text"),
            "simplest": Rule(-2, IMPLEMENTATION, "two biases and a shift that is easily wrong"),
            "fit": Rule(3, DISTANCE, "content and distance apart"),
            "extrapolation": Rule(3, EXTRAPOLATES, "sinusoids of any distance"),
            "beyond training": Rule(2, EXTRAPOLATES, "sinusoids of any distance"),
            "distance": Rule(5, DISTANCE, "content and distance apart"),
            "no parameters": Rule(OUT, LEARNED, "its projections are learned"),
            "little memory": Rule(-3, MEMORY, "a projected row for each distance and head"),
            "caching": Rule(-1, CACHING, "a product with distances for every step"),
        },
        {"length": "64", "dim": "256"},
        elsewhere={"audio": {"general": Rule(5, DISTANCE, "the choice of Conformers, for speech")}},
    ),
    Candidate(
        "biases",
        "kerple",
        "KERPLE",
        ("text",),
        {
            "general": Rule(1, DISTANCE, "ALiBi with a fall that is learned"),
            "simplest": Rule(1, IMPLEMENTATION, "more than ALiBi"),
            "fit": Rule(2, LEARNED, "the fall is learned"),
            "extrapolation": Rule(5, EXTRAPOLATES, "the logarithm falls ever more slowly"),
            "beyond training": Rule(3, EXTRAPOLATES, "the logarithm falls ever more slowly"),
            "distance": Rule(3, DISTANCE, "distance is all that it knows"),
            "no parameters": HAS_SOME,
            "little memory": Rule(-1, MEMORY, "written out, the bias is as large as the scores"),
            "caching": Rule(1, CACHING, "a row of the bias for every step"),
        },
        {"length": "64", "r1": "1", "r2": "1"},
    ),
    Candidate(
        "biases",
        "fire",
        "FIRE",
        ("text",),
        {
            "general": Rule(1, DISTANCE, "good, and costly"),
            "simplest": Rule(-2, IMPLEMENTATION, "a network within attention"),
            "fit": Rule(3, LEARNED, "any function of the distance"),
            "extrapolation": Rule(5, EXTRAPOLATES, "a longer input is the same interval"),
            "beyond training": Rule(4, EXTRAPOLATES, "a longer input is the same interval"),
            "distance": Rule(3, DISTANCE, "distance as a share of the length"),
            "no parameters": HAS_SOME,
            "little memory": Rule(-3, MEMORY, "a value for every query, key and head"),
            "caching": Rule(-1, CACHING, "all shares change with every token"),
        },
        {"length": "64", "heads": "8", "seed": "0"},
    ),
    Candidate(
        "masks",
        "causal",
        "No encoding: the causal mask alone (NoPE)",
        ("text",),
        {
            "general": Rule(0, EXTRAPOLATES, "for decoders only, mostly in some of the layers"),
            "simplest": Rule(5, LEARNED, "nothing to write, for decoders only"),
            "fit": Rule(-1, EXTRAPOLATES, "a little worse than the others"),
            "extrapolation": Rule(3, EXTRAPOLATES, "better than most, with a temperature"),
            "beyond training": Rule(1, EXTRAPOLATES, "attention spreads thin without a temperature"),
            "distance": Rule(-3, LEARNED, "there is nothing that says how far"),
            "no parameters": HAS_NONE,
            "little memory": Rule(3, LEARNED, "no memory at all"),
            "caching": Rule(2, LEARNED, "keys are as any others"),
        },
        {"length": "64"},
    ),
    Candidate(
        "encodings",
        "rope-axes",
        "RoPE on several axes",
        ("image", "video"),
        {
            "general": Rule(6, DISTANCE, "vision towers and video models of today"),
            "simplest": Rule(0, IMPLEMENTATION, "sections and orders are easily confused"),
            "fit": Rule(3, DISTANCE, "relative by construction"),
            "extrapolation": Rule(4, EXTRAPOLATES, "larger pictures are more of the same"),
            "beyond training": Rule(4, EXTRAPOLATES, "larger pictures are more of the same"),
            "distance": Rule(4, DISTANCE, "along each axis"),
            "no parameters": HAS_NONE,
            "little memory": Rule(3, MEMORY, "no bias is stored"),
            "caching": Rule(3, CACHING, "a cached key needs no second look"),
        },
        {"preset": "qwen2-vl-vision", "grid": "4,6", "dim": "80"},
        instead={"video": {"preset": "wan", "grid": "3,4,6", "dim": "128"}},
    ),
    Candidate(
        "encodings",
        "sinusoidal-2d",
        "Sinusoidal on two axes",
        ("image",),
        {
            "general": Rule(3, IMPLEMENTATION, "the choice of MAE and MoCo v3"),
            "simplest": Rule(6, IMPLEMENTATION, "a few lines, and nothing to train"),
            "fit": Rule(1, DISTANCE, "the model has to find distances itself"),
            "extrapolation": Rule(2, EXTRAPOLATES, "coordinates can be scaled to the trained grid"),
            "beyond training": Rule(2, EXTRAPOLATES, "coordinates can be scaled to the trained grid"),
            "fixed length": Rule(1, IMPLEMENTATION, "one table serves all"),
            "distance": Rule(-1, DISTANCE, "only as far as it is learned"),
            "no parameters": HAS_NONE,
            "little memory": Rule(2, MEMORY, "one table for all heads"),
        },
        {"grid": "14,14", "dim": "64", "preset": "mae"},
    ),
    Candidate(
        "biases",
        "swin-index",
        "Relative bias of windows (Swin, BEiT)",
        ("image", "video"),
        {
            "general": Rule(2, DISTANCE, "where attention is within windows"),
            "simplest": Rule(-1, IMPLEMENTATION, "the index is easily transposed"),
            "fit": Rule(4, DISTANCE, "each head learns what shifts mean to it"),
            "extrapolation": Rule(-3, EXTRAPOLATES, "tables must be resized"),
            "beyond training": Rule(-2, EXTRAPOLATES, "tables must be resized"),
            "fixed length": Rule(2, EXTRAPOLATES, "windows of one size need no resizing"),
            "distance": Rule(5, DISTANCE, "rows and columns apart"),
            "no parameters": HAS_SOME,
            "little memory": Rule(-2, MEMORY, "a table for each head and layer"),
        },
        {"window": "7,7"},
        instead={"video": {"window": "2,7,7"}},
    ),
    Candidate(
        "encodings",
        "detr",
        "Sinusoidal, of padded images (DETR)",
        ("image",),
        {
            "general": Rule(1, EXTRAPOLATES, "detectors, whose images differ in size"),
            "simplest": Rule(1, IMPLEMENTATION, "the mask must come along"),
            "extrapolation": Rule(3, EXTRAPOLATES, "any image lies between 0 and scale"),
            "beyond training": Rule(3, EXTRAPOLATES, "any image lies between 0 and scale"),
            "no parameters": HAS_NONE,
            "little memory": Rule(1, MEMORY, "one table an image"),
        },
        {"grid": "20,30", "dim": "64", "preset": "detr"},
    ),
    Candidate(
        "encodings",
        "sinusoidal-3d",
        "Sinusoidal on three axes",
        ("video",),
        {
            "general": Rule(3, IMPLEMENTATION, "the choice of diffusers' first video models"),
            "simplest": Rule(6, IMPLEMENTATION, "a few lines, and nothing to train"),
            "fit": Rule(1, DISTANCE, "the model has to find distances itself"),
            "extrapolation": Rule(2, EXTRAPOLATES, "coordinates can be scaled to the trained grid"),
            "beyond training": Rule(2, EXTRAPOLATES, "coordinates can be scaled to the trained grid"),
            "no parameters": HAS_NONE,
            "little memory": Rule(2, MEMORY, "one table for all heads"),
        },
        {"grid": "4,6,8", "dim": "96"},
    ),
    Candidate(
        "encodings",
        "calendar",
        "Calendar features",
        ("time-series",),
        {
            "general": Rule(7, DISTANCE, "hours, weekdays and seasons are what series follow"),
            "simplest": Rule(5, IMPLEMENTATION, "read off the timestamps"),
            "fit": Rule(4, DISTANCE, "what repeats is said outright"),
            "extrapolation": Rule(6, EXTRAPOLATES, "a later date is a date"),
            "beyond training": Rule(5, EXTRAPOLATES, "a later date is a date"),
            "no parameters": HAS_NONE,
        },
        {"timestamps": "2024-02-29T12:00:00Z,2024-03-01T12:00:00Z", "frequency": "h"},
    ),
    Candidate(
        "encodings",
        "cyclic",
        "Sine and cosine of a period",
        ("time-series",),
        {
            "general": Rule(4, DISTANCE, "for a period that is known"),
            "simplest": Rule(6, IMPLEMENTATION, "one line"),
            "fit": Rule(2, DISTANCE, "one period only"),
            "extrapolation": Rule(5, EXTRAPOLATES, "a period has no end"),
            "beyond training": Rule(4, EXTRAPOLATES, "a period has no end"),
            "no parameters": HAS_NONE,
        },
        {"length": "24", "period": "24"},
    ),
    Candidate(
        "encodings",
        "time2vec",
        "Time2Vec",
        ("time-series",),
        {
            "general": Rule(3, DISTANCE, "periods are found in training"),
            "simplest": Rule(0, IMPLEMENTATION, "it must be trained"),
            "fit": Rule(5, LEARNED, "periods are found in training"),
            "extrapolation": Rule(-2, EXTRAPOLATES, "the line leaves what it was trained on"),
            "beyond training": Rule(-2, EXTRAPOLATES, "the line leaves what it was trained on"),
            "no parameters": HAS_SOME,
        },
        {"positions": "0,0.5,7", "dim": "8", "seed": "0"},
    ),
    Candidate(
        "encodings",
        "mtan",
        "Fixed time embedding (mTAN)",
        ("time-series",),
        {
            "general": Rule(2, DISTANCE, "for irregular times"),
            "simplest": Rule(3, IMPLEMENTATION, "a few lines"),
            "fit": Rule(2, DISTANCE, "near times are told apart"),
            "extrapolation": Rule(1, EXTRAPOLATES, "defined at any time"),
            "beyond training": Rule(0, EXTRAPOLATES, "defined at any time"),
            "no parameters": HAS_NONE,
        },
        {"positions": "0,0.25,1", "dim": "8"},
    ),
    Candidate(
        "biases",
        "temporal-distance",
        "Sinusoids of time differences",
        ("time-series",),
        {
            "general": Rule(1, DISTANCE, "where the gap between events decides"),
            "simplest": Rule(-1, IMPLEMENTATION, "a row for every two times"),
            "fit": Rule(2, DISTANCE, "gaps are said outright"),
            "extrapolation": Rule(2, EXTRAPOLATES, "any gap"),
            "beyond training": Rule(1, EXTRAPOLATES, "any gap"),
            "distance": Rule(8, DISTANCE, "gaps between real-valued times"),
            "no parameters": HAS_NONE,
        },
        {"positions": "0,0.5,7", "dim": "8"},
    ),
)
