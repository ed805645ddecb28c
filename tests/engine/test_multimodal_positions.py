"""Positions of text with images, video and sound: handed cases, laws, and refusals with both numbers."""

from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.modalities import MOST_TOKENS
from tests.engine.answers import Array, only, refused

MULTIMODAL = "positions/multimodal"
Segments = list[dict[str, Any]]


def text(tokens: int) -> dict[str, Any]:
    return {"type": "text", "tokens": tokens}


def image(*grid: int, **more: int) -> dict[str, Any]:
    return {"type": "image", "grid": list(grid), **more}


def video(*grid: int, **more: float) -> dict[str, Any]:
    return {"type": "video", "grid": list(grid), **more}


def ids(segments: Segments, **parameters: object) -> Array:
    return only(MULTIMODAL, segments=segments, **parameters)


def delta(segments: Segments, **parameters: object) -> object:
    scheme = by_key("positions", "multimodal")
    return scheme.facts(scheme.params(segments=segments, **parameters), {})["rope_delta"]


def test_e01_two_images() -> None:
    segments = [text(3), image(1, 4, 4, tokens=4), text(2), image(4, 4), text(1)]
    assert ids(segments).tolist() == [
        [0, 1, 2, 3, 3, 3, 3, 5, 6, 7, 7, 7, 7, 9],
        [0, 1, 2, 3, 3, 4, 4, 5, 6, 7, 7, 8, 8, 9],
        [0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 7, 8, 9],
    ]
    assert delta(segments) == -4


def test_e02_one_image_and_both_ways_of_asking() -> None:
    segments = [text(5), image(2, 2), text(1)]
    rows = [[0, 1, 2, 3, 4, 5, 5, 5, 5, 7], [0, 1, 2, 3, 4, 5, 5, 6, 6, 7], [0, 1, 2, 3, 4, 5, 6, 5, 6, 7]]
    assert ids(segments, spatial_merge_size=1).tolist() == rows
    assert ids(segments, spatial_merge_size=1, axes="last").tolist() == np.array(rows).T.tolist()
    assert delta(segments, spatial_merge_size=1) == -2


def test_the_two_ways_to_go_on_after_a_video() -> None:
    segments = [text(2), video(8, 4, 4), text(1)]
    assert ids(segments)[:, -1].tolist() == [4, 4, 4]
    assert ids(segments, advance="max-all")[:, -1].tolist() == [10, 10, 10]
    assert (delta(segments), delta(segments, advance="max-all")) == (-25, -24)


def test_a_grid_in_loops() -> None:
    expected = [(5 + 2 * frame, 5 + row, 5 + column) for frame in range(3) for row in range(2) for column in range(4)]
    got = ids([text(5), video(6, 4, 8)], temporal_merge_size=2, positions_per_second=2)
    assert got[:, 5:].T.tolist() == [list(each) for each in expected]


def test_text_shared_markers_and_sound_move_all_axes_alike() -> None:
    got = ids([text(2), {"type": "shared", "tokens": 2}, {"type": "audio", "tokens": 3}], dtype="int32")
    assert got.tolist() == [[0, 1, 2, 2, 3, 4, 5]] * 3
    assert got.dtype == np.int32


def test_sound_in_windows_and_by_time() -> None:
    # Times of the video 0, 3, 6 and of its sound 0 to 6; windows of 4 positions.
    segments = [text(1), video(3, 2, 2, audio_tokens=7), text(1)]
    rule: dict[str, object] = {"advance": "max-all", "positions_per_second": 3, "seconds_per_chunk": 1.4}
    windows = ids(segments, **rule)[0].tolist()
    assert windows == [0, 1, 4, 1, 2, 3, 4, 7, 5, 6, 7, 8]
    by_time = ids(segments, **rule, interleave="time")[0].tolist()
    assert by_time == [0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8]


def test_a_video_that_outlasts_its_sound_ends_in_video() -> None:
    segments = [video(3, 2, 2, audio_tokens=2), text(1)]
    for interleave in ("windows", "time"):
        rule: dict[str, object] = {"advance": "max-all", "positions_per_second": 4, "seconds_per_chunk": 1}
        got = ids(segments, **rule, interleave=interleave)
        assert got[0].tolist() == [0, 0, 1, 4, 8, 9]


def test_the_arithmetic_decides_where_a_time_is_nearly_whole() -> None:
    segments = [video(4, 2, 2, seconds_per_grid=1 / 3)]
    assert ids(segments, positions_per_second=1)[0].tolist() == [0, 0, 0, 0]
    assert ids(segments, positions_per_second=1, arithmetic="float32")[0].tolist() == [0, 0, 0, 1]
    # Five times 0.08 seconds at 25 a second are 10, and 9.9999995 where the seconds come first.
    segments = [video(6, 2, 2, seconds_per_grid=0.08)]
    for arithmetic, last in (("exact", 10), ("float32", 10), ("float32-seconds-first", 9), ("whole-seconds", 0)):
        assert ids(segments, positions_per_second=25, arithmetic=arithmetic)[0, -1] == last


FRACTIONS: dict[str, object] = {
    "advance": "max-all",
    "positions_per_second": 13,
    "arithmetic": "float32-seconds-first",
    "times": "fractions",
    "dtype": "float32",
}


