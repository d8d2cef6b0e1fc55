"""Statistics of attention rows over the pictures of a folder: what holds of many pictures, not of the one shown.

Each picture's numbers are written as a line as soon as they are known, so that a run that was stopped goes on.
"""

import csv
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

from models import LoadedModel, StudioError, load_model, open_picture, record
from models.localisation import patch_coverage
from models.pictures import check_size
from studio.bootstrap import RESAMPLES, Interval, intervals
from studio.measures import Objects, objects_of
from studio.provenance import model_found, package_versions
from studio.readout_numbers import Key, readout_numbers
from studio.service import vision_grid, weights_sha256

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".avif", ".jp2", ".ppm")
MASK = ".mask.png"
OF_ONE = "What is known of one picture alone has no interval: low and high are empty."
COLUMNS = (
    *("model", "title", "layer", "head", "map", "measure", "pictures", "mean", "low", "high"),
    *("control_a2_shuffled", "control_low", "control_high", "difference", "difference_low", "difference_high"),
)


@dataclass
class _Gathered:
    """What is known so far: picture -> key -> (value, control), and which were left out for which reason."""

    rows: dict[str, dict[Key, tuple[float | None, float | None]]] = field(default_factory=dict)
    skipped: dict[str, list[str]] = field(default_factory=dict)


def batch(folder: Path, sources: Sequence[str], out: Path, *, heads: bool = False, seed: int = 0) -> str:
    """Work out statistics over a folder and write them to `out`; what was done, in words.

    Args:
        folder: pictures, also in folders within; NAME.mask.png beside one is 0 on the ground, else on an object.
        sources: models as `load_model` takes them.
        out: a .csv or .json file; beside it NAME.pictures.jsonl keeps what is known of each picture.
        heads: each head too, not only the mean over heads.
        seed: of the bootstrap.

    Raises:
        StudioError: no picture, or none that can be read; a model that cannot be loaded; numbers of other settings
            beside `out`; a file in its place that no run of this kind wrote.
    """
    if out.suffix not in (".csv", ".json"):
        raise StudioError(f"{out} is neither .csv nor .json: choose one of these endings.")
    files = pictures_in(folder)
    models = _loaded(sources)
    settings = {
        "models": [asdict(model_found(name, model, weights_sha256(model))) for name, model in models.items()],
        "heads": heads,
        "packages": package_versions(),
    }
    known = out.with_name(f"{out.stem}.pictures.jsonl")
    gathered = _Gathered()
    try:
        lines, torn = _known(known, settings)
        if out.exists() and not known.is_file():
            raise StudioError(f"{out} is there already, without {known.name} beside it: choose another OUT.")
        out.parent.mkdir(parents=True, exist_ok=True)
        with known.open("a", encoding="utf-8") as log:
            # On a line of its own also where a run was stopped in the middle of one.
            log.write("\n" if torn else "")
            log.write("" if lines else json.dumps({"settings": settings}) + "\n")
            for path in tqdm(files, unit="picture", file=sys.stderr, disable=None):
                _gather(path, folder, models, heads, lines, log, gathered)
        often = sorted(gathered.skipped.items(), key=lambda item: -len(item[1]))
        left = "".join(f"\n  {len(names)} left out: {reason} First: {names[0]}" for reason, names in often)
        if not gathered.rows:
            raise StudioError(f"Of none of the {len(files)} pictures in {folder} there are numbers: give others.{left}")
        rows = table(gathered.rows, models, seed)
        _write(out, rows, settings, gathered, seed)
    except OSError as error:
        raise StudioError(f"{out} cannot be written ({error.strerror}): choose another place.") from error
    alone = "" if all(row["pictures"] != 1 for row in rows) else f"\n  {OF_ONE}"
    return f"{len(gathered.rows)} of {len(files)} pictures in {out}{left}{alone}"


def pictures_in(folder: Path) -> list[Path]:
    """All picture files of a folder and the folders within, in order of their names; masks are none.

    Raises:
        StudioError: no folder, or none in it.
    """
    if not folder.is_dir():
        raise StudioError(f"{folder} is no folder: give one with pictures.")
    files = [path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()]
    found = sorted(path for path in files if not path.name.endswith(MASK))
    if not found:
        raise StudioError(f"{folder} holds no picture ({', '.join(SUFFIXES)}): give another folder.")
    return found


def _loaded(sources: Sequence[str]) -> dict[str, LoadedModel]:
    models: dict[str, LoadedModel] = {}
    for source in dict.fromkeys(sources):
        model = load_model(source)
        if model.vision.reason:
            raise StudioError(f"{model.title}: {model.vision.reason}")
        name = model.name if model.name not in models else source
        models[name] = model
    return models


def _known(path: Path, settings: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], bool]:
    """Lines of an earlier run by the hash of the picture's and the mask's file, its settings under ""; is one torn?

    Raises:
        StudioError: they were made with other models or settings.
    """
    if not path.is_file():
        return {}, False
    lines: dict[str, dict[str, Any]] = {}
    whole = path.read_text(encoding="utf-8", errors="replace")
    for text in whole.splitlines():
        try:
            line = json.loads(text)
            # The last line of a run that was stopped while it wrote, or one that another program wrote, is left out.
            if isinstance(line, dict) and "settings" in line:
                lines[""] = line
            elif _is_of_a_picture(line):
                lines[line["sha256"]] = line
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
    plain = json.loads(json.dumps(settings))
    if lines and lines.get("", {}).get("settings") != plain:
        raise StudioError(f"{path} is of other models, versions or settings: choose another OUT, or delete it.")
    return lines, bool(whole) and not whole.endswith("\n")


