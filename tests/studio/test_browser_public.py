"""The whole page as anyone finds it on a Space: every tab is drawn, and nothing of one's own machine can be named."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browsing import TABS, opened
from playwright.sync_api import BrowserContext, Page, expect
from raw_requests import Served, ask, event_named, file_data, run_event

from studio.api import ENDPOINTS
from studio.examples import FOLDER
from studio.public import ALLOWED, PUBLIC_VARIABLE, ROOTS_VARIABLE
from studio.ui import build_app, launch_settings

# Who takes a file in public, and which: pictures, masks, and logs of runs, which are read as numbers.
TAKEN = {"picture": "image/*", "sparsity-mask": "image/*", "intervene-other": "image/*", "lambda-logs": ".jsonl"}
# Every field that takes a file: the nearest part of the page with a name, and what it takes.
TAKERS = """() => [...document.querySelectorAll('input[type=file]')].map((input) => {
  let place = input;
  while (!place.id) place = place.parentElement;
  return [place.id, input.accept]; })"""
# What is written on or in the fields that a person can use.
LABELS = """() => [...document.querySelectorAll('label, .label-wrap, [data-testid=block-info], input, textarea')]
  .filter((each) => each.checkVisibility()).map((each) => `${each.innerText} ${each.placeholder ?? ''}`)"""
FOLD = "button.label-wrap:not(.open):visible"


@pytest.fixture(scope="module")
def public(folders: tuple[Path, Path]) -> Iterator[Served]:
    """The whole page on the tiny models, as a Space starts it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(PUBLIC_VARIABLE, "1")
        # Where a page that is not public would open what is asked for below.
        environment.setenv(ROOTS_VARIABLE, str(folders[0].parent))
        demo = build_app(folders)
        _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
        yield Served(demo, url)
        demo.close()


def unfold(page: Page) -> None:
    """Open every fold that is seen."""
    for _ in range(page.locator(FOLD).count()):
        fold = page.locator(FOLD).first.element_handle()
        assert fold is not None
        fold.click()
        page.wait_for_function("(fold) => fold.classList.contains('open')", arg=fold)


def test_a_public_page_draws_every_tab_offers_the_list_alone_and_has_no_field_for_paths_and_checkpoints(
    public: Served, context: BrowserContext
) -> None:
    takers: set[tuple[str, str]] = set()
    with opened(context, public.address) as studio:
        page = studio.page
        for name, drawn in TABS.items():
            page.get_by_role("tab", name=name, exact=True).click()
            expect(page.locator(drawn).first).to_be_visible()
            unfold(page)
            if name == "λ trajectories":
                expect(page.locator("#lambda-logs input[type=file]")).to_be_attached()
            takers |= {(place, kinds) for place, kinds in page.evaluate(TAKERS)}
            labels = " ".join(page.evaluate(LABELS)).lower()
            assert "left model" in labels, name
            assert [word for word in ("path", "folder", "checkpoint file", ".safetensors") if word in labels] == [], (
                name
            )
        assert takers == set(TAKEN.items())
        expect(page.locator("#bring-files, #lambda-folders")).to_have_count(0)
        named = page.locator("#bring-name input")
        named.click()
        expect(page.get_by_role("option")).to_contain_text([entry.title for entry in ALLOWED])
        expect(page.get_by_role("option")).to_have_count(len(ALLOWED))
        for text in ("/etc/passwd", "..", "hf-hub:someone/else", "open_clip:ViT-B-16/openai"):
            named.fill(text)
            page.locator("#bring-left").click()
            expect(page.locator("#brought")).to_contain_text(f"'{text}' is not on its list")
        expect(page.locator("#left input")).to_have_value("CLIP, tiny")


def test_no_endpoint_and_no_event_of_a_public_page_takes_a_path_a_folder_or_a_checkpoint(
    public: Served, folders: tuple[Path, Path]
) -> None:
    named = json.loads(ask(public.address, "gradio_api/info?all_endpoints=true")[1])["named_endpoints"]
    assert set(named) == {f"/{name}" for name in ENDPOINTS}
    taken = {each["parameter_name"] for end in named.values() for each in end["parameters"] if "File" in str(each)}
    assert taken == {"picture"}
    scene, weights = (
        file_data(httpx.post(f"{public.address}gradio_api/upload", files={"files": file.open("rb")}).json()[0])
        for file in (FOLDER / "scene-0.png", folders[1] / "model.safetensors")
    )
    place, log = str(folders[1]), str(folders[1] / "log.jsonl")
    for name, data in (
        ("attention", [scene, place, 0]),
        ("rank", [scene, place, "cat"]),
        ("similarity", [scene, place, ["cat"]]),
        ("compare", [scene, place, place, "cat", "", []]),
        ("bring_model", [place, None, "", "clip-scenes", "diffclip-scenes", None]),
        ("bring_model", [f"{place}/model.safetensors", None, "", "clip-scenes", "diffclip-scenes", None]),
        ("bring_model", [None, [weights], "", "clip-scenes", "diffclip-scenes", None]),
        ("draw_lambdas", ["clip-scenes", "clip-scenes", [], None, place]),
        ("draw_lambdas", [place, place, [place], [file_data(log)], ""]),
    ):
        said = " ".join(run_event(public.address, event_named(public.demo, name), data))
        assert "is public" in said or '"success":false' in said.replace(": ", ":") or "There is no model" in said, name
        for private in ("is loaded", "root:", '"lam"', '"values"', '"cosine"'):
            assert private not in said, (name, data)
    models = json.loads(run_event(public.address, event_named(public.demo, "models"), [])[-1].removeprefix("data:"))
    assert [each["name"] for each in models["output"]["data"][0]] == ["clip-scenes", "diffclip-scenes"]
