"""The figure's colours are the page's."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from studio import viewer
from studio.render.ramps import CIVIDIS, ENTRIES, PURPLE_TO_ORANGE, colours, places, table

SCRIPT = (Path(viewer.__file__).parent / "colours.js").read_text(encoding="utf-8")


def stops_in_script(name: str) -> tuple[str, ...]:
    found = re.search(rf"const {name} = \[([^\]]*)\]", SCRIPT)
    assert found is not None
    return tuple(re.findall(r"'([0-9a-f]{6})'", found[1]))


def test_the_stops_are_those_of_the_page() -> None:
    assert stops_in_script("CIVIDIS") == CIVIDIS
    assert stops_in_script("PURPLE_TO_ORANGE") == PURPLE_TO_ORANGE
    assert f"const ENTRIES = {ENTRIES};" in SCRIPT


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine to run the page's script")
def test_every_entry_and_every_place_is_that_of_the_page() -> None:
    ask = """
    const values = Array.from({length: 401}, (_, i) => (i - 200) / 160);
    const found = {tables: [Array.from(SEQUENTIAL), Array.from(SIGNED)], places: {}};
    for (const ramp of ['root', 'linear']) {
      S.ramp = ramp;
      const each = (signed) => values.map((v) => place(signed ? v : Math.abs(v), 1.1, signed));
      found.places[ramp] = [false, true].map(each);
    }
    console.log(JSON.stringify(found));"""
    done = subprocess.run(
        ["node", "-e", f"const S = {{}};\n{SCRIPT}\n{ask}"], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    for stops, entries in zip((CIVIDIS, PURPLE_TO_ORANGE), found["tables"], strict=True):
        assert table(stops).reshape(-1).tolist() == entries
    values = (np.arange(401) - 200) / 160
    for ramp, (plain, signed) in found["places"].items():
        assert places(np.abs(values), 1.1, signed=False, root=ramp == "root").tolist() == plain
        assert places(values, 1.1, signed=True, root=ramp == "root").tolist() == signed


def test_zero_of_the_signed_ramp_is_its_middle_and_both_ends_are_its_last_entries() -> None:
    found = places(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), 1.0, signed=True, root=True)
    assert found.tolist() == [0, 0, 255, 510, 510]


def test_a_range_of_nothing_gives_the_first_colour_and_no_warning() -> None:
    assert (colours(np.zeros((2, 2)), 0.0, signed=False, root=False) == table(CIVIDIS)[0]).all()