def _is_of_a_picture(line: dict[str, Any]) -> bool:
    """Whether a line holds all numbers of a picture as `_gather` writes them."""
    kinds = (str, int, str, str, str, float | int | None, float | int | None)
    return isinstance(line["sha256"], str) and all(
        len(entry) == len(kinds) and all(map(isinstance, entry, kinds)) for entry in line["numbers"]
    )


def _gather(
    path: Path,
    folder: Path,
    models: dict[str, LoadedModel],
    heads: bool,
    lines: dict[str, dict[str, Any]],
    log: io.TextIOBase | Any,
    gathered: _Gathered,
) -> None:
    """The numbers of one picture, of an earlier run or by running the models; a reason where it cannot be read."""
    # A name that is no text is told with its bytes.
    name = os.fsencode(path.relative_to(folder).as_posix()).decode("utf-8", "backslashreplace")
    try:
        data, mask = path.read_bytes(), path.with_name(path.stem + MASK)
        marked = mask.read_bytes() if mask.is_file() else b""
        digest = hashlib.sha256(data + b"\0" + marked).hexdigest()
        line = lines.get(digest)
        if line is None:
            image = open_picture(data)
            inside = _inside(marked, image) if marked else None
            numbers = _numbers(image, inside, models, heads)
            line = {"sha256": digest, "picture": name, "numbers": [[*key, *pair] for key, pair in numbers.items()]}
            log.write(json.dumps(line) + "\n")
            log.flush()
    except StudioError as error:
        gathered.skipped.setdefault(re.sub(r"\d[\d.,]*", "…", str(error)), []).append(name)
    except OSError as error:
        gathered.skipped.setdefault(f"The file cannot be read ({error.strerror}).", []).append(name)
    else:
        gathered.rows[name] = {Key(*entry[:5]): (entry[5], entry[6]) for entry in line["numbers"]}


def _inside(data: bytes, image: Image.Image) -> np.ndarray:
    """True (height, width) where the mask is not 0."""
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as mask:
            check_size(mask.size)
            if mask.size != image.size:
                raise StudioError(
                    f"The mask is {mask.size}, the picture {image.size} (width, height): they must agree."
                )
            values = np.asarray(mask)
    except StudioError:
        raise
    except Exception as error:  # Pillow's decoders raise nearly anything for a damaged file
        raise StudioError("The mask beside the picture cannot be read: save it again as PNG.") from error
    return np.asarray(values > 0 if values.ndim == 2 else (values[..., :3] > 0).any(-1))


def _numbers(
    image: Image.Image, inside: np.ndarray | None, models: dict[str, LoadedModel], heads: bool
) -> dict[Key, tuple[float | None, float | None]]:
    found: dict[Key, tuple[float | None, float | None]] = {}
    for name, model in models.items():
        pixels, geometry = model.preprocess(image)
        objects: Objects | None = None
        if inside is not None:
            objects = objects_of(patch_coverage(inside, geometry, vision_grid(model)))
        with record(model.vision) as recording:
            model.encode_image(pixels[None])
        found |= readout_numbers(name, recording, vision_grid(model), objects, heads=heads)
    return found


def table(
    rows: dict[str, dict[Key, tuple[float | None, float | None]]], models: dict[str, LoadedModel], seed: int
) -> list[dict[str, Any]]:
    """One line a model, layer, head, map and measure: means over pictures, of the control, and of their difference."""
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    pairs = np.array([[_pair(row.get(key)) for key in keys] for row in rows.values()], dtype=np.float64)  # (P, K, 2)
    columns = (pairs[..., 0], pairs[..., 1], pairs[..., 0] - pairs[..., 1])
    values, controls, differences = (intervals(column, seed) for column in columns)
    return [
        {
            "model": key.model,
            "title": models[key.model].title,
            "layer": key.layer,
            "head": key.head,
            "map": key.map,
            "measure": key.measure,
            "pictures": value.count,
            **_named(value, "mean", "low", "high"),
            **_named(control, "control_a2_shuffled", "control_low", "control_high"),
            **_named(difference, "difference", "difference_low", "difference_high"),
        }
        for key, value, control, difference in zip(keys, values, controls, differences, strict=True)
    ]


def _pair(found: tuple[float | None, float | None] | None) -> tuple[float, float]:
    value, control = found or (None, None)
    return (np.nan if value is None else value), (np.nan if control is None else control)


def _named(interval: Interval, *names: str) -> dict[str, float | None]:
    return dict(zip(names, (interval.mean, interval.low, interval.high), strict=True))


def _write(out: Path, lines: list[dict[str, Any]], settings: dict[str, Any], gathered: _Gathered, seed: int) -> None:
    if out.suffix == ".json":
        whole = {
            **settings,
            "pictures": len(gathered.rows),
            "left_out": gathered.skipped,
            "interval": f"95 % percentile bootstrap over pictures, {RESAMPLES} resamples, seed {seed}. {OF_ONE}",
            "rows": lines,
        }
        out.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{v:.7g}" if isinstance(v, float) else v for key, v in line.items()} for line in lines)
    out.write_text(stream.getvalue(), encoding="utf-8")
