"""Pictures over HTTP: every scheme has them, one is drawn at a time, and they never hold up anything else."""

import asyncio
import io
import re
import threading
from xml.etree import ElementTree

import httpx
import numpy as np
import pytest
from PIL import Image as Pillow

from service.api.resources import MOST_PICTURES
from service.engine import SCHEMES
from tests.api.gates import watched
from tests.api.problems import fault, refused
from tests.api.requests import PICTURES, Asked
from tests.clients import TRANSPORTS, Client, in_process, settings
from tests.live import wait_until

CLASSIC = "/v1/encodings/sinusoidal.png?length=50&dim=128"


def title(reply: httpx.Response) -> str:
    return str(Pillow.open(io.BytesIO(reply.content)).info["Title"])


def description(reply: httpx.Response) -> str:
    return str(Pillow.open(io.BytesIO(reply.content)).info["Description"])


@pytest.mark.parametrize("asked", [each for each in PICTURES if each.extension == "png"], ids=str)
def test_every_example_has_a_picture(direct: Client, asked: Asked) -> None:
    reply = asked.send(direct)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "image/png"
    assert reply.headers["content-length"] == str(len(reply.content))
    assert reply.headers["content-disposition"].startswith(f'inline; filename="{asked.scheme.name}_')
    assert "accept-ranges" not in reply.headers
    assert "array-shape" not in reply.headers
    assert reply.headers["cache-control"] == ("no-store" if asked.method == "POST" else "public, max-age=3600")
    assert ("etag" in reply.headers) == (asked.method == "GET")
    image = Pillow.open(io.BytesIO(reply.content))
    assert image.mode == "P"
    assert 560 <= image.width < 1400
    # More than the paper and the ink of the letters.
    assert len(np.unique(np.asarray(image))) > 3
    assert title(reply) == asked.scheme.title
    assert description(reply).startswith(f"{asked.scheme.family}/{asked.scheme.name}")


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "-".join(scheme.key))
def test_every_scheme_has_vectors_too(direct: Client, scheme: object) -> None:
    asked = next(each for each in PICTURES if each.scheme is scheme and each.extension == "svg")
    reply = asked.send(direct)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "image/svg+xml"
    root = ElementTree.fromstring(reply.content)
    assert root.findtext("{*}title") == asked.scheme.title
    assert root.findall("{*}image")


def test_the_classic_picture_is_one_address(client: Client) -> None:
    """Fifty positions of the sinusoidal encoding, channels across, position 0 at the top."""
    reply = client.get(CLASSIC)
    assert title(reply) == "Sinusoidal position encoding"
    assert description(reply) == "encodings/sinusoidal: length=50, dim=128"
    pixels = np.asarray(Pillow.open(io.BytesIO(reply.content)).convert("RGB"), np.int64)
    table = np.array(client.get(CLASSIC.replace(".png", "")).json()["tensors"]["encoding"]["data"])
    # 8 x 8 pixels a cell; where the table begins is where it is reddest of all: cos 0 = 1.
    left, top = 59, 63
    red, blue = pixels[top + 4 :: 8, left + 4 :: 8, 0], pixels[top + 4 :: 8, left + 4 :: 8, 2]
    warm = (red - blue)[:50, :128]
    assert (np.sign(warm)[np.abs(table) > 0.05] == np.sign(table)[np.abs(table) > 0.05]).all()


