"""People who use one server at once: what one of them does is seen by nobody else, and a long run holds nobody up."""

import json
import secrets
import threading
import time
from pathlib import Path
from typing import Any

import gradio as gr
import httpx
import numpy as np
import pytest
from hooked import pictures_read, slow_models
from PIL import Image
from raw_page import RawPage, Visitor
from raw_requests import Served, ask, event_named, file_data, run_event

from models import open_picture
from studio.examples import picture_token
from studio.methods import FEWEST_STEPS, MOST_STEPS
from studio.tabs.following import place_in_line


def sent_picture(served: Served, folder: Path, seed: int) -> tuple[dict[str, Any], str]:
    """An uploaded picture of noise, as the page names it, and the token of its pixels."""
    path = folder / f"{seed}.png"
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    with path.open("rb") as file:
        answer = httpx.post(f"{served.address}gradio_api/upload", files={"files": (path.name, file)}, timeout=60)
    return file_data(answer.json()[0]), picture_token(open_picture(path))


def outcome(said: list[str]) -> str:
    assert '"success":true' in said[-1].replace(": ", ":"), said[-1][:300]
    return said[-1]


def test_the_page_keeps_no_state_of_a_person_on_the_server(served: Served) -> None:
    assert not [block for block in served.demo.blocks.values() if isinstance(block, gr.State)]


