"""What models say when they are run as an intervention shows them, past the page's fields: it holds nobody up."""

import base64
import io
import json
import threading
import zipfile
from typing import Any

import pytest
from browsing import slowed
from PIL import Image
from raw_page import RawPage, Visitor
from raw_requests import Served

from studio import sparsity_similarity
from studio.sparsity import RULES

NAMES = ("clip-scenes", "diffclip-scenes")
MODE, LAYER = 4, 6  # among the controls of the tab
TOKEN, SINCE = 4, 5  # among what the event that shows maps answers


@pytest.fixture
def page(served: Served) -> RawPage:
    return RawPage.at(served.address)


@pytest.fixture
def picture() -> Image.Image:
    return Image.effect_noise((64, 64), 60).convert("RGB")


def shown(page: RawPage, visitor: Visitor, picture: Any, at: float, mode: str = "intervention") -> list[Any]:
    """What the event that shows maps answers when it is asked at a time of the page."""
    fields = page.fields["show"][4:]
    fields[MODE], fields[LAYER] = mode, 1
    return visitor.event("show", [at, picture, *NAMES, *fields])


def pressed(served: Served, visitor: Visitor, button: str, at: float) -> None:
    """Press a button whose event does not wait in the queue."""
    (index,) = [
        event._id for event in served.demo.fns.values()
        for block, _ in event.targets
        if getattr(served.demo.blocks.get(block), "elem_id", None) == button and not event.queue and event.fn
    ]  # fmt: skip
    sent = {"data": [at], "fn_index": index, "session_hash": visitor.session}
    visitor.http.post("gradio_api/run/predict", json=sent).raise_for_status()


def test_a_quick_event_of_another_page_goes_through_and_stop_ends_the_run(
    served: Served, page: RawPage, picture: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, begun = list[Any](), threading.Event()
    real = sparsity_similarity.run_with

    def run_with(*given: Any) -> Any:
        runs.append(given)
        begun.set()
        return real(*given)

    monkeypatch.setattr(sparsity_similarity, "run_with", slowed(run_with, 0.5))
    one, other, answers = page.visitor(), page.visitor(), list[Any]()
    sent = one.upload(picture)
    _, _, _, _, token, since, _ = shown(page, one, sent, 10.0)
    thread = threading.Thread(target=lambda: answers.extend(one.event("answer", [since, sent, token])))
    thread.start()
    assert begun.wait(timeout=60)
    assert other.look(picture.transpose(Image.Transpose.ROTATE_90), *NAMES)["token"]
    assert thread.is_alive(), "the other page got its answer while the run was under way"
    pressed(served, one, "sparsity-answers-stop", 11.0)
    thread.join(timeout=60)
    assert answers[1] == "Stopped."
    stopped = len(runs)
    assert stopped < 2 * (len(RULES) - 1)
    _, _, _, _, token, since, _ = shown(page, one, sent, 20.0)
    tables, _ = one.event("answer", [since, sent, token])
    assert tables.count("<table") == 2
    assert len(runs) == 2 * (len(RULES) - 1), "what was made before the stop was made again"


def test_answers_are_taken_away_with_the_maps_to_which_they_belong(
    served: Served, page: RawPage, picture: Image.Image
) -> None:
    visitor = page.visitor()
    sent = visitor.upload(picture)
    answered = shown(page, visitor, sent, 10.0)
    tables, line = visitor.event("answer", [answered[SINCE], sent, answered[TOKEN]])
    assert tables.count("<table") == 2
    assert line == ""
    strip = next(block for block in served.demo.blocks.values() if getattr(block, "elem_id", "") == "sparsity-maps")
    asked = {"token": answered[TOKEN], "drawing": "patches", "ramp": "root", "opacity": 0.7}
    body = {"data": asked, "component_id": strip._id, "fn_name": "take_strip", "session_hash": visitor.session}
    data = visitor.http.post("gradio_api/component_server", json=body).raise_for_status().json()["data"]
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(data))) as archive:
        settings = json.loads(archive.read("recipe.json"))["settings"]
        lines = archive.read("answers.csv").decode().splitlines()
    assert (settings["mode"], settings["tables"], settings["answers"]) == ("intervention", True, 2 * len(RULES))
    assert len(lines) > 2 * len(RULES)


def test_maps_that_are_shown_later_end_what_belongs_to_earlier_ones_without_a_word(
    page: RawPage, picture: Image.Image
) -> None:
    visitor = page.visitor()
    sent = visitor.upload(picture)
    earlier = shown(page, visitor, sent, 10.0)
    later = shown(page, visitor, sent, 20.0, "readout")
    assert later[SINCE] is None
    skipped, line = visitor.event("answer", [earlier[SINCE], sent, earlier[TOKEN]])
    assert (line, "table" in str(skipped)) == ("", False)
    skipped, line = visitor.event("answer", [later[SINCE], sent, later[TOKEN]])
    assert (line, "table" in str(skipped)) == ("", False)


def test_answers_to_another_picture_or_to_maps_that_are_gone_are_refused(page: RawPage, picture: Image.Image) -> None:
    visitor = page.visitor()
    sent = visitor.upload(picture)
    answered = shown(page, visitor, sent, 10.0)
    other = visitor.upload(picture.transpose(Image.Transpose.ROTATE_90))
    for given, said in ((other, "no longer that of the maps"), (None, "no longer"), (sent, "The server let go of")):
        token = "x" if said.startswith("The server") else answered[TOKEN]
        with pytest.raises(AssertionError, match=said):
            visitor.event("answer", [answered[SINCE], given, token])
