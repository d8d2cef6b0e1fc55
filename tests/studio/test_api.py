"""The public endpoints are those that are documented, answer with numbers, and open no file but an uploaded one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import httpx
import pytest
from gradio_client import Client, handle_file
from PIL import Image

from models import StudioError, attention_maps
from studio.api import ENDPOINTS, add_api, uploaded
from studio.examples import Example
from studio.service import Service
from studio.upload import Upload


@pytest.fixture(scope="module")
def served(folders: tuple[Path, Path], examples: tuple[Example, ...]) -> Iterator[tuple[Service, str]]:
    service = Service(folders, examples)
    with gr.Blocks(analytics_enabled=False) as demo:
        add_api(service)
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield service, url
    demo.close()


@pytest.fixture(scope="module")
def client(served: tuple[Service, str]) -> Client:
    return Client(served[1], verbose=False)


@pytest.fixture
def sent(scene: Upload) -> Any:
    return handle_file(str(scene.file))


def test_the_public_endpoints_are_these_and_each_argument_is_described(client: Client) -> None:
    info: Any = client.view_api(return_format="dict", print_info=False)
    assert set(info["named_endpoints"]) == {f"/{name}" for name in ENDPOINTS}
    assert info["unnamed_endpoints"] == {}
    for name, endpoint in info["named_endpoints"].items():
        assert endpoint["description"], name


def test_docstrings_describe_every_argument_for_tools(served: tuple[Service, str]) -> None:
    from studio import api

    for make in (api._models, api._attention, api._rank, api._similarity):
        function = make(served[0])
        text = function.__doc__ or ""
        for argument in function.__annotations__:
            if argument != "return":
                assert f"            {argument}: " in text, (function.__name__, argument)


def test_models_are_listed_with_what_the_other_endpoints_need(client: Client) -> None:
    found = {entry["name"]: entry for entry in client.predict(api_name="/models")}
    assert set(found) == {"clip-scenes", "diffclip-scenes"}
    assert found["diffclip-scenes"]["grid"] == [4, 4]
    assert len(found["diffclip-scenes"]["lambda"]) == found["diffclip-scenes"]["layers"] == 3
    assert found["clip-scenes"]["lambda"] is None


def test_attention_gives_the_numbers_of_the_map_and_a_picture(
    client: Client, served: tuple[Service, str], scene: Upload, sent: Any
) -> None:
    numbers, file = client.predict(sent, "diffclip-scenes", 1, head=1, query_row=2, query_col=3, api_name="/attention")
    row = attention_maps(served[0].look("diffclip-scenes", scene.image).recording[1]).weights[0, 1, 1 + 2 * 4 + 3]
    flat = [value for line in numbers["values"] for value in line]
    assert flat == pytest.approx(row[1:].tolist(), abs=1e-6)
    assert [17 * value for value in flat] == pytest.approx([v for line in numbers["times_uniform"] for v in line])
    assert numbers["prefix"] == pytest.approx(row[:1].tolist())
    assert set(numbers["statistics_a2_shuffled"]) < set(numbers["statistics"])
    assert numbers["recipe"]["view"]["query"] == [2, 3, "diffclip-scenes"]
    assert Image.open(file).format == "PNG"


def test_the_numbers_of_relevance_come_with_those_of_a_run_with_a2_shuffled(client: Client, sent: Any) -> None:
    numbers, _ = client.predict(sent, "diffclip-scenes", 0, kind="relevance", text="a cat", api_name="/attention")
    assert set(numbers["statistics_a2_shuffled"]) == set(numbers["statistics"])
    assert numbers["statistics_a2_shuffled"] != numbers["statistics"]
    assert numbers["recipe"]["view"]["panels"][0]["control"] is True
    plain, _ = client.predict(sent, "clip-scenes", 0, kind="relevance", text="a cat", api_name="/attention")
    assert plain["statistics_a2_shuffled"] == {}
    for name, found in (("diffclip-scenes", numbers), ("clip-scenes", plain)):
        (cosine,) = client.predict(sent, name, ["a cat"], api_name="/similarity")
        assert found["statistics"]["similarity"] == pytest.approx(cosine, abs=1e-5)


def test_relevance_ranks_and_similarities_agree_with_each_other(client: Client, sent: Any) -> None:
    numbers, _ = client.predict(sent, "clip-scenes", 0, kind="relevance", text="a cat", api_name="/attention")
    assert all(value >= 0 for line in numbers["values"] for value in line)
    ranked = client.predict(sent, "clip-scenes", "cat, dog", "a {}", api_name="/rank")
    assert sum(entry["probability"] for entry in ranked) == pytest.approx(1)
    cosines = client.predict(sent, "clip-scenes", [entry["text"] for entry in ranked], api_name="/similarity")
    assert cosines == pytest.approx([entry["cosine"] for entry in ranked], abs=1e-5)
    assert cosines == sorted(cosines, reverse=True)
    alone = client.predict(sent, "clip-scenes", "cat", api_name="/rank")
    assert alone[0]["probability"] is None, "a single class is no certainty"


@pytest.mark.parametrize(
    "change",
    [
        {"layer": 99},
        {"layer": 1.5},
        {"layer": "1"},
        {"head": 9},
        {"head": -2},
        {"kind": "jet"},
        {"model": "nobody"},
        {"alpha": 3},
        {"source": "vv"},
        {"query_row": 1},
        {"query_row": 9, "query_col": 0},
        {"kind": "relevance", "text": ""},
        {"picture": None},
    ],
    ids=str,
)
def test_wrong_values_get_a_sentence(client: Client, sent: Any, change: dict) -> None:
    asked = {"picture": sent, "model": "diffclip-scenes", "layer": 1} | change
    with pytest.raises(Exception, match=r"\.$") as caught:
        client.predict(**asked, api_name="/attention")
    assert "Traceback" not in str(caught.value)


def test_no_other_file_of_the_server_can_be_named(served: tuple[Service, str], tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    Image.new("RGB", (40, 40), "red").save(secret)
    for payload in ({"path": str(secret)}, {"path": str(secret), "meta": {"_type": "gradio.FileData"}}, str(secret)):
        posted = httpx.post(
            f"{served[1]}gradio_api/call/similarity", json={"data": [payload, "clip-scenes", ["a"]]}, timeout=60
        )
        answer = httpx.get(f"{served[1]}gradio_api/call/similarity/{posted.json()['event_id']}", timeout=60).text
        assert "event: error" in answer
        assert str(tmp_path) not in answer


@pytest.mark.parametrize("picture", [None, "x", 3, {}, {"path": 5}, {"path": "/etc/passwd"}, {"path": ""}])
def test_what_is_no_upload_is_refused(picture: object) -> None:
    with pytest.raises(StudioError):
        uploaded(picture)
