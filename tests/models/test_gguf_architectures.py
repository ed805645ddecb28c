"""Every architecture that llama.cpp names has a plan, or a refusal that says why; `llama_cpp.json` has the names, how
each turns and in which file, as read there."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import Use, resolve
from service.models.gguf_architectures import INTERLEAVED, KNOWN, REFUSED, SECTIONS
from tests.models.plans import values

TABLE = json.loads((Path(__file__).parent / "llama_cpp.json").read_text())["architectures"]
PATTERN = "attention.sliding_window_pattern"
# What every file has, and lists that some cannot be loaded without.
SIZES: dict[str, Any] = {
    "block_count": 8,
    "context_length": 512,
    "embedding_length": 64,
    "attention.head_count": 4,
    "attention.max_alibi_bias": 8.0,
    "attention.sliding_window": 32,
    PATTERN: [True, True, True, False] * 2,
    "attention.compress_ratios": [0, 4, 128, 0, 4, 128, 0, 4],
    "attention.compress_rope_freq_base": 160000.0,
}
YARN: dict[str, Any] = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 8.0,
    "rope.scaling.original_context_length": 64,
}


def header(name: str, **keys: Any) -> dict[str, Any]:
    axes = {"rope.dimension_sections": [2, 3, 3, 0]} if name in (*SECTIONS, *INTERLEAVED) else {}
    own = {f"{name}.{key}": value for key, value in {**SIZES, **axes, **keys}.items() if value is not None}
    return {"general.architecture": name, **own}


def uses(name: str, **keys: Any) -> list[Use]:
    return list(resolve(header(name, **keys)).uses)


def turning(name: str, **keys: Any) -> dict[str | None, tuple[tuple[int, ...] | None, float]]:
    """Layers and base of each kind that turns."""
    found = [use for use in uses(name, **keys) if use.encoding == "rope"]
    return {use.layer_type: (use.layers, values(use)["base"]) for use in found}


def still(name: str, **keys: Any) -> dict[str | None, tuple[int, ...] | None]:
    """Layers of each kind that does not."""
    return {use.layer_type: use.layers for use in uses(name, **keys) if use.encoding == "none"}


def test_how_many_have_a_plan() -> None:
    plans: list[str] = []
    refusals: list[str] = []
    unknown: list[str] = []
    for name in TABLE:
        try:
            plans += [name] if resolve(header(name)).uses else []
        except Refusal as refused:
            (fault,) = refused.faults
            (refusals if fault.code == "unsupported" else unknown).append(name)
    print(f"\nof {len(TABLE)} architectures of llama.cpp {len(plans)} have a plan, {len(refusals)} are refused")
    print(f"with the reason ({', '.join(refusals)}), {len(unknown)} are unknown")
    assert (len(plans), refusals, unknown) == (151, ["clip", "gptj"], [])
    assert set(KNOWN) | set(REFUSED) == set(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_pairs_as_llama_cpp_has_them(name: str) -> None:
    """`norm` turns neighbours, `neox` halves, and so do sections; BERT and StarCoder, named there too, never ask."""
    mode, _ = TABLE[name]
    if name in REFUSED:
        return
    expected: set[str] = {"interleaved"} if mode.startswith("norm") else {"half"}
    if mode == "none" or name in ("bert", "starcoder"):
        expected = set()
    if name == "dflash":
        expected = {"half"}  # norm only as a drafter of DeepSeek V4
    assert {values(use)["pairing"] for use in uses(name) if use.encoding == "rope"} == expected
    if "or mrope" in mode or mode in ("mrope", "imrope"):
        sections = {"rope.dimension_sections": [2, 3, 3, 0], "rope.dimension_count": 16, "attention.key_length": 16}
        (found, *_) = [use for use in uses(name, **sections) if use.encoding == "rope"]
        assert values(found)["pairing"] == "half"
        assert found.facts["section_rule"] == ("interleaved-ggml" if mode == "imrope" else "chunked")


ALL = tuple(range(8))
SLID, FULL = (0, 1, 2, 4, 5, 6), (3, 7)
FIRST = ((1, 2, 3, 5, 6, 7), (0, 4))
BASES = {"rope.freq_base": 5e5}
OWN = {"rope.freq_base": 5e5, "rope.freq_base_swa": 7e3}


@pytest.mark.parametrize(
    ("name", "sliding", "full", "own", "without"),
    [
        # models/afmoe.cpp, cohere2.cpp, ...: load_swa_pattern(period, dense_first), rope_freq_base_train_swa and which
        # base the graph passes. `own` is that of sliding layers beside OWN, `without` that beside BASES alone.
        ("gemma2", (0, 2, 4, 6), (1, 3, 5, 7), 7e3, 5e5),
        ("gemma3", (0, 1, 2, 3, 4, 6, 7), (5,), 7e3, 1e4),
        ("gemma3n", (0, 1, 2, 3, 5, 6, 7), (4,), 7e3, 1e4),
        ("gemma4", SLID, FULL, 7e3, 1e4),
        ("gemma4-assistant", SLID, FULL, 7e3, 1e4),
        ("gpt-oss", (0, 2, 4, 6), (1, 3, 5, 7), 7e3, 5e5),
        ("granite_swa", SLID, FULL, 5e5, 5e5),
        ("laguna", *FIRST, 7e3, 5e5),
        ("mellum", SLID, FULL, 5e5, 5e5),
        ("mimo2", SLID, FULL, 7e3, 1e4),
        ("modern-bert", (1, 2, 4, 5, 7), (0, 3, 6), 7e3, 1e4),
        ("olmo2", SLID, FULL, 5e5, 5e5),
        ("plamo3", (0, 1, 2, 3, 4, 5, 6), (7,), 7e3, 1e4),
        ("spark2_5", SLID, FULL, 7e3, 5e5),
        ("step35", SLID, FULL, 7e3, 1e4),
        ("dots3note", SLID, FULL, 7e3, 5e5),
        ("dflash", SLID, FULL, 5e5, 5e5),
    ],
)
def test_kinds_that_slide_in_turn(
    name: str, sliding: tuple[int, ...], full: tuple[int, ...], own: float, without: float
) -> None:
    listed = SIZES[PATTERN] if name in LISTED else None
    for keys, base in ((OWN, own), (BASES, without)):
        found = turning(name, **keys, **{PATTERN: listed})
        assert found == {"sliding_attention": (sliding, base), "full_attention": (full, 5e5)}


# Whose loader asks for the list: it throws without.
LISTED = (
    *("dflash", "dots3note", "gemma4", "gemma4-assistant", "granite_swa", "maple", "mimo2", "spark2_5", "step35"),
)


@pytest.mark.parametrize("name", LISTED)
def test_a_list_that_llama_cpp_asks_for(name: str) -> None:
    for given, code in ((None, "missing"), (4, "type")):
        with pytest.raises(Refusal, match="reads there, layer by layer") as refused:
            uses(name, **{PATTERN: given})
        assert (refused.value.faults[0].code, refused.value.faults[0].parameter) == (code, f"/{name}.{PATTERN}")


@pytest.mark.parametrize("name", [*LISTED[1:], "gpt-oss", "gemma3n", "gemma-embedding", "cohere2", "muse-glimmer"])
def test_a_window_that_llama_cpp_asks_for(name: str) -> None:
    with pytest.raises(Refusal, match="loads no file of this kind without it") as refused:
        uses(name, **{"attention.sliding_window": None})
    assert refused.value.faults[0].parameter == f"/{name}.attention.sliding_window"


@pytest.mark.parametrize("name", ["afmoe", "laguna", "gemma3", "mellum", "plamo3", "olmo2", "modern-bert", "dflash"])
def test_nothing_slides_without_a_window(name: str) -> None:
    """`n_swa > 0` or LLAMA_SWA_TYPE_NONE: all see everything, by one base."""
    for size in (None, 0):
        keys = {**OWN, "attention.sliding_window": size}
        (base,) = {base for _, base in turning(name, **keys).values()}
        assert base == 5e5
        assert {use.window for use in uses(name, **keys)} == {None}


@pytest.mark.parametrize(
    ("name", "keys", "turned", "unturned"),
    [
        # models/muse-glimmer.cpp: "RoPE runs on the SWA layers, NoPE on full ones".
        ("muse-glimmer", {PATTERN: None}, {"sliding_attention": SLID}, {"full_attention": FULL}),
        # models/maple.cpp: `if (hparams.is_swa(il))` around both.
        ("maple", {}, {"sliding_attention": SLID}, {"full_attention": FULL}),
        # models/exaone-moe.cpp: is_local_layer.
        ("exaone-moe", {PATTERN: None}, {"sliding_attention": SLID}, {"full_attention": FULL}),
        # models/afmoe.cpp: (il + 1) % 4, whichever slide, and where none does.
        ("afmoe", {PATTERN: [True] * 8}, {"sliding_attention": SLID}, {"sliding_attention": FULL}),
        ("afmoe", {"attention.sliding_window": None}, {None: SLID}, {None: FULL}),
        # models/smallthinker.cpp: il % 4, and all without a window.
        ("smallthinker", {PATTERN: None}, {"sliding_attention": FIRST[0]}, {"full_attention": FIRST[1]}),
        ("smallthinker", {"attention.sliding_window": 0}, {None: ALL}, {}),
        # models/llama4.cpp: as afmoe; of a window of 0 the step is the number of layers, and the last does not turn.
        ("llama4", {PATTERN: None}, {"chunked_attention": SLID}, {"full_attention": FULL}),
        ("llama4", {"attention.sliding_window": 0}, {None: ALL[:7]}, {None: (7,)}),
        # models/granite-swa.cpp: attention.rope_pattern, a list by layer.
        (
            "granite_swa",
            {"attention.rope_pattern": [True] * 7 + [False]},
            {"sliding_attention": SLID, "full_attention": (3,)},
            {"full_attention": (7,)},
        ),
        # models/granite.cpp, granite-hybrid.cpp, granite-switch.cpp: rope.scaling.finetuned is "a switch for rope".
        ("granite", {"rope.scaling.finetuned": False}, {}, {None: ALL}),
        ("granitehybrid", {"rope.scaling.finetuned": False}, {}, {None: ALL}),
        ("graniteswitch", {"rope.scaling.finetuned": False}, {}, {None: ALL}),
        ("graniteswitch", {"rope.scaling.finetuned": True}, {None: ALL}, {}),
        ("granitemoe", {"rope.scaling.finetuned": False}, {None: ALL}, {}),
        ("llama", {"rope.scaling.finetuned": False}, {None: ALL}, {}),
    ],
)
def test_layers_without_rotation(
    name: str, keys: dict[str, Any], turned: dict[str | None, Any], unturned: dict[str | None, Any]
) -> None:
    assert {label: layers for label, (layers, _) in turning(name, **keys).items()} == turned
    assert still(name, **keys) == unturned


@pytest.mark.parametrize("name", ["minimax-01", "qwen4exp", "qwen35", "qwen35moe", "qwen3next"])
def test_recurrent_layers(name: str) -> None:
    """models/minimax-01.cpp and kin: attention.recurrent_layers, else full_attention_interval, 8 or 4."""
    every = 8 if name == "minimax-01" else 4
    assert turning(name) == {"full_attention": (tuple(range(every - 1, 8, every)), 1e4)}
    listed = {"attention.recurrent_layers": [True, False] * 4}
    assert turning(name, **listed) == {"full_attention": ((1, 3, 5, 7), 1e4)}
    assert still(name, **listed) == {"linear_attention": (0, 2, 4, 6)}
    assert turning(name, full_attention_interval=2) == {"full_attention": ((1, 3, 5, 7), 1e4)}


@pytest.mark.parametrize("name", ["kimi-k3", "glm5-next", "kimi-linear"])
def test_attention_without_rotation(name: str) -> None:
    """LLAMA_ROPE_TYPE_NONE; models/kimi-k3.cpp: "no RoPE: mla_use_nope is asserted at conversion time"."""
    (use,) = uses(name)
    assert (use.encoding, use.notes) == ("none", ("no positional encoding",))


@pytest.mark.parametrize(
    "name",
    ["bailingmoe3", "deepseek2", "deepseek32", "dots3note", "glm-dsa", "hy_v4", "minicpm3", "mistral4", "plm"],
)
def test_the_part_of_a_head_that_turns(name: str) -> None:
    """Heads of two parts: n_embd_head_qk_rope = n_rot, which rope.dimension_count says."""
    found = uses(name, **{"rope.dimension_count": 8, "attention.key_length": 40})
    assert {(values(use)["dim"], use.facts["rotary_dim"]) for use in found} == {(8, 8)}


def test_layers_of_bailing_3_that_recur() -> None:
    """models/bailingmoe3.cpp: is_recr where n_head_kv is 0."""
    heads = {"attention.head_count_kv": [0, 0, 0, 1] * 2}
    assert turning("bailingmoe3", **heads) == {"full_attention": (FULL, 1e4)}
    assert still("bailingmoe3", **heads) == {"linear_attention": SLID}


def test_deepseek_4() -> None:
    """models/deepseek4.cpp: build_attention_impl, which has base and scaling by the layer's ratio, turns the last
    channels, and has no amplitude (dsv4_rope_attn_factor)."""
    keys = {**YARN, "rope.freq_base": 1e4, "rope.dimension_count": 8, "attention.key_length": 16}
    assert turning("deepseek4", **keys) == {
        "sliding_attention": ((0, 3, 6), 1e4),
        "compressed_sparse_attention": ((1, 4, 7), 160000.0),
        "heavily_compressed_attention": ((2, 5), 160000.0),
    }
    sliding, sparse, heavy = uses("deepseek4", **keys)
    assert values(sliding)["rope_type"] == "default"
    assert values(sparse)["rope_type"] == values(heavy)["rope_type"] == "yarn"
    for use in (sliding, sparse, heavy):
        assert use.facts["attention_factor"] == 1.0
        assert (values(use)["dim"], values(use)["rotary_dim"]) == (16, 8)
        assert values(use)["rotary_channels"] == "last"
        assert "rotary_channels=last" in use.addresses["rotation"].href
    assert sliding.window is not None
    assert (sliding.window.size, sparse.window) == (32, None)
    assert [use.layer_type for use in uses("deepseek4", **{"attention.compress_ratios": [2] * 8})] == [
        "compressed_attention_2"
    ]
    place = "/deepseek4.attention.compress_ratios"
    for given, key in (
        ({"attention.compress_ratios": None}, place),
        ({"attention.compress_ratios": 4}, place),
        ({"attention.compress_ratios": [0, 4]}, place),
        ({"attention.compress_rope_freq_base": None}, "/deepseek4.attention.compress_rope_freq_base"),
    ):
        with pytest.raises(Refusal) as refused:
            uses("deepseek4", **given)
        assert refused.value.faults[0].parameter == key
    assert {use.layers for use in uses("deepseek4", block_count=None)} == {(0, 3, 6), (1, 4, 7), (2, 5)}


def test_dflash_as_a_drafter_of_deepseek_4() -> None:
    """models/dflash.cpp: with hyper-connections every layer slides, of the plain base, and neighbours turn."""
    keys = {**YARN, "hyper_connection.count": 4, "rope.dimension_count": 8, "attention.key_length": 16}
    (use,) = uses("dflash", **keys, **{PATTERN: None})
    assert (use.layer_type, use.layers, values(use)["pairing"]) == ("sliding_attention", ALL, "interleaved")
    assert (values(use)["rope_type"], values(use)["rotary_channels"]) == ("default", "last")


def test_what_a_drafter_sees() -> None:
    """common/speculative.cpp: "DFlash needs non-causal attention unless the model says otherwise"."""
    assert all("mask" not in use.addresses for use in uses("dflash"))
    assert all("mask" in use.addresses for use in uses("dflash", **{"attention.causal": True}))
    assert all("mask" in use.addresses for use in uses("eagle3"))
    for name in ("dflash", "eagle3", "gemma4-assistant"):
        assert any(note.startswith("a drafter: it turns") for note in resolve(header(name)).notes)


@pytest.mark.parametrize(
    "name", ["eagle3", "hrm_text", "minimax-m3", "nanbeige", "pockettts", "qwen3tts", "graniteswitch", "hy_v4"]
)
def test_layers_that_all_do_the_same(name: str) -> None:
    """One ggml_rope_ext, or ggml_rope_multi, of freq_base in each layer of models/."""
    (use,) = uses(name, **{"rope.freq_base": 5e5, "rope.dimension_count": 8})
    assert (use.layers, values(use)["base"], use.facts["rotary_dim"], use.window) == (ALL, 5e5, 8, None)
    assert "/v1/masks/causal" in use.addresses["mask"].href


def test_step_3_5_turns_half_in_full_layers() -> None:
    """models/step35.cpp: n_rot_full / 2, after the sliding layers took the whole."""
    sliding, full = uses("step35", **{"rope.dimension_count": 16})
    assert (sliding.facts["rotary_dim"], full.facts["rotary_dim"]) == (16, 8)
    sliding, full = uses("step35", **{"attention.key_length": 32})
    assert (sliding.facts["rotary_dim"], full.facts["rotary_dim"]) == (32, 16)


def test_windows_that_no_header_changes() -> None:
    """models/llama4.cpp, smallthinker.cpp set n_swa after they read it; exaone4.cpp, exaone-moe.cpp before."""
    for name, keys, size in (
        ("llama4", {"attention.chunk_size": 16}, 8192),
        ("smallthinker", {}, 4096),
        ("exaone-moe", {"attention.sliding_window": None}, 128),
        ("exaone-moe", {}, 32),
        ("exaone4", {"attention.sliding_window": None, "block_count": 64, PATTERN: None}, 4096),
    ):
        sizes = {use.window.size for use in uses(name, **keys) if use.window is not None}
        assert sizes == {size}, name


def test_a_window_of_all_that_attends() -> None:
    """models/lfm2.cpp: is_swa of every layer that does not recur, by the base of all."""
    keys = {**OWN, "attention.head_count_kv": [0, 2] * 4, PATTERN: None}
    assert turning("lfm2", **keys) == {"sliding_attention": ((1, 3, 5, 7), 5e5)}
    assert turning("lfm2moe", **keys) == {"full_attention": ((1, 3, 5, 7), 5e5)}


def test_baichuan_13b_has_slopes() -> None:
    """models/baichuan.cpp: of 40 layers f_max_alibi_bias is 8, and nothing turns."""
    (use,) = uses("baichuan", block_count=40)
    assert (use.encoding, values(use)["form"]) == ("alibi", "symmetric")
    assert {use.encoding for use in uses("baichuan", block_count=32)} == {"rope"}


def test_layers_that_predict_further_tokens() -> None:
    """llama_hparams::n_layer is block_count without nextn_predict_layers."""
    plan = resolve(header("glm4moe", nextn_predict_layers=1))
    assert [use.layers for use in plan.uses] == [tuple(range(7))]
    assert any("the last 1 of block_count predict further tokens" in note for note in plan.notes)
    assert turning("mimo2", nextn_predict_layers=1)["full_attention"] == ((3,), 1e4)
    listed = {PATTERN: [True, False] * 3 + [True]}
    assert turning("mimo2", nextn_predict_layers=1, **listed)["full_attention"] == ((1, 3, 5), 1e4)
    with pytest.raises(Refusal, match="at most 7"):
        uses("glm4moe", nextn_predict_layers=8)
    assert not any("predict" in note for note in resolve(header("glm4moe", nextn_predict_layers=0)).notes)


@pytest.mark.parametrize("name", ["dream", "llada", "llada-moe", "rnd1"])
def test_models_of_text_by_diffusion_see_both_ways(name: str) -> None:
    """models/dream.cpp and kin: causal_attn = false."""
    (use,) = uses(name)
    assert "/v1/masks/padding" in use.addresses["mask"].href


def test_kinds_of_layers_that_are_not_counted() -> None:
    """Without block_count there are kinds, and no numbers."""
    nobody = {"block_count": None}
    assert turning("smollm3", **nobody) == {None: (None, 1e4)}
    assert still("smollm3", **nobody) == {None: None}
    assert turning("muse-glimmer", **nobody) == {"sliding_attention": (None, 1e4)}
    assert still("muse-glimmer", **nobody) == {"full_attention": None}
    assert turning("exaone4", **nobody) == {"sliding_attention": (None, 1e4)}
    assert still("granite", **nobody, **{"rope.scaling.finetuned": False}) == {None: None}
    assert [use.layers for use in uses("qwen3next", **nobody)] == [None]
    heads = {"attention.head_count_kv": [0, 2] * 4}
    assert [(use.layer_type, use.layers) for use in uses("lfm2moe", **nobody, **heads)] == [("full_attention", None)]


@pytest.mark.parametrize(("name", "words"), [("clip", "give the config.json of its model"), ("gptj", "no code for")])
def test_names_without_a_model(name: str, words: str) -> None:
    """models/clip.cpp aborts; no class is made for LLM_ARCH_GPTJ."""
    with pytest.raises(Refusal, match=words) as refused:
        resolve(header(name))
    assert refused.value.faults[0].parameter == "/general.architecture"
