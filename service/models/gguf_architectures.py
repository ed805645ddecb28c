"""The architectures of llama.cpp by what they know of positions: half of a GGUF header's answer is in its code alone.

Which channels turn together (`NORMAL` neighbours, `NEOX` halves), who has sections, a table, a bias or nothing; read in
the sources of October 2026 (llama-model.cpp and models/), as llama-cpp-python 0.3.36 carries them.
"""

from collections.abc import Mapping

NORMAL = [
    "llama",
    "deci",
    "llada",
    "llama4",
    "baichuan",
    "internlm2",
    "minicpm",
    "xverse",
    "command-r",
    "cohere2",
    "olmo",
    "arctic",
    "deepseek",
    "deepseek2",
    "plm",
    "chatglm",
    "glm4",
    "granite",
    "granitemoe",
    "granitehybrid",
    "chameleon",
    "bailingmoe",
    "neo-bert",
    "smollm3",
    "arcee",
    "ernie4_5",
    "ernie4_5-moe",
    "mistral3",
    "mistral4",
    "llama-embed",
    "maincoder",
    "glm-dsa",
    "deepseek2-ocr",
    "deepseek32",
    "cohere2moe",
    "bailingmoe3",
    "deepseek4",
    "dots3note",
    "eagle3",
    "granite_swa",
    "graniteswitch",
    "hy_v4",
    "muse-glimmer",
    "nanbeige",
    "pockettts",
]
NEOX = [
    "falcon",
    "falcon-h1",
    "grok",
    "dbrx",
    "jina-bert-v3",
    "modern-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "eurobert",
    "stablelm",
    "bitnet",
    "qwen",
    "qwen2",
    "dream",
    "qwen2moe",
    "qwen3",
    "qwen3moe",
    "llada-moe",
    "rnd1",
    "olmo2",
    "olmoe",
    "phi2",
    "phi3",
    "phimoe",
    "plamo",
    "plamo2",
    "plamo3",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3n",
    "gemma4",
    "gemma-embedding",
    "starcoder2",
    "openelm",
    "gptneox",
    "codeshell",
    "orion",
    "nemotron",
    "exaone",
    "exaone4",
    "exaone-moe",
    "minicpm3",
    "bailingmoe2",
    "dots1",
    "hunyuan-moe",
    "hunyuan-dense",
    "gpt-oss",
    "lfm2",
    "lfm2moe",
    "smallthinker",
    "seed_oss",
    "grovemoe",
    "apertus",
    "minimax-m2",
    "cogvlm",
    "pangu-embedded",
    "afmoe",
    "qwen3next",
    "mimo2",
    "step35",
    "glm4moe",
    "jais2",
    "laguna",
    "mellum",
    "hy_v3",
    "talkie",
    "dflash",
    "gemma4-assistant",
    "hrm_text",
    "maple",
    "minimax-01",
    "minimax-m3",
    "spark2_5",
]
SECTIONS = ("qwen2vl", "paddleocr", "hunyuan_vl")
INTERLEAVED = ("qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "qwen3tts", "qwen4exp")
# Who turns by several axes where the file has sections; for the others `rope.dimension_sections` changes nothing.
SECTIONED = (*SECTIONS, *INTERLEAVED, "glm4", "glm4moe", "bailingmoe3", "dflash")
# Whose frequencies a tensor of the file may divide: one for all lengths, or one for short and one for long contexts.
DIVIDED = (
    "llama",
    "llama4",
    "llama-embed",
    "mistral3",
    "deci",
    "arcee",
    "minicpm",
    "granite",
    "granitemoe",
    "granitehybrid",
    "granite_swa",
    "exaone",
    "exaone4",
    "exaone-moe",
    "apertus",
    "gemma4",
    "gemma4-assistant",
    "step35",
    "eagle3",
    "dflash",
    "nanbeige",
)
FACTORED = ("phi3", "phimoe", "minicpm3")
LEARNED = ["bert", "gpt2", "starcoder"]
# The steepest slope of each is of 8 octaves, but for MPT and Jais, whose header has the number, or no bias.
ALIBI = ("bloom", "mpt", "refact", "jais", "jina-bert-v2")
ALIBI_STATED = ("mpt", "jais")
# Whose layers turn, unless there are as many as here: those of Baichuan 13B have ALiBi.
ALIBI_OF_DEPTH: Mapping[str, int] = {"baichuan": 40}
# Whose queries see what is behind them too, whatever the header says: encoders, and models of text by diffusion.
BOTH_WAYS = ("bert", "jina-bert-v2", "dream", "llada", "llada-moe", "rnd1")
WITHOUT = [
    "mamba",
    "mamba2",
    "jamba",
    "rwkv6",
    "rwkv6qwen2",
    "rwkv7",
    "arwkv7",
    "wavtokenizer-dec",
    "nemotron_h",
    "nemotron_h_moe",
    "kimi-linear",
    "kimi-k3",
    "glm5-next",
]
BUCKETS = ("t5", "t5encoder")
KNOWN = (*NORMAL, *NEOX, *SECTIONS, *INTERLEAVED, *LEARNED, *ALIBI, *WITHOUT, *BUCKETS)
# Names that llama.cpp has for files that its language models cannot be loaded from.
REFUSED: Mapping[str, str] = {
    "clip": "the header of a projector (mmproj), which llama.cpp does not run by itself: give the config.json of its "
    "model, whose tower is answered there",
    "gptj": "a name of llama.cpp that it has no code for: give the config.json of the model, with model_type gptj",
}

# Heads of two parts, of which the one that turns is `rope.dimension_count` wide, and answered alone.
LATENT = (
    "deepseek2",
    "deepseek32",
    "glm-dsa",
    "mistral4",
    "minicpm3",
    "plm",
    "bailingmoe3",
    "dots3note",
    "hy_v4",
)
# Whose scores are scaled anew for YaRN, beside the tables.
RESCALED = ("deepseek2", "mistral4", "deepseek32", "glm-dsa")
# Which architectures read a key at all; one that is not here is read for all of them.
READ_BY: Mapping[str, tuple[str, ...]] = {
    "dimension_sections": SECTIONED,
    "scaling.alpha": ("hunyuan_vl", "hunyuan-dense"),
    "scaling.yarn_log_multiplier": ("deepseek2", "mistral4", "deepseek32", "mistral3"),
    "scaling.yarn_beta_fast": ("grok", "mistral3"),
    "scaling.yarn_beta_slow": ("grok", "mistral3"),
    "scaling.yarn_ext_factor": ("grok",),
    "scaling.yarn_attn_factor": (),
}
# Whose file says by `rope.scaling.finetuned` whether anything turns.
SWITCHED = ("granite", "granitehybrid", "graniteswitch")
# What deserves saying of an architecture as a whole.
NOTES: Mapping[str, str] = {
    "eagle3": "a drafter: it turns its own queries and keys, at the positions of the tokens that it drafts",
    "gemma4-assistant": "a drafter: it turns its queries alone; the keys are those that the target's layers cached",
    "dflash": "a drafter: it turns its queries, its keys and those that it makes of the target's layers",
    "hrm_text": "block_count counts every pass through two stacks of layers: all of them turn alike",
    "nanbeige": "its layers are run num_loops times, and turn alike each time",
    "minimax-01": "its linear layers decay with distance, by a slope a head, within a recurrence: no table has that",
    "minimax-m3": "sparse layers see the blocks of keys that an indexer chooses, itself turned in the same way",
    "qwen4exp": "layers with a compress ratio see the keys that an indexer chooses, itself turned in the same way",
    "pockettts": "the language model of a speech model: its frames stand at the positions of a text's tokens",
    "qwen3tts": "the language model of a speech model: its frames stand at the positions of a text's tokens",
}

DEFAULT_BASE = 10_000.0
