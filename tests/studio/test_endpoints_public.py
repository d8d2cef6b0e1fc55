"""The whole page asked by raw requests: programs may call what is documented, and no event reads other files."""

import json
from pathlib import Path
from typing import Any

import gradio as gr
import httpx
import numpy as np
import pytest
from gradio.utils import get_upload_folder
from gradio_client import Client
from listening import listening
from PIL import Image
from raw_requests import Served, ask, ask_as_written, event_named, file_data, run_event

from studio.api import ENDPOINTS
from studio.examples import FOLDER

MARK = "4b1d-not-yours"
# What the endpoints take behind the picture, so that nothing but the picture can be wrong.
BEHIND = {
    "attention": ["clip-scenes", 1, -1, -1, -1, "weights", 1.0, "qk", "reads", ""],
    "rank": ["clip-scenes", "cat", "{}"],
    "similarity": ["clip-scenes", ["a cat"]],
}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Good files of each kind that a field takes, outside of the upload folder; the log holds MARK."""
    folder = tmp_path_factory.mktemp("secret")
    pixels = np.random.default_rng(4).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "secret.png")
    line = {"step": 1, "samples": 1, "loss": 1.0, "lambda": {"vision": [0.8], "text": [0.8]}, "note": MARK}
    (folder / "secret.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    return {"Image": folder / "secret.png", "File": folder / "secret.jsonl"}


def test_the_named_endpoints_of_the_whole_page_are_the_documented_ones(served: Served) -> None:
    info = served.demo.get_api_info()
    assert info is not None
    assert set(info["named_endpoints"]) == {f"/{name}" for name in ENDPOINTS}
    status, text = ask(served.address, "gradio_api/info?all_endpoints=true")
    everything = json.loads(text)
    assert status == 200
    assert set(everything["named_endpoints"]) == {f"/{name}" for name in ENDPOINTS}
    assert everything["unnamed_endpoints"] == {}
    # What a page's own controls call is listed in the configuration, and marked there as nobody else's.
    events = json.loads(ask(served.address, "config")[1])["dependencies"]
    assert len(events) > 20
    public = [event["api_name"] for event in events if event["api_visibility"] != "private"]
    assert sorted(public) == sorted(ENDPOINTS)


def test_client_libraries_do_not_call_what_the_pages_own_controls_call(served: Served) -> None:
    private = {str(event.api_name) for event in served.demo.fns.values() if event.fn and event.api_name}
    private -= set(ENDPOINTS)
    assert {"compare", "run_edits", "bring_model"} <= private
    client = Client(served.address, verbose=False)
    for name in sorted(private):
        with pytest.raises(ValueError, match="Cannot find a function"):
            client.predict(api_name=f"/{name}")


def ways(secret: Path, elsewhere: str) -> list[dict[str, Any]]:
    """How a raw request can name a file that was not uploaded, the plainest first."""
    uploads = Path(get_upload_folder())
    link = uploads / f"link-{secret.name}"
    uploads.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(secret)
    up = "/".join([".."] * len(uploads.resolve().parts[1:]))
    climbing = f"{uploads}/{up}{secret}"
    assert Path(climbing).is_file()
    named = [str(secret), climbing, str(link), f"file://{secret}"]
    files = [form for path in named for form in ({"path": path}, file_data(path))]
    return [
        *files,
        {"path": "x.png", "url": f"file://{secret}", "meta": {"_type": "gradio.FileData"}},
        {"path": "x.png", "url": f"{elsewhere}/{secret.name}", "meta": {"_type": "gradio.FileData"}},
        {"path": f"{elsewhere}/{secret.name}", "meta": {"_type": "gradio.FileData"}},
    ]


def uploaded_scene(served: Served) -> dict[str, Any]:
    """A scene that was sent to the server, as a client names it."""
    with (FOLDER / "scene-0.png").open("rb") as file:
        answer = httpx.post(f"{served.address}gradio_api/upload", files={"files": ("scene-0.png", file)}, timeout=60)
    return file_data(answer.json()[0])


def refused(said: list[str]) -> bool:
    """Whether an event ended with a sentence of ours, and not with a fault of the program."""
    last = said[-1].replace(": ", ":")
    return '"success":false' in last and '"title":"Not done"' in last


def takes_files(served: Served) -> dict[tuple[str, int], tuple[int, str, list[Any]]]:
    """(handler, place) -> (event, kind of field, everything as the page sends it at first), each handler once."""
    found: dict[tuple[str, int], tuple[int, str, list[Any]]] = {}
    for index, event in served.demo.fns.items():
        first = [None if isinstance(field, gr.Image) else getattr(field, "value", None) for field in event.inputs]
        if event.name in BEHIND:
            first = [None, *BEHIND[event.name]]
        for place, field in enumerate(event.inputs):
            kind = "File" if isinstance(field, gr.File) else "Image"
            picture = event.name in BEHIND and place == 0
            if event.fn and (picture or isinstance(field, gr.Image | gr.File)):
                found.setdefault((str(event.name), place), (index, kind, first))
    return found


def test_no_event_reads_a_file_that_was_not_uploaded(served: Served, secrets: dict[str, Path]) -> None:
    fields = takes_files(served)
    handlers = {name for name, _ in fields}
    assert {"compare", "segment", "run", "run_duel", "run_edits", "draw_lambdas", "attention", "rank"} <= handlers
    with listening() as elsewhere:
        for (name, place), (index, kind, first) in fields.items():
            # All handlers take their files by one of two functions, so each way is tried on some of them.
            tried = ways(secrets[kind], elsewhere.address)[: None if name in ("compare", "rank", "draw_lambdas") else 2]
            for way in tried:
                sent = [way] if kind == "File" else way
                said = run_event(served.address, index, [*first[:place], sent, *first[place + 1 :]])
                assert MARK not in " ".join(said), (name, way)
                if kind == "Image":
                    assert '"success":false' in said[-1].replace(": ", ":"), (name, place, way)
                    # What has Gradio's mark is refused by Gradio itself, and what has not by us.
                    assert "meta" in way or refused(said), (name, place, way)
        assert elsewhere.requests == [], "the server fetched an address for somebody"
    for path in Path(get_upload_folder()).rglob("*"):
        assert path.is_symlink() or not path.is_file() or MARK.encode() not in path.read_bytes(), path


def test_no_address_of_the_server_gives_another_file(served: Served, secrets: dict[str, Path]) -> None:
    secret, up = secrets["File"], "../" * 12
    link = Path(get_upload_folder()) / f"link-{secret.name}"
    ways(secret, served.address)  # makes the link
    assert link.read_text(encoding="utf-8").count(MARK) == 1
    paths = [
        str(secret),
        f"{up}{str(secret)[1:]}",
        f"{FOLDER}/{up}{str(secret)[1:]}",
        f"{FOLDER}/..%2f..%2fcheckpoints%2fclip-scenes%2fconfig.json",
        f"{FOLDER}/../checkpoints/clip-scenes/config.json",
        str(link),
        "app.py",
        f"{FOLDER.parent.parent}/app.py",
        "/etc/passwd",
        f"file://{secret}",
    ]
    places = ["/gradio_api/file=", "/gradio_api/file/", "/static/", "/assets/", "/svelte/", "/custom_component/", "/"]
    for place in places:
        for path in paths:
            status, text = ask_as_written(served.address, f"{place}{path}")
            for private in (MARK, "root:", "launch_settings", '"embed_dim"', '"preprocess"'):
                assert private not in text, (place, path, status)
    assert ask_as_written(served.address, f"/gradio_api/file={FOLDER}/scene-0.png")[0] == 200
    assert ask_as_written(served.address, f"/gradio_api/proxy={served.address}config")[0] >= 400


def test_an_upload_lands_in_the_upload_folder_whatever_it_is_called(served: Served, tmp_path: Path) -> None:
    folder = Path(get_upload_folder()).resolve()
    for name in ("../../climbed.png", f"{tmp_path}/absolute.png", "..\\back.png", "a\nb.png", "<img src=x>.png"):
        answer = httpx.post(f"{served.address}gradio_api/upload", files={"files": (name, b"x")}, timeout=60)
        assert answer.status_code < 500
        for path in answer.json() if answer.status_code == 200 else []:
            assert Path(path).resolve().is_relative_to(folder), name
    assert list(tmp_path.iterdir()) == []


def test_functions_of_components_answer_no_question_about_files(served: Served, secrets: dict[str, Path]) -> None:
    functions = [
        (number, function if isinstance(function, str) else function.__name__)
        for number, block in served.demo.blocks.items()
        for function in getattr(block, "server_fns", None) or []
    ]
    assert len(functions) >= 3
    for number, name in functions:
        for data in (file_data(secrets["Image"]), [file_data(secrets["File"])], str(secrets["File"]), None):
            body = {"data": data, "component_id": number, "fn_name": name, "session_hash": "raw"}
            status, text = ask(served.address, "gradio_api/component_server", body)
            assert MARK not in text
            assert status != 200 or '"error"' in text, (name, data)
    for name in ("postprocess", "preprocess", "__class__"):
        body = {"data": str(secrets["File"]), "component_id": functions[0][0], "fn_name": name, "session_hash": "raw"}
        assert ask(served.address, "gradio_api/component_server", body)[0] >= 400, name


@pytest.mark.parametrize(
    "change",
    [
        {"row": None},
        {"row": -1},
        {"col": 4},
        {"row": 10**9},
        {"row": 1.5},
        {"col": "1"},
        {"key": "nobody"},
        {"key": None},
    ],
    ids=str,
)
def test_a_click_beyond_the_patches_gets_a_sentence_and_chooses_nothing(served: Served, change: dict[str, Any]) -> None:
    data = [uploaded_scene(served), "clip-scenes", "diffclip-scenes"]
    clicked = {"key": "clip-scenes", "row": 1, "col": 2}
    index = event_named(served.demo, "ask_patch")
    assert '"1, 2"' in run_event(served.address, index, data, clicked)[-1]
    assert refused(run_event(served.address, index, data, clicked | change))


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("similarity", [[]]),
        ("similarity", ["a cat"]),
        ("similarity", [[3]]),
        ("similarity", [["a cat"] * 201]),
        ("similarity", [["a cat " * 2000]]),
        ("rank", ["", "{}"]),
        ("rank", [2.5, "{}"]),
        ("rank", ["cat", {"a": 1}]),
        ("rank", [["cat"], "{}"]),
        ("rank", ["cat", "photo"]),
        ("rank", ["cat", "{0.__class__}"]),
    ],
    ids=str,
)
def test_texts_and_templates_that_cannot_be_read_get_a_sentence(served: Served, name: str, asked: list[Any]) -> None:
    data = [uploaded_scene(served), "clip-scenes", *asked]
    assert refused(run_event(served.address, event_named(served.demo, name), data))


@pytest.mark.parametrize(
    ("name", "field", "sent"),
    [
        ("compare", "left", []),
        ("rank_classes", "right", []),
        ("segment", "sparsity-classes", None),
        ("settings_of", "explain-method", []),
        ("read", "text-prompts", None),
        ("bounds", "right", []),
    ],
    ids=str,
)
def test_what_is_no_text_where_a_page_sends_one_gets_a_sentence(
    served: Served, name: str, field: str, sent: Any
) -> None:
    index = event_named(served.demo, name)
    inputs = served.demo.fns[index].inputs
    data = [uploaded_scene(served) if each.elem_id == "picture" else getattr(each, "value", None) for each in inputs]
    data = [sent if each.elem_id == field else value for each, value in zip(inputs, data, strict=True)]
    assert sent in data
    assert refused(run_event(served.address, index, data))


def test_a_click_that_says_no_place_gets_a_sentence(served: Served) -> None:
    data = [uploaded_scene(served), "clip-scenes", "diffclip-scenes"]
    for place in (None, [], "x"):
        assert refused(run_event(served.address, event_named(served.demo, "ask_patch"), data, place))


@pytest.mark.parametrize("template", ["{}{}", "a {colour} {}"])
def test_a_template_with_other_braces_is_taken_as_it_stands(served: Served, template: str) -> None:
    data = [uploaded_scene(served), "clip-scenes", "cat", template]
    assert not refused(run_event(served.address, event_named(served.demo, "rank"), data))


def test_texts_of_every_script_have_a_similarity(served: Served) -> None:
    texts = ["猫", "قطة", "แมว", "👩🏽‍🚀", "👨‍👩‍👧", "a\0b", "\ud800", "ａｂｃ", "\u200fcat", "", "a cat " * 200]
    data = [uploaded_scene(served), "clip-scenes", texts]
    last = json.loads(run_event(served.address, event_named(served.demo, "similarity"), data)[-1].removeprefix("data:"))
    (found,) = last["output"]["data"]
    assert len(found) == len(texts)
    assert all(-1 <= value <= 1 for value in found)
