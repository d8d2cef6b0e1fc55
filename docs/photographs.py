"""`python docs/photographs.py`: writes assets/photographs from the pictures that scikit-image ships.

Taken are only those whose photographers gave up their rights; scikit-image says so beside each of its pictures. Needs
scikit-image, which nothing else here needs.
"""

import argparse
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "photographs"
LONGEST, QUALITY = 512, 88


@dataclass(frozen=True)
class Photograph:
    """One picture of scikit-image.

    Attributes:
        source: its file there.
        caption: what is on it.
        credit: who took it, and what was done with the rights.
        license: its short name.
        origin: where scikit-image has it from.
    """

    source: str
    caption: str
    credit: str
    license: str
    origin: str


TAKEN = (
    Photograph("chelsea.png", "a photo of a cat", "Stéfan van der Walt", "CC0", "the photographer"),
    Photograph("coffee.png", "a photo of a cup of coffee", "Rachel Michetti, Pikolo Espresso Bar", "CC0",
               "the photographer"),
    Photograph("rocket.jpg", "a photo of a rocket launch", "SpaceX", "public domain",
               "https://www.flickr.com/photos/spacexphotos/16511594820"),
    Photograph("astronaut.png", "a photo of an astronaut", "NASA", "public domain", "https://flic.kr/p/r9qvLn"),
)  # fmt: skip


def write_photographs(source: Path, folder: Path) -> Path:
    """Writes each picture as a JPEG of 512 pixels a side at most, their list and attribution; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    entries, rows = [], []
    for taken in TAKEN:
        image = Image.open(source / taken.source).convert("RGB")
        image.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS)
        name = Path(taken.source).with_suffix(".jpg").name
        image.save(folder / name, "JPEG", quality=QUALITY, optimize=True)
        entries.append({"image": name, "caption": taken.caption})
        rows.append(f"| `{name}` | {taken.caption} | {taken.credit} | {taken.license} | {taken.origin} |")
    (folder / "photographs.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    (folder / "ATTRIBUTION.md").write_text(_ATTRIBUTION + "\n".join(rows) + "\n", encoding="utf-8")
    return folder


_ATTRIBUTION = f"""# Attribution of the photographs

They come with [scikit-image](https://scikit-image.org), whose documentation of `skimage.data` states for each of them
that its rights were given up. They were made smaller, at most {LONGEST} pixels a side, and saved as JPEG, by
`python docs/photographs.py`.

| file | what | by | license | from |
|---|---|---|---|---|
"""


def main() -> int:
    """Finds scikit-image, writes the pictures and says where."""
    parser = argparse.ArgumentParser(description="Writes the example photographs from scikit-image.")
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    folder = parser.parse_args().folder
    found = importlib.util.find_spec("skimage")
    if found is None or found.origin is None:
        parser.error("scikit-image is not installed: `pip install scikit-image` first.")
    print(write_photographs(Path(found.origin).parent / "data", folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