def test_a_repeated_picture_is_not_drawn_again(direct: Client) -> None:
    target = "/v1/encodings/sinusoidal.svg?length=5&dim=6&base=77"
    first, again = direct.get(target), direct.get(target)
    assert "server-timing" in first.headers
    assert "server-timing" not in again.headers
    assert again.content == first.content
    assert direct.get(target, headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    head = direct.head(target.replace("77", "78"))
    assert head.status_code == 200
    assert "content-length" not in head.headers


def test_a_head_and_a_304_draw_nothing() -> None:
    with in_process(settings()) as client, watched("encodings", "sinusoidal") as gate:
        head = client.head(CLASSIC)
        assert client.get(CLASSIC, headers={"If-None-Match": head.headers["etag"]}).status_code == 304
        assert gate.prepared == gate.blocks == 0
        assert client.get(CLASSIC).headers["etag"] == head.headers["etag"]
        assert gate.blocks > 0


def test_a_theme_is_chosen_and_counts_for_pictures_alone(direct: Client) -> None:
    plain, light, dark = (direct.get(CLASSIC + more) for more in ("", "&theme=light", "&theme=dark"))
    assert plain.content == light.content
    assert plain.headers["etag"] == light.headers["etag"] != dark.headers["etag"]
    assert Pillow.open(io.BytesIO(dark.content)).convert("RGB").getpixel((0, 0)) == (13, 17, 23)
    for extension in ("", ".npy", ".csv"):
        other = CLASSIC.replace(".png", extension)
        idle = ["", "&theme=dark", "&theme=light", *(["&nonfinite=string"] if extension else [])]
        assert len({direct.get(other + more).headers["etag"] for more in idle}) == 1
        refused(direct.get(f"{other}&theme=drak"), "invalid-parameters")
        refused(direct.get(f"{other}&nonfinite=strin"), "invalid-parameters")
    problem = refused(direct.get(CLASSIC + "&theme=drak"), "invalid-parameters")
    assert fault(problem, "theme")["did_you_mean"] == "dark"


def test_a_width_is_chosen_and_counts_for_pictures_alone(direct: Client) -> None:
    plain, wide, narrow = (direct.get(CLASSIC + more) for more in ("", "&picture_width=wide", "&picture_width=narrow"))
    assert plain.content == wide.content
    assert plain.headers["etag"] == wide.headers["etag"] != narrow.headers["etag"]
    assert Pillow.open(io.BytesIO(narrow.content)).width == 350
    assert description(narrow) == description(wide)
    npy = CLASSIC.replace(".png", ".npy")
    assert direct.get(npy).headers["etag"] == direct.get(npy + "&picture_width=narrow").headers["etag"]
    problem = refused(direct.get(CLASSIC + "&picture_width=narow"), "invalid-parameters")
    assert fault(problem, "picture_width")["did_you_mean"] == "narrow"


def test_what_is_not_the_default_is_in_the_title(direct: Client) -> None:
    reply = direct.get("/v1/encodings/rope.png?length=4&dim=8&base=500000&rope_type=linear&factor=2.5&offset=10")
    told = description(reply)
    for stated in ("length=4", "dim=8", "base=500000", "rope_type=linear", "factor=2.5", "offset=10"):
        assert stated in told
    assert "arithmetic" not in told
    spelled = direct.get("/v1/encodings/rope.png?dim=8&offset=10&length=4&rope_type=linear&factor=2.50&base=5e5")
    assert spelled.content == reply.content
    many = direct.get("/v1/encodings/rope.svg?dim=8&positions=" + ",".join(map(str, range(0, 1500, 3))))
    assert "positions=0,3,6," in many.text
    assert "…" in many.text


def test_one_tensor_of_several(direct: Client) -> None:
    both, one = (direct.get("/v1/encodings/rope.png?length=9&dim=8" + more) for more in ("", "&tensor=sin"))
    assert one.content != both.content
    assert 'filename="rope-sin_9x8_float32.png"' in one.headers["content-disposition"]


def test_a_picture_of_the_callers_own_numbers(direct: Client) -> None:
    x = [[0.5, None, 1], [2, 3, 4]]
    reply = direct.post("/v1/apply/alibi.png", json={"tensors": {"x": [[[0.5, 1], [2, 3]]]}})
    assert reply.status_code == 200
    assert reply.headers["cache-control"] == "no-store"
    assert direct.post("/v1/apply/alibi.png", json={"tensors": {"x": x}}).status_code == 422


def test_a_picture_is_never_sent_in_blocks() -> None:
    with in_process(settings(stream_bytes=1)) as client:
        assert client.get(CLASSIC).headers["content-length"]
        body = {"tensors": {"x": [[0.5, 1, 2, 3]]}}
        assert client.post("/v1/apply/sinusoidal.png", json=body).headers["content-length"]


def test_eight_gibibytes_are_pictured_and_more_are_refused(direct: Client) -> None:
    reply = direct.get("/v1/encodings/sinusoidal.png?length=4194304&dim=512")
    assert reply.status_code == 200
    assert "every 8193rd position (512 of 4194304)" in description(reply)
    problem = refused(direct.get("/v1/encodings/sinusoidal.png?length=4194305&dim=512"), "result-too-large")
    assert fault(problem, "query")["limit"] == 8 * 2**30


@pytest.mark.parametrize("transport", list(TRANSPORTS))
def test_one_is_drawn_at_a_time_and_too_many_are_sent_away(transport: str) -> None:
    given = settings(threads=4, memory_bytes="64GiB")
    with TRANSPORTS[transport](given) as client, watched("encodings", "sinusoidal") as gate:
        gate.shut()
        pictures = client.resources.pictures

        async def flood() -> list[httpx.Response]:
            asked = [
                asyncio.ensure_future(client.http.get(f"/v1/encodings/sinusoidal.png?length={n}&dim=4"))
                for n in range(2, MOST_PICTURES + 7)
            ]
            while sum(task.done() for task in asked) < 5:
                await asyncio.sleep(0.001)
            # Whatever waits for its picture, everything else goes on.
            assert (await client.http.get("/health/live")).status_code == 200
            assert (await client.http.get("/v1/biases/alibi-slopes?heads=4")).status_code == 200
            assert gate.prepared == 1
            # Nobody is sent away who asks for what others wait for; others are, before anything of theirs is read.
            shared = asyncio.ensure_future(client.http.get(str(next(iter(pictures.waited)), "ascii")))
            while max(pictures.waited.values()) < 2:
                await asyncio.sleep(0.001)
            wrong = await client.http.post("/v1/apply/sinusoidal.png?no=such", content=b"what")
            refused(wrong, "overloaded")
            gate.open()
            return [*await asyncio.gather(*asked), await shared]

        replies = client.run(flood())
        away = [reply for reply in replies if reply.status_code != 200]
        assert len(replies) - len(away) == MOST_PICTURES + 1
        for reply in away:
            assert refused(reply, "overloaded")["detail"] == f"{MOST_PICTURES} pictures wait to be drawn at the moment"
            assert reply.headers["retry-after"] == "1"
        wait_until(lambda: client.resources.budget.in_use == 0)
        assert not pictures.waited
        assert all(name.startswith("work") for name in gate.threads)


def test_who_leaves_while_waiting_leaves_no_place_taken() -> None:
    with in_process(settings()) as client, watched("apply", "sinusoidal") as gate:
        gate.shut()
        body = {"tensors": {"x": [[0.5, 1]]}}
        target = "/v1/apply/sinusoidal.png"

        async def leave() -> None:
            first = asyncio.ensure_future(client.http.post(target, json=body))
            await asyncio.to_thread(gate.entered.wait, 30)
            second = asyncio.ensure_future(client.http.post(target, json=body))
            while not client.resources.drawing._waiters:
                await asyncio.sleep(0.001)
            assert len(client.resources.pictures.waited) == 2
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)
            assert len(client.resources.pictures.waited) == 1
            gate.open()
            assert (await first).status_code == 200

        client.run(leave())
        assert client.post(target, json=body).status_code == 200
        assert client.resources.budget.in_use == 0
        assert threading.active_count() > 0


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("decay.svg?length=16&dim=8", "of=rope, rotary_dim=8, length=16, dim=8"),
        ("decay.svg?of=alibi&length=16&heads=6", "of=alibi, length=16, heads=6"),
        ("attention.svg?length=8", "of=none, length=8, residual=0.5"),
        ("attention.svg?of=alibi&length=8", "of=alibi, length=8, residual=0.5, slope=0.0625"),
        ("wavelengths.svg?dim=8", "rotary_dim=8, dim=8"),
    ],
)
def test_a_picture_says_of_what_it_is_be_it_the_default(direct: Client, query: str, told: str) -> None:
    picture = direct.get(f"/v1/analyses/{query}").text
    name = query.partition(".")[0]
    assert re.search(f'<desc id="description">analyses/{name}: {re.escape(told)}(; [^<]*)?</desc>', picture)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("biases/alibi.svg?heads=12&length=64", "use it under a causal mask; colours are by the logarithm beyond"),
        ("analyses/decay.svg?of=alibi&heads=12&length=64", "colours are by the logarithm beyond"),
        ("encodings/time2vec.svg?length=48&dim=16&seed=1", "colours are by the logarithm beyond"),
        ("encodings/sinusoidal.svg?length=4096&dim=512", "fast waves alias at these steps: fans are no structure"),
    ],
)
def test_a_picture_says_how_it_is_to_be_read(direct: Client, query: str, told: str) -> None:
    described = re.search('<desc id="description">([^<]*)', direct.get(f"/v1/{query}").text)
    assert described
    assert told in described[1]