def test_what_one_person_wrote_and_saw_reaches_nobody_else(served: Served, tmp_path: Path) -> None:
    before = ask(served.address, "config")[1]
    people = [(f"mark-of-{name}", *sent_picture(served, tmp_path, seed)) for seed, name in enumerate("abc")]
    answers: dict[str, str] = {}

    def use(mark: str, picture: dict[str, Any]) -> None:
        data = [picture, "clip-scenes", "diffclip-scenes", f"{mark}, cat", "{}", []]
        answers[mark] = outcome(run_event(served.address, event_named(served.demo, "compare"), data))

    threads = [threading.Thread(target=use, args=(mark, picture)) for mark, picture, _ in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mark, _, token in people:
        for other, _, others_token in people:
            assert (other in answers[mark]) is (other == mark)
            assert (others_token in answers[mark]) is (others_token == token)
    after = ask(served.address, "config")[1]
    assert "mark-of" not in after
    assert json.loads(after)["components"] == json.loads(before)["components"], "what a page opens with is as it was"


def test_a_long_run_holds_nobody_up(served: Served, tmp_path: Path) -> None:
    picture, _ = sent_picture(served, tmp_path, 7)
    texts = "\n".join(f"a photo of a cat {number}" for number in range(2))
    index = event_named(served.demo, "run")
    first = [getattr(field, "value", None) for field in served.demo.fns[index].inputs]
    page = [1.0, picture, "clip-scenes", "diffclip-scenes"]
    long = [*page, texts, "ig", *first[6:9], MOST_STEPS, *first[10:]]
    ended: dict[str, float] = {}

    def explain() -> None:
        outcome(run_event(served.address, index, long))
        ended["long"] = time.monotonic()

    thread = threading.Thread(target=explain)
    thread.start()
    time.sleep(0.3)
    for number in range(5):
        quick = [picture, "clip-scenes", "diffclip-scenes", f"cat, dog {number}", "{}", []]
        outcome(run_event(served.address, event_named(served.demo, "compare"), quick))
    ended["quick"] = time.monotonic()
    thread.join()
    assert ended["quick"] < ended["long"]


def test_a_long_run_of_another_page_ends_its_event_and_has_its_turn_when_it_asks_after_the_first_has_ended(
    served: Served, tmp_path: Path
) -> None:
    picture, _ = sent_picture(served, tmp_path, 8)
    page = RawPage.at(served.address)
    first, second = page.visitor(), page.visitor()
    told: list[str] = []

    def explain(visitor: Visitor, texts: str, steps: int) -> str:
        fields = page.fields["run"]
        given = [1.0, picture, "clip-scenes", "diffclip-scenes", texts, "ig", *fields[6:9], steps, *fields[10:]]
        return visitor.event("run", given)[2]

    thread = threading.Thread(target=lambda: told.append(explain(first, "a cat\na dog", MOST_STEPS)))
    thread.start()
    time.sleep(0.3)
    said, again = explain(second, "a cat", FEWEST_STEPS), 2.0
    assert said == place_in_line(1)
    assert thread.is_alive(), "it did not wait for its turn before it answered"
    for _ in range(600):
        said, number, turn = second.at_once("run_looks", [again, said])
        if turn == again:
            break
        assert (said, number) == (place_in_line(1), again + 1), "by this the page asks again"
        again = number
        time.sleep(0.1)
    *_, said, _ = second.event("run_in_turn", [turn])
    thread.join()
    assert " passes in " in told[0]
    assert " passes in " in said


def passes_until(served: Served, index: int, data: list[Any], told: str) -> None:
    """Begin a run, listen until so much was told, and have the connection cut there."""
    session = secrets.token_hex(6)
    joined = {"data": data, "fn_index": index, "session_hash": session, "event_data": None}
    assert ask(served.address, "gradio_api/queue/join", joined)[0] == 200
    with httpx.stream("GET", f"{served.address}gradio_api/queue/data?session_hash={session}", timeout=60) as stream:
        for line in stream.iter_lines():
            assert "process_completed" not in line, "it ended before it could be cut"
            if told in line:
                return


def at_rest(runs: list[Any]) -> int:
    """How many passes were made, when no more are being made."""
    before = -1
    while len(runs) != before:
        before = len(runs)
        time.sleep(0.4)
    return before


# What can be lost: the handler (of those with one name the first or second), what its fields hold otherwise than when
# the page opens, by their place after the models, and what it tells while it is under way.
LOST: dict[str, tuple[str, int, dict[int, Any], str]] = {
    "explanation": ("run", 0, {0: "a cat\na dog", 1: "ig", 5: FEWEST_STEPS, 8: False}, " passes, "),
    "duel": ("run_duel", 0, {0: "a cat", 1: "", 4: 5}, " passes, "),
    "sweep": ("sweep", 1, {}, "run 1 of "),
    "segmentation": ("segment", 0, {}, ": 1 of "),
}


@pytest.mark.parametrize("name", LOST)
def test_a_long_run_that_was_lost_with_its_connection_goes_on_where_it_was_when_it_is_asked_for_again(
    served: Served, tmp_path: Path, name: str
) -> None:
    handler, at, other, told = LOST[name]
    index = [number for number, event in served.demo.fns.items() if event.name == handler][at]
    fields = [getattr(field, "value", None) for field in served.demo.fns[index].inputs][4:]
    pictures = [sent_picture(served, tmp_path, 12 + seed)[0] for seed in range(2)]
    whole, cut = (
        [1.0, each, "clip-scenes", "diffclip-scenes", *(other.get(place, field) for place, field in enumerate(fields))]
        for each in pictures
    )
    with pictures_read() as runs:
        outcome(run_event(served.address, index, whole))
        wanted = len(runs)
        runs.clear()
        with slow_models(0.05):
            passes_until(served, index, cut, told)
            made = at_rest(runs)
        assert 0 < made < wanted, "nobody listened any more, so it was left"
        said = outcome(run_event(served.address, index, cut))
        assert len(runs) == wanted, "what was made before the cut was not made again"
        assert "rom memory" in said
        assert "rom memory" in outcome(run_event(served.address, index, cut))
        assert len(runs) == wanted, "its result was kept"


def test_an_answer_that_was_lost_with_its_connection_is_fetched_again_without_another_run(
    served: Served, tmp_path: Path
) -> None:
    picture, token = sent_picture(served, tmp_path, 11)
    index = event_named(served.demo, "compare")
    data = [picture, "clip-scenes", "diffclip-scenes", "cat, dog", "{}", []]
    with pictures_read() as runs:
        joined = {"data": data, "fn_index": index, "session_hash": "lost", "event_data": None}
        assert ask(served.address, "gradio_api/queue/join", joined)[0] == 200
        # Nobody listens to this session, as after a proxy has cut the connection.
        until = time.monotonic() + 60
        while len(runs) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(runs) == 2, "each model looked at the picture"
        assert token in outcome(run_event(served.address, index, data))
    assert len(runs) == 2, "what the models did with it was kept"
