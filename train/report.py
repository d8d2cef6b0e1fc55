"""One self-contained page with the curves of a run, readable without a network."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from models.errors import StudioError
from train.durable import write_whole, writing
from train.logbook import read_log
from train.run_folder import CONFIG, EVALUATION, LOG
from train.svg import Chart, Series, figure

PAGE, EXPORTED = "report.html", "run.json"
Lines = Sequence[Mapping[str, Any]]

STYLE = """
:root { color-scheme: light dark; --lightness: 0.55; --ink: #1d2733; --soft: #5d6b7a; --rule: #d9dfe6; --card: #fff;
  --ground: #f3f5f8; }
@media (prefers-color-scheme: dark) { :root { --lightness: 0.75; --ink: #e6ebf1; --soft: #9aa8b7; --rule: #323c48;
  --card: #1a212a; --ground: #11161c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1320px; padding: 28px 20px 60px; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 16px; margin: 0; }
figcaption p, header p { margin: 2px 0 8px; color: var(--soft); }
main { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); }
section { margin-top: 16px; }
figure { margin: 0; }
figure, section { padding: 16px 18px; background: var(--card); border: 1px solid var(--rule);
  border-radius: 10px; min-width: 0; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px 24px; margin: 16px 0 20px; }
dt { color: var(--soft); font-size: 13px; } dd { margin: 0; font-variant-numeric: tabular-nums; font-weight: 600;
  overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
svg circle { fill: var(--card); stroke-width: 1.6; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 6px 0 0; padding: 0; list-style: none;
  font-size: 13px; }
.legend i { display: inline-block; width: 14px; height: 3px; margin-right: 5px; vertical-align: middle;
  border-radius: 2px; }
details { margin-top: 8px; font-size: 13px; } summary { color: var(--soft); cursor: pointer; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: 2px 12px 2px 0; text-align: right; font-weight: 400; } th[scope=row] { text-align: left; }
pre { overflow: auto; font-size: 12px; }
"""


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Write the page of a run.

    Raises:
        StudioError: the folder holds no log, or the page cannot be written.
    """
    path = out or folder / PAGE
    page = report_page(folder)
    with writing(path):
        write_whole(path, page)
    return path


def report_page(folder: Path) -> str:
    """The page of a run as HTML.

    Raises:
        StudioError: the folder holds no log, or one without a step.
    """
    lines = read_log(folder / LOG) if (folder / LOG).is_file() else []
    if not lines:
        raise StudioError(f"{folder} holds no {LOG} with a step in it: give the folder of a run.")
    measured = read_log(folder / EVALUATION) if (folder / EVALUATION).is_file() else []
    record = _record(folder)
    title = escape(str((record.get("config") or {}).get("title") or folder.name))
    facts = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in _facts(lines, record))
    figures = "\n".join(figure(chart, number) for number, chart in enumerate(charts(lines, measured)))
    settings = escape(json.dumps(record, indent=2))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>'
        f"<header><h1>{title}</h1><p>A training run, from its log.</p><dl>{facts}</dl></header>\n"
        f"<main>{figures}</main>\n<section><details><summary>Settings, versions, data</summary>"
        f"<pre>{settings}</pre></details></section></body></html>\n"
    )


def _record(folder: Path) -> dict[str, Any]:
    """The run's record, in a run's folder or an exported one; {} where there is none that can be read."""
    for name in (EXPORTED, CONFIG):
        try:
            record = json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and isinstance(record.get("config"), dict):
            return record
    return {}


def _facts(lines: Lines, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    last, config = lines[-1], record.get("config") or {}
    stages = config.get("stages") or []
    total = sum(stage.get("samples", 0) for stage in stages) // max(1, config.get("batch_size") or 1)
    facts = [("steps", f"{last['step']:,}" + (f" of {total:,}" if total else ""))]
    facts.append(("samples seen", f"{last.get('samples', 0):,}"))
    recent = [line["loss"] for line in lines[-50:] if _is_number(line.get("loss"))]
    if recent:
        facts.append((f"loss, mean of the last {len(recent)}", f"{statistics.fmean(recent):.4g}"))
    speed = [line["samples_per_second"] for line in lines if _is_number(line.get("samples_per_second"))]
    if speed:
        facts.append(("samples a second, median", f"{statistics.median(speed):,.4g}"))
    waits = [line["data_wait"] for line in lines if _is_number(line.get("data_wait"))]
    if waits:
        share = statistics.fmean(waits)
        facts.append(("waiting for data", f"{share:.0%}" + (": more workers may help" if share > 0.1 else "")))
    skipped = [line for line in lines if line.get("skipped")]
    if skipped:
        facts.append(("steps left out", f"{len(skipped)}, the last one {skipped[-1]['step']:,}"))
    unusable = last.get("unusable") or {}
    if unusable:
        facts.append(("samples unusable", ", ".join(f"{count:,} {reason}" for reason, count in unusable.items())))
    data = record.get("data") or {}
    if data.get("description"):
        facts.append(("data", str(data["description"])))
    return facts


def charts(lines: Lines, measured: Lines) -> list[Chart]:
    """All curves that a log holds; a chart without one is left out."""
    found = [
        Chart("Loss", "Of the global batch, both directions averaged.", (_series(lines, "loss", "loss"),)),
        Chart("Learning rate", "Of every parameter.", (_series(lines, "learning rate", "lr"),)),
        Chart("Logit scale", "The factor on cosine similarity.", (_series(lines, "logit scale", "logit_scale"),)),
        Chart("Gradient norm", "Before clipping.", (_series(lines, "norm", "grad_norm"),), logarithmic=True),
        Chart(
            "Loss scale",
            "What float16 gradients are multiplied by.",
            (_series(lines, "loss scale", "loss_scale"),),
            logarithmic=True,
        ),
    ]
    for tower in ("vision", "text"):
        found.append(Chart(f"λ, {tower}", "One line a layer.", _layers(lines, ("lambda", tower))))
        for which, name in enumerate(("exp(λq1·λk1)", "exp(λq2·λk2)")):
            terms = _layers(lines, ("lambda_terms", tower), (which,))
            found.append(Chart(f"{name}, {tower}", "A term of λ, one line a layer.", terms))
        for key, title, note in PROBED:
            found.append(Chart(f"{title}, {tower}", note, _layers(lines, ("probe", tower, key))))
    for key, title in (("gradient", "Gradient norms"), ("weights", "Weight norms"), ("update", "Update norms")):
        found.append(Chart(title, "One line a layer, L2.", _named(lines, "norms", key), logarithmic=True))
    found += [Chart(name, "While training.", (_series(measured, name, name),)) for name in _measures(measured)]
    found += [
        Chart(
            "Speed",
            "Samples a second, all devices, waits included.",
            (_series(lines, "samples a second", "samples_per_second"),),
        ),
        Chart("Waiting for data", "Share of a step's seconds.", (_series(lines, "share", "data_wait"),)),
        Chart("MFU", "Share of the measured rate of matrix products.", (_series(lines, "MFU", "mfu"),)),
        Chart("Memory", "Highest use so far, MiB.", (_series(lines, "MiB", "memory_mib"),)),
    ]
    return [chart for chart in found if any(series.points for series in chart.series)]


PROBED = (
    ("entropy_a1", "Entropy of A1", "On a fixed batch; 0 is one key, 1 is uniform."),
    ("entropy_a2", "Entropy of A2", "On a fixed batch; 0 is one key, 1 is uniform."),
    ("overlap", "Overlap of A1 and A2", "Cosine of their rows, on a fixed batch."),
    ("cancelled", "Share of A1 that λA2 cancels", "On a fixed batch."),
    ("lambda", "Mean λ of heads and tokens", "DIFF V2, on a fixed batch."),
    ("lambda_spread", "Spread of λ over heads and tokens", "DIFF V2, standard deviation on a fixed batch."),
)


def _series(lines: Lines, name: str, *keys: str | int) -> Series:
    """The number at a path of every line that has one there."""
    points = []
    for line in lines:
        value = _at(line, keys)
        if _is_number(value):
            points.append((float(line["step"]), float(value)))
    return Series(name, tuple(points))


def _layers(lines: Lines, before: tuple[str, ...], after: tuple[int, ...] = ()) -> tuple[Series, ...]:
    """A series a layer of the lists at `before`; `after` leads from a layer's entry to its number."""
    lists = [_at(line, before) for line in lines]
    count = max((len(found) for found in lists if isinstance(found, list)), default=0)
    return tuple(_series(lines, f"layer {layer}", *before, layer, *after) for layer in range(count))


def _named(lines: Lines, *keys: str) -> tuple[Series, ...]:
    """A series a name of a table."""
    tables = [table for line in lines if isinstance(table := _at(line, keys), Mapping)]
    names = dict.fromkeys(name for table in tables for name in table)
    return tuple(_series(lines, name, *keys, name) for name in names)


def _measures(measured: Lines) -> list[str]:
    apart = ("step", "samples", "seconds")
    names = dict.fromkeys(name for line in measured for name in line if name not in apart)
    return [name for name in names if not name.endswith("/skipped")]


def _at(value: Any, keys: Sequence[str | int]) -> Any:
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