def lettered(reply: httpx.Response) -> list[int]:
    """How many letters each text of a picture has, which are outlines there."""
    root = ElementTree.fromstring(reply.content)
    groups = [group for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("transform")]
    return [len(group) for group in groups]


@pytest.mark.parametrize("query", ["temperature.svg?length=64", "age.svg?length=64"])
def test_one_number_a_position_is_a_profile(direct: Client, query: str) -> None:
    root = ElementTree.fromstring(direct.get(f"/v1/encodings/{query}").content)
    images = [(image.get("width"), image.get("height")) for image in root.iter("{http://www.w3.org/2000/svg}image")]
    assert images == [("1024", "200")]


def test_calendar_features_are_called_by_their_names(direct: Client) -> None:
    names = ("hour-of-day", "day-of-week", "day-of-month", "day-of-year")
    reply = direct.get("/v1/encodings/calendar.svg?frequency=h&unit=hours&length=168")
    assert set(map(len, names)) <= set(lettered(reply))
    assert reply.text.count("rotate(-90)") == len(names) + 1
    circles = direct.get("/v1/encodings/calendar.svg?features=hour-of-day&values=cyclic&unit=hours&length=24")
    assert circles.text.count("rotate(-90)") == 2 + 1


def test_norms_are_drawn_with_one_scale_and_said_of_what(direct: Client) -> None:
    x = [[0.5, -0.25, 0.125, 1.0], [1.0, 0.5, -0.5, 0.25], [0.25, 1.0, 0.0, -1.0]]
    reply = direct.post("/v1/analyses/norm.svg?offset=3", json={"tensors": {"x": x}})
    root = ElementTree.fromstring(reply.content)
    tops = [image.get("y") for image in root.iter("{http://www.w3.org/2000/svg}image")]
    assert [tops.count(top) for top in sorted(set(tops), key=tops.index)] == [3, 2]
    for told in ("base=10000", "pairing=half", "offset=3"):
        assert told in reply.text
    reply = direct.post("/v1/analyses/permutation.svg", json={"tensors": {"x": x}})
    root = ElementTree.fromstring(reply.content)
    panels = [image for image in root.iter("{http://www.w3.org/2000/svg}image") if image.get("width") != "14"]
    assert [panels[0].get("y"), panels[2].get("y")] == [panels[1].get("y"), panels[3].get("y")]
    assert [panels[0].get("x"), panels[1].get("x")] == [panels[2].get("x"), panels[3].get("x")]


def test_a_picture_of_attention_says_where_the_least_is(direct: Client) -> None:
    """A hollow in the middle, told in words that the numbers bear out."""
    query = "of=alibi&length=256&depth=14&residual=0.9&slope=0.0078125"
    last = np.array(direct.get(f"/v1/analyses/attention?{query}").json()["tensors"]["profile"]["data"][-1]) * 256
    least = int(last.argmin())
    assert 40 < least < 200
    told = f"the least is {last[least]:.4g} at position {least}"
    for more in ("", "&picture_width=narrow"):
        assert told in direct.get(f"/v1/analyses/attention.svg?{query}{more}").text


def test_a_picture_of_wavelengths_marks_the_trained_length(direct: Client) -> None:
    pictures = [direct.get(f"/v1/analyses/wavelengths.svg?dim=16{more}").text for more in ("", "&trained_length=100")]
    lines = [picture.count('height="1"') for picture in pictures]
    assert lines[1] == lines[0] + 1
