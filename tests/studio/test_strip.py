import base64
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from models import StudioError
from models.geometry import ImageGeometry
from studio.strip import COLOURS, Fact, MapPanel, coloured_classes, no_map, strip_over, strip_value
from studio.viewer import strip as component

SQUARE = ImageGeometry((64, 64), (32, 32), (0, 0), (32, 32))
PICTURE = Image.new("RGB", (64, 64), (90, 120, 150))


def panels_sent(image: Image.Image, panels: list[MapPanel], classes: list[str] | None = None) -> list[dict]:
    return strip_value(strip_over(image, panels, classes=classes or ()))["panels"]


def floats(sent: dict) -> np.ndarray:
    dtype = {"f4": "<f4", "u1": np.uint8}[sent["dtype"]]
    return np.frombuffer(base64.b64decode(sent["values"]), dtype).reshape(sent["rows"], sent["cols"])


def test_values_arrive_exactly_with_zeros_and_nan() -> None:
    values = np.array([[0.0, 1 / 3, np.nan], [-2.5, 1e-9, 4.0]])
    sent = panels_sent(PICTURE, [MapPanel("A", "CLIP", values, SQUARE, "signed", zeros=True)])[0]
    assert np.array_equal(floats(sent), values.astype(np.float32), equal_nan=True)
    assert sent["zeros"] is True


def test_classes_travel_as_bytes_and_nan_has_its_own() -> None:
    values = np.array([[0.0, 11.0], [np.nan, 3.0]])
    sent = panels_sent(PICTURE, [MapPanel("s", "", values, SQUARE, "classes")], classes=["x"] * 12)[0]
    assert floats(sent).tolist() == [[0, 11], [255, 3]]


def test_more_classes_than_a_byte_holds_travel_as_floats() -> None:
    sent = panels_sent(PICTURE, [MapPanel("s", "", np.array([[255.0, 300.0]]), SQUARE, "classes")])[0]
    assert floats(sent).tolist() == [[255.0, 300.0]]


def test_the_box_is_where_the_model_saw_the_picture() -> None:
    tall = Image.new("RGB", (100, 200))
    geometry = ImageGeometry((200, 100), (64, 32), (16, 0), (32, 32))
    sent = panels_sent(tall, [MapPanel("A", "", np.zeros((4, 4)), geometry)])[0]
    assert sent["box"] == pytest.approx((0.25, 0.0, 0.75, 1.0))


def test_facts_keep_their_controls_and_a_message_stands_for_a_map() -> None:
    panel = MapPanel(
        "A",
        "CLIP",
        np.zeros((2, 2)),
        SQUARE,
        facts=(Fact("AUROC", "0.9", ("0.5", ""), "why"),),
        controls=("random", "other"),
    )
    sent, refused = panels_sent(PICTURE, [panel, no_map("vv", "DiffCLIP", SQUARE, "There is none.")])
    assert sent["facts"] == [["AUROC", "0.9", ["0.5", ""], "why"]]
    assert sent["controls"] == ["random", "other"]
    assert refused["message"] == "There is none."


def test_a_number_without_a_control_of_each_kind_is_refused() -> None:
    with pytest.raises(StudioError, match="'AUROC' has 1 numbers of controls and the panel 2"):
        MapPanel("A", "", np.zeros((2, 2)), SQUARE, facts=(Fact("AUROC", "0.9", ("0.5",)),), controls=("a", "b"))


@pytest.mark.parametrize("values", [np.zeros(4), np.zeros((0, 3)), np.zeros((1, 2, 2))])
def test_what_is_no_map_is_refused(values: np.ndarray) -> None:
    with pytest.raises(StudioError, match=r"must be \(R, C\)"):
        MapPanel("A", "CLIP", values, SQUARE)


def test_a_strip_without_panels_is_refused() -> None:
    with pytest.raises(StudioError, match="no map to show"):
        strip_over(PICTURE, [])


def test_few_classes_all_have_a_colour_and_of_many_those_that_cover_most() -> None:
    count = COLOURS + 4
    values = np.repeat(np.arange(count), np.arange(count) + 1).astype(float)[None]
    panel = MapPanel("s", "", values, SQUARE, "classes")
    assert coloured_classes([panel], COLOURS) == list(range(COLOURS))
    assert coloured_classes([panel], count) == list(range(count - 1, count - 1 - COLOURS, -1))
    assert coloured_classes([panel], count, first=(0, 2))[:3] == [0, 2, count - 1]


def test_every_name_that_the_strip_takes_from_the_viewer_is_there() -> None:
    shared = "\n".join(
        (Path(component.__file__).parent / f"{name}.js").read_text() for name in ("colours", "hatch", "draw", "save")
    )
    functions = ("ramp", "place", "drawBar", "hatch", "greyPicture", "between", "gridLines", "dimUnseen", "outline")
    for name in (*functions, "bytes", "saveFigure"):
        assert re.search(rf"function {name}\(", shared), name
    for name in ("SEQUENTIAL", "SIGNED", "FINE", "channels"):
        assert re.search(rf"const {name} = ", shared), name


def test_no_name_is_declared_twice_in_the_script() -> None:
    script = component.strip_script()
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names))
