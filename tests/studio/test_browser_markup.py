"""Markup in whatever a person or a file says stays text, on every tab in a real Chromium."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Studio, opened
from checkpoint_folders import write_checkpoint
from playwright.sync_api import BrowserContext, expect

from models import LoadedModel
from models.tokenizer import DomainTokenizer
from studio.examples import load_examples
from studio.ui import build_app, launch_settings

SCENE = load_examples()[0]


def markup(what: str) -> str:
    """Text that would leave a trace in the page if it were taken for markup; in names it can stand too."""
    return f"<img src=x onerror=window.ran='{what}'>"


TITLE, CLASS, PROMPT = markup("title"), markup("class"), f"a cat {markup('prompt')}"


@pytest.fixture(scope="module")
def page(
    context: BrowserContext,
    folders: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
    diffclip: LoadedModel,
    tokenizer: DomainTokenizer,
) -> Iterator[Studio]:
    """The page on a CLIP and on a DiffCLIP whose title and run are markup."""
    folder = tmp_path_factory.mktemp("markup")
    write_checkpoint(folder / "titled", diffclip, TITLE, tokenizer)
    shutil.copy(folders[1] / "log.jsonl", folder / "titled")
    demo = build_app([folders[0], folder / "titled"])
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
    try:
        with opened(context, url) as studio:
            yield studio
            # A picture of that name is asked for only where markup became part of the page.
            assert studio.faults == []
    finally:
        demo.close()


def check(page: Studio, place: str, *texts: str) -> None:
    """The texts stand there as they were written, and nothing on the page came of them."""
    for text in texts:
        expect(page.page.locator(place).last).to_contain_text(text)
    assert page.page.evaluate("window.ran") is None
    assert page.page.locator("img[src='x'], svg image[href='x']").count() == 0


def tab(page: Studio, name: str) -> None:
    page.page.get_by_role("tab", name=name, exact=True).click()


def test_compare_shows_titles_classes_and_texts_as_text(page: Studio) -> None:
    check(page, "#viewer .panels", TITLE)
    page.page.locator("#classes textarea").fill(f"{CLASS}\ncat")
    page.page.locator("#template input, #template textarea").first.fill(f"{markup('template')} {{}}")
    page.page.locator("#rank").click()
    check(page, "#scores", CLASS, TITLE)
    page.choose(0, "kind", "relevance")
    page.viewer.locator(".text").fill(PROMPT)
    page.viewer.locator(".work-out").click()
    check(page, "#viewer .relevance-note", PROMPT)
    page.viewer.locator(".overview-toggle").click()
    expect(page.viewer.locator(".cells")).to_have_count(2)
    check(page, "#viewer .overview", TITLE)


def test_sparsity_shows_classes_as_text_in_tables_legends_and_curves(page: Studio) -> None:
    tab(page, "Sparsity")
    check(page, "#sparsity-maps", TITLE)
    page.page.locator("#sparsity-classes textarea").fill(f"{CLASS}\n{SCENE.objects[0]}")
    page.page.locator("#sparsity-mode").get_by_label("intervention", exact=True).check()
    check(page, "#sparsity-answers", CLASS, TITLE)
    page.page.locator("#sparsity-segment").click()
    check(page, "#sparsity-segments-right", CLASS, TITLE)
    page.page.locator("#sparsity-sweep").click()
    expect(page.page.locator("#sparsity-figure .legendtext").first).to_be_visible()
    check(page, "#sparsity-figure .legend", TITLE)
    page.page.locator("#sparsity-query input, #sparsity-query textarea").first.fill(markup("query"))
    page.page.locator("#sparsity-show").click()
    check(page, "[data-testid=toast-body]", "is no patch")
    page.page.locator("#sparsity-query input, #sparsity-query textarea").first.fill("CLS")


def test_trajectories_show_runs_as_text(page: Studio) -> None:
    tab(page, "λ trajectories")
    check(page, "#lambda-chart", TITLE)


def test_a_run_that_was_sent_is_named_as_text_whatever_it_holds(
    page: Studio, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    sent = tmp_path / f"{markup('run')}.jsonl"
    with sent.open("w", encoding="utf-8") as log:
        for line in (folders[1] / "log.jsonl").read_text(encoding="utf-8").splitlines():
            step = json.loads(line)
            step["lambda"][markup("tower")] = [0.5]
            log.write(json.dumps({**step, markup("key"): markup("value")}) + "\n")
    tab(page, "λ trajectories")
    page.page.locator("#lambda-more button").first.click()
    page.page.locator("#lambda-logs input[type=file]").set_input_files(sent)
    check(page, "#lambda-chart", "onerror=window.ran='run'")
    check(page, "#lambda-logs", "onerror")


def test_explain_shows_prompts_as_text_on_panels_words_and_curves(page: Studio) -> None:
    tab(page, "Explain")
    page.page.locator("#explain-prompts textarea").fill(PROMPT)
    page.page.locator("#explain-run").click()
    expect(page.page.locator("#explain-strip .panel")).to_have_count(2)
    check(page, "#explain-strip", PROMPT, TITLE)
    check(page, "#explain-words", PROMPT, TITLE)
    page.page.locator("#duel-points input[type=range]").press("Home")
    page.page.locator("#duel-run").click()
    expect(page.page.locator("#duel-insertion .js-plotly-plot")).to_be_visible()
    check(page, "#duel-table", PROMPT, TITLE)
    check(page, "#duel-insertion .gtitle", PROMPT)


def test_intervene_shows_classes_and_titles_as_text(page: Studio) -> None:
    tab(page, "Intervene")
    check(page, "#bench-right", TITLE)
    page.page.locator("#intervene-classes textarea").fill(f"{CLASS}\ncat")
    page.page.locator("#intervene-run").click()
    check(page, "#intervene-outcome", CLASS, TITLE)
    check(page, "#intervene-maps", TITLE)
    page.page.locator("#sweep-run").click()
    expect(page.page.locator("#sweep-right-classes .gtitle")).to_be_visible()
    check(page, "#sweep-right-classes .gtitle", TITLE)


def test_text_shows_tokens_and_titles_as_text(page: Studio) -> None:
    tab(page, "Text")
    page.page.locator("#text-prompts textarea").fill(f"{PROMPT}\na dog")
    page.page.locator("#text-run").click()
    check(page, "#text-maps", PROMPT, TITLE)


def test_a_file_name_is_text_in_messages_and_in_the_picture_field(page: Studio, tmp_path: Path) -> None:
    (tmp_path / f"{markup('file')}.png").write_bytes(b"no picture")
    page.upload(tmp_path / f"{markup('file')}.png")
    check(page, "[data-testid=toast-body]", "not a picture")


def test_a_brought_model_that_was_refused_or_loaded_is_named_as_text(page: Studio, folders: tuple[Path, Path],
                                                                     tmp_path: Path) -> None:  # fmt: skip
    page.page.locator("#bring").get_by_role("button").first.click()
    page.page.locator("#bring-name input, #bring-name textarea").first.fill(markup("name"))
    page.page.locator("#bring-right").click()
    check(page, "#brought .said", markup("name"))
    page.page.locator("#bring-name input, #bring-name textarea").first.fill("")
    page.page.locator("#bring-settings input, #bring-settings textarea").first.fill(markup("settings"))
    named = tmp_path / f"{markup('weights')}.safetensors"
    shutil.copy(folders[1] / "model.safetensors", named)
    config = json.loads((folders[1] / "config.json").read_text(encoding="utf-8"))
    config |= {"domain": markup("domain"), "family": markup("family"), "assumed": [markup("assumed")]}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    files = [named, tmp_path / "config.json", folders[1] / "tokenizer.json"]
    page.page.locator("#bring-files input[type=file]").first.set_input_files(files)
    expect(page.page.locator("#bring-files")).to_contain_text(re.compile(r"tokenizer\s*\.json"))
    page.page.locator("#bring-right").click()
    check(page, "#brought .said.failed", "<img src")
    page.page.locator("#bring-settings input, #bring-settings textarea").first.fill("")
    page.page.locator("#bring-right").click()
    check(page, "#brought .said", "is loaded.")
    check(page, "#brought", markup("assumed"))
