"""How kinds of layers take turns in llama.cpp's code, by architecture; a header may say more, and how is here too."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Base = Literal["own", "stated", "full"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which layers slide: all but every `period`-th, the last of a period or the first (`full_first`); 0 for all.

    `period` None: the header lists the layers (`attention.sliding_window_pattern`), and no file is loaded without.
    `wanted`: there are no sliding layers unless the header names a window. `depth`: nor unless the layers are so many.
    `base` of sliding layers: `own` is `rope.freq_base_swa` or 10000, `stated` that key or the base of full layers,
    `full` the base of full layers whatever the header says. `scaled`: scalings are theirs too. `loud`: where they are
    not, the amplitude still is. `still`: full layers do not turn. `window` is that of the code where the header has
    none, or whatever it has (`fixed`).
    """

    period: int | None
    full_first: bool = False
    wanted: bool = True
    depth: int | None = None
    base: Base = "stated"
    scaled: bool = True
    loud: bool = True
    still: bool = False
    kind: str = "sliding_attention"
    window: int | None = None
    fixed: bool = False
    told: bool = True
    both_ways: bool = False


PATTERNS: Mapping[str, Pattern] = {
    "afmoe": Pattern(4),
    "cohere2": Pattern(4, wanted=False, base="full", still=True),
    "cohere2moe": Pattern(4, full_first=True, wanted=False, base="full", still=True),
    "dflash": Pattern(None, base="full"),
    "dots3note": Pattern(None, wanted=False),
    "exaone-moe": Pattern(4, wanted=False, base="full", still=True, window=128),
    "exaone4": Pattern(4, wanted=False, depth=64, base="full", still=True, window=4096),
    "gemma-embedding": Pattern(6, wanted=False, base="own", scaled=False, both_ways=True),
    "gemma2": Pattern(2, wanted=False, window=4096),
    "gemma3": Pattern(6, base="own", scaled=False),
    "gemma3n": Pattern(5, wanted=False, base="own", scaled=False),
    "gemma4": Pattern(None, wanted=False, base="own", scaled=False),
    "gemma4-assistant": Pattern(None, wanted=False, base="own", scaled=False),
    "gpt-oss": Pattern(2, wanted=False),
    "granite_swa": Pattern(None, wanted=False, base="full"),
    "laguna": Pattern(4, full_first=True, scaled=False, loud=False),
    "lfm2": Pattern(0, base="full", told=False),
    "llama4": Pattern(4, wanted=False, kind="chunked_attention", window=8192, fixed=True),
    "maple": Pattern(None, wanted=False, still=True),
    "mellum": Pattern(4, base="full", scaled=False, loud=False),
    "mimo2": Pattern(None, wanted=False, base="own", scaled=False),
    "modern-bert": Pattern(3, full_first=True, base="own", scaled=False, both_ways=True),
    "muse-glimmer": Pattern(4, wanted=False, scaled=False, still=True),
    "olmo2": Pattern(4, base="full", scaled=False, loud=False),
    "plamo3": Pattern(8, base="own", scaled=False),
    "smallthinker": Pattern(4, full_first=True, window=4096, fixed=True),
    "spark2_5": Pattern(None, wanted=False),
    "step35": Pattern(None, wanted=False, base="own", scaled=False),
}
# DeepSeek V4 as a drafter, which a DFlash file with hyper-connections is: every layer slides, and nothing is scaled.
DRAFTING = Pattern(0, base="full", scaled=False, loud=False, told=False)

# Every n-th layer does not turn, the last of n or the first, whichever slide.
STILL: Mapping[str, tuple[int, bool]] = {
    "afmoe": (4, False),
    "llama4": (4, False),
    "smallthinker": (4, True),
    "smollm3": (4, False),
}
# Whose first layers, those that are no mixture of experts, turn though they see everything.
LEADING = ("cohere2moe",)
# Every n-th layer attends, the others are recurrent, unless the header lists them (`attention.recurrent_layers`).
ATTENDS: Mapping[str, int] = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "qwen4exp": 4, "minimax-01": 8}
# Layers that compress what they see, by how many tokens make one; 0 slides.
COMPRESSED = ("deepseek4",)
COMPRESSING: Mapping[int, str] = {4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
