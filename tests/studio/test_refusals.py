"""Requests of a kind that no page sends get a sentence, and nothing in the server's log; faults stay faults."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gradio as gr
import pytest
from gradio.exceptions import ComponentProcessingError
from raw_requests import Served, event_named, run_event

from studio.refusals import NOT_TAKEN, Page

DEEP: list[Any] = []
for _ in range(150):
    DEEP = [DEEP]
NOT_OFFERED = "is not in the list of choices"
ELSEWHERE = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}


@pytest.mark.parametrize(
    ("name", "place", "sent", "said"),
    [
        ("compare", 1, "<img src=x onerror=alert(1)>", "Value: &lt;img src=x onerror=alert(1)&gt; is not in"),
        ("compare", 1, ["x"], NOT_OFFERED),
        pytest.param("compare", 1, DEEP, "…", id="deep"),
        ("compare", 1, [], NOT_TAKEN),
        ("show", 5, ["the same α"], NOT_TAKEN),
        ("run", 7, [], NOT_TAKEN),
        ("compare", 0, "x", NOT_TAKEN),
        ("compare", 0, {"path": 5}, NOT_TAKEN),
        ("compare", 0, ELSEWHERE, NOT_TAKEN),
        ("compare", 3, ELSEWHERE, NOT_TAKEN),
        ("draw_lambdas", 2, None, NOT_TAKEN),
        ("draw_lambdas", 2, ["x"], NOT_OFFERED),
        ("draw_lambdas", 3, ["x"], NOT_TAKEN),
        ("draw_lambdas", 3, 5, NOT_TAKEN),
        ("read", 3, "x", ""),
        ("show_scene", 0, {"a": [1]}, "There is no example scene"),
    ],
    ids=str,
)
def test_what_no_field_takes_gets_a_sentence_and_no_traceback(
    served: Served, capfd: pytest.CaptureFixture[str], name: str, place: int, sent: Any, said: str
) -> None:
    index = event_named(served.demo, name)
    first = [None if isinstance(each, gr.Image) else each.value for each in served.demo.fns[index].inputs]  # pyright: ignore[reportAttributeAccessIssue]
    last = run_event(served.address, index, [*first[:place], sent, *first[place + 1 :]])[-1]
    assert '"success":false' in last.replace(": ", ":")
    assert '"title":"Not done"' in last.replace(": ", ":")
    assert said in last
    assert len(last) < 1000
    assert "Traceback" not in "".join(capfd.readouterr())


def test_too_few_values_and_files_in_the_place_of_a_click_get_a_sentence_and_no_traceback(
    served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    assert NOT_TAKEN in run_event(served.address, event_named(served.demo, "compare"), [])[-1]
    first = [None, "clip-scenes", "diffclip-scenes"]
    said = run_event(served.address, event_named(served.demo, "ask_patch"), first, {"path": "/etc/passwd"})[-1]
    assert '"title":"Not done"' in said.replace(": ", ":")
    assert "root:" not in said
    assert "Traceback" not in "".join(capfd.readouterr())


def test_what_a_loader_or_a_handler_of_ours_does_wrong_stays_a_fault() -> None:
    def fails(*_: object) -> None:
        raise TypeError("a fault")

    with Page(analytics_enabled=False) as demo:
        field, button = gr.Image(), gr.Button()
        button.click(fails, None, None, api_name="handler")
        button.click(lambda _: None, field, None, api_name="loader")
    field.preprocess = fails  # pyright: ignore[reportAttributeAccessIssue]
    # In a thread of its own: in this one the browser's event loop may run.
    alone = ThreadPoolExecutor(1)
    with pytest.raises(TypeError, match="a fault"):
        alone.submit(lambda: asyncio.run(demo.process_api(0, []))).result()
    with pytest.raises(ComponentProcessingError, match="a fault"):
        alone.submit(lambda: asyncio.run(demo.process_api(1, [None]))).result()