def test_times_may_be_fractions_and_all_that_follows_too() -> None:
    """Qwen3-Omni: frames 13/3 apart; each step is rounded to float32."""
    third = np.float32(1 / 3)
    times = [np.float32(n) * third * np.float32(13) + np.float32(2) for n in range(3)]
    segments = [text(2), video(3, 2, 4, seconds_per_grid=1 / 3), text(2)]
    got = ids(segments, **FRACTIONS)
    assert got.dtype == np.float32
    assert got[0].tolist() == [0, 1, *np.repeat(times, 2).tolist(), times[2] + 1, times[2] + 2]
    assert got[2].tolist() == [0, 1, *[2, 3] * 3, times[2] + 1, times[2] + 2]
    wide = ids(segments, **{**FRACTIONS, "dtype": "float64", "padded_length": 12, "fill": -1})
    assert wide[:, :10].tolist() == got.tolist()
    assert wide[:, 10:].tolist() == [[-1, -1]] * 3
    scheme = by_key("positions", "multimodal")
    told: Any = scheme.facts(scheme.params(segments=segments, **FRACTIONS), {})
    assert (told["last_position"], told["rope_delta"]) == (float(times[2] + 2), float(times[2] + 2) + 1 - 10)


def test_sound_goes_between_frames_at_fractions() -> None:
    segments = [video(2, 2, 2, seconds_per_grid=0.1, audio_tokens=3)]
    second = float(np.float32(0.1) * np.float32(13))
    assert second != np.float32(1.3)
    assert ids(segments, **FRACTIONS, interleave="time")[0].tolist() == [0, 0, 1, second, 2]
    assert ids(segments, **FRACTIONS)[0].tolist() == [0, second, 0, 1, 2]


@pytest.mark.parametrize(("rule", "tokens"), [("two-strides", 175), ("windows", 91)])
def test_tokens_of_a_sound_by_its_frames(rule: str, tokens: int) -> None:
    for part in ({"mel_frames": 700}, {"mel_frames": 700, "tokens": tokens}):
        assert ids([{"type": "audio", **part}], audio_lengths=rule).shape == (3, tokens)
    woven = video(1, 2, 2, audio_mel_frames=700)
    assert np.array_equal(
        ids([woven], audio_lengths=rule, interleave="time"),
        ids([video(1, 2, 2, audio_tokens=tokens)], interleave="time"),
    )


def test_padding_on_either_side_and_what_the_delta_counts() -> None:
    segments = [text(2), image(4, 4)]
    left = ids(segments, padded_length=8, padding_side="left", fill=1)
    assert left[1].tolist() == [1, 1, 0, 1, 2, 2, 3, 3]
    assert ids(segments, padded_length=8)[1].tolist() == [0, 1, 2, 2, 3, 3, 0, 0]
    assert delta(segments, padded_length=8) == -2
    assert delta(segments, padded_length=8, delta_length="padded") == -4
    scheme = by_key("positions", "multimodal")
    idle = scheme.notes(scheme.params(segments=segments, padding_side="left"), {})
    assert idle == ["padding_side has no effect with no padded_length"]
    # A preset states how padding would be filled, whether or not there is any.
    assert scheme.notes(scheme.params(segments=segments, fill=1, delta_length="padded"), {}) == []
    assert scheme.notes(scheme.params(segments=segments, padding_side="left", padded_length=8), {}) == []


@pytest.mark.parametrize(
    ("segments", "parameters", "named", "code", "numbers"),
    [
        ([], {}, "/segments", "missing", None),
        ([text(3), image(4, 4, tokens=5)], {}, "/segments/1/tokens", "conflict", (5, 4)),
        ([video(2, 4, 4, tokens=9)], {}, "/segments/0/tokens", "conflict", (9, 8)),
        ([image(5, 4)], {}, "/segments/0/grid", "value", (5, None)),
        ([video(3, 4, 4)], {"temporal_merge_size": 2}, "/segments/0/grid", "value", (3, None)),
        ([image(2, 4, 4)], {}, "/segments/0/grid", "value", None),
        ([text(2**19)] * 3, {}, "/segments", "too_large", (3 * 2**19, MOST_TOKENS)),
        ([text(3)], {"padded_length": 2}, "padded_length", "out_of_range", (2, 3)),
        ([video(2, 2, 2)], {"seconds_per_chunk": 0.5}, "seconds_per_chunk", "out_of_range", None),
        ([video(2, 2, 2, seconds_per_grid=1e6)], {"positions_per_second": 1e6, "dtype": "int32"},
         "/segments", "out_of_range", None),
        ([video(9999, 2, 2, seconds_per_grid=1e6)], {"positions_per_second": 1e6},
         "/segments", "out_of_range", None),
        ([text(3)], {"fill": 2**31, "dtype": "int32"}, "fill", "out_of_range", None),
        ([text(3)], {"dtype": "float32"}, "dtype", "conflict", None),
        ([text(3)], {**FRACTIONS, "dtype": "int64"}, "dtype", "conflict", None),
        ([text(3)], {**FRACTIONS, "arithmetic": "exact"}, "arithmetic", "conflict", None),
        ([{"type": "audio"}], {}, "/segments/0/tokens", "missing", None),
        ([{"type": "audio", "mel_frames": 300, "tokens": 39}], {}, "/segments/0/tokens", "conflict", (39, 75)),
        ([{"type": "audio", "mel_frames": 2}], {}, "/segments/0/mel_frames", "out_of_range", (2, None)),
        ([video(1, 2, 2, audio_mel_frames=300, audio_tokens=75)], {"audio_lengths": "windows"},
         "/segments/0/audio_tokens", "conflict", (75, 39)),
    ],
)  # fmt: skip
def test_what_is_refused(
    segments: Segments, parameters: dict[str, object], named: str, code: str, numbers: tuple[int, int] | None
) -> None:
    # An empty list is the parameter's absence; pydantic refuses one that is stated.
    given = {"segments": segments} if segments else {}
    fault = refused(MULTIMODAL, **given, **parameters)
    assert (fault.parameter, fault.code) == (named, code)
    if numbers is not None:
        assert (fault.requested, fault.limit) == numbers
