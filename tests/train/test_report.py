"""The report is one page that loads nothing, with every curve of the log in it and in words."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from models.errors import StudioError
from train.config import load_config
from train.logbook import read_log
from train.loop import fit
from train.report import charts, report_page, write_report
from train.svg import MOST_POINTS, Chart, Series, figure, log_ticks, short, thinned, ticks

SHIPPED = Path(__file__).parents[2] / "assets" / "checkpoints"
VOID = ("meta", "br")


class Balance(HTMLParser):
    """Fails where a tag is closed that is not the open one."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def titles(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_a_run_and_an_exported_folder_have_a_page_that_stands_alone(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = ["evaluation={of=[{scenes=4}]}", "log.rate_seconds=0.01", 'title="<b>T</b>"']
    fit(load_config(config_file, settings), run)
    written = write_report(run)
    assert written == run / "report.html"
    for page in (written.read_text(), report_page(SHIPPED / "diffclip-scenes")):
        balance = Balance()
        balance.feed(page)
        assert not balance.open
        assert not re.search(r"(?:src|href)=|@import|url\(|<script", page)
        assert {"Loss", "Learning rate", "λ, vision", "λ, text", "Gradient norm", "Speed"} <= set(titles(page))
        assert page.count('role="img"') == len(titles(page)) == page.count("<desc ")
    page = written.read_text()
    wanted = {"Entropy of A1, vision", "Overlap of A1 and A2, text", "Update norms", "MFU", "zero-shot/scenes/top1"}
    assert wanted <= set(titles(page))
    assert "<b>T</b>" not in page
    assert "8 of 8" in page


def test_the_lambda_of_diff_v2_and_the_scale_of_float16_have_curves(config_file: Path, tmp_path: Path) -> None:
    run, kinds = tmp_path / "run", [f"model.{tower}.attention=differential_v2" for tower in ("vision", "text")]
    fit(load_config(config_file, [*kinds, "precision=float16", "log.probe_every=2", "stop_after=4"]), run)
    lines = read_log(run / "log.jsonl")
    found = {chart.title: chart for chart in charts(lines, [])}
    for tower, layers in (("vision", 2), ("text", 1)):
        for title, key in (
            ("Mean λ of heads and tokens", "lambda"),
            ("Spread of λ over heads and tokens", "lambda_spread"),
        ):
            series = found[f"{title}, {tower}"].series
            looks = [(line["step"], line["probe"][tower][key]) for line in lines if "probe" in line]
            assert [step for step, _ in looks] == [1, 2, 4]
            assert [one.points for one in series] == [
                tuple((step, values[layer]) for step, values in looks) for layer in range(layers)
            ]
        assert f"λ, {tower}" not in found
    (scale,) = found["Loss scale"].series
    assert scale.points == tuple((line["step"], line["loss_scale"]) for line in lines)


def test_a_page_can_be_made_of_a_run_that_is_still_going_on(tmp_path: Path) -> None:
    lines = [{"step": 1, "samples": 8, "loss": None}, {"step": 2, "samples": 16, "loss": 2.5}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3, "lo')
    assert titles(report_page(tmp_path)) == ["Loss"]
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(StudioError, match=r"holds no log\.jsonl with a step"):
        report_page(tmp_path)
    with pytest.raises(StudioError, match=r"holds no log\.jsonl"):
        report_page(tmp_path / "nowhere")


def test_the_text_of_a_curve_says_where_it_begins_ends_and_turns() -> None:
    text = figure(Chart("Loss", "Note.", (Series("a", ((1, 5.0), (2, 0.5), (3, 2.0))),)), 7)
    assert "a: from 5 to 2, between 0.5 and 5." in text
    assert 'aria-labelledby="t7 d7"' in text
    assert figure(Chart("None", "", (Series("a", ()),)), 0) == ""


@pytest.mark.parametrize("values", [[3.0, 3.0], [0.0, 0.0], [1e-9, 2e-9], [-5.0, 1e6], [7.0]])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_flat_tiny_and_single_values_are_drawn(values: list[float], logarithmic: bool) -> None:
    points = tuple((float(i), value) for i, value in enumerate(values))
    text = figure(Chart("t", "n", (Series("a", points),), logarithmic=logarithmic), 0)
    numbers = [float(n) for pair in re.findall(r'points="([^"]*)"', text) for n in re.split("[ ,]", pair)]
    assert len(numbers) == 2 * len(values)
    assert all(math.isfinite(number) for number in numbers)


def test_thinning_keeps_ends_and_spikes() -> None:
    points = [(float(x), math.sin(x / 50)) for x in range(10_000)]
    points[1234] = (1234.0, 99.0)
    kept = thinned(points)
    assert len(kept) <= MOST_POINTS
    assert (1234.0, 99.0) in kept
    assert kept == sorted(kept)


def test_ticks_are_round_numbers_within_the_axis() -> None:
    assert ticks(0.0, 10.0, 5) == [0, 2, 4, 6, 8, 10]
    assert ticks(-0.3, 0.41, 5) == [-0.2, 0.0, 0.2, 0.4]
    assert [short(10**t) for t in log_ticks(-0.1, 1.1)] == ["1", "2", "5", "10"]
    assert [short(v) for v in (1500, 0.25, 3e-5, 0)] == ["1,500", "0.25", "3e-05", "0"]
