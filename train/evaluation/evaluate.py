"""From what a person asks for to models that are measured, told and written down."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from models.errors import StudioError
from models.loaded import LoadedModel
from models.plain import from_plain
from models.zoo import load_model
from train.data.config import CsvData, SceneData, TarData, setting
from train.distributed import gather, open_world
from train.evaluation.command import SCENES
from train.evaluation.protocols import (
    CaptionRetrieval,
    FolderClasses,
    Protocol,
    SceneClasses,
    SceneStudy,
    Task,
    measure,
    open_task,
)
from train.evaluation.report import Measurement, check_report_path, report, table, write_report
from train.evaluation.retrieval import Retrieval
from train.evaluation.spread import Ranks
from train.evaluation.study_run import evaluate_study
from train.evaluation.zero_shot import SCENES as SCENE_TEMPLATES
from train.evaluation.zero_shot import SEED, Classification, of_scenes
from train.export import EVALUATION, is_exported, write_evaluation
from train.together import each


def evaluate(asked: Sequence[str], protocol: Protocol, workers: int, device: str, out: Path | None) -> None:
    """Measure models, print a table, and write the results down: a report into `out`, scenes into exported folders.

    With several processes (torchrun) each reads its share, and the first prints and writes.

    Raises:
        StudioError: there is no such model, data or device, nothing can be read, or `out` is there already. A study
            goes on with its own `out`.
    """
    if isinstance(protocol, SceneStudy):
        evaluate_study(asked, protocol, workers, device, out)
        return
    if out:
        check_report_path(out)
    with open_world(device) as world:
        models = each(world, lambda: [load_model(name) for name in asked])
        tasks = each(world, lambda: {side: open_task(protocol, side) for side in {_side(model) for model in models}})
        ranks = Ranks(world.rank, world.size, partial(gather, world))
        done = [
            _measured(name, model, tasks[_side(model)], ranks, workers, world.device)
            for name, model in zip(asked, models, strict=True)
        ]
        if world.is_main:
            print(table(done))
            _write_into_folders(protocol, done)
            if out:
                print(write_report(out, report(protocol, done)))


def _side(model: LoadedModel) -> int:
    """Pixels a side at which scenes are drawn for a model: twice what it sees."""
    return 2 * max(model.preprocess_settings.input_size)


def _measured(
    asked: str, model: LoadedModel, task: Task, ranks: Ranks, workers: int, device: torch.device
) -> Measurement:
    """The result of a model, which is on the device for as long as it is measured."""
    model.module.to(device)
    try:
        result = measure(model, task, ranks, workers)
        assert isinstance(result, Classification | Retrieval)  # a study goes its own way
        return Measurement(asked, model, task, str(device), result)
    finally:
        model.module.to("cpu")


def _write_into_folders(protocol: Protocol, done: Sequence[Measurement]) -> None:
    """Write what exported folders score on scenes into their evaluation.json and their cards."""
    if not isinstance(protocol, SceneClasses) or protocol.templates != SCENE_TEMPLATES.name:
        return
    results = [of_scenes(one.result) for one in done if isinstance(one.result, Classification)]
    for number, one in enumerate(done):
        folder = Path(one.asked).expanduser()
        if one.model.folder == folder and is_exported(folder):
            write_evaluation(folder, results[number], results[:number] + results[number + 1 :])
            print(f"{one.model.name}: top-1 {results[number].top1:.1%} written into {folder / EVALUATION} and its card")


def protocol_of(args: argparse.Namespace) -> Protocol:
    """What the command's `data`, `set`, `protocol`, `templates` and `images` ask to measure.

    Raises:
        StudioError: they do not fit each other, or there are no such data.
    """
    if args.images is not None and args.images < 1:
        raise StudioError(f"--images {args.images} leaves nothing to measure: give 1 or more, or leave it out.")
    data = data_of(args.data, args.set) if args.data else None
    if args.set and data is None:
        raise StudioError(f"--set {args.set[0]} is a setting of tars or of a CSV: name these with --data, or drop it.")
    kind = args.protocol or ("zero-shot" if data is None else "retrieval")
    if kind == "retrieval" and args.templates:
        raise StudioError(
            f"--templates {args.templates} is for zero-shot, retrieval takes captions as they are: drop it."
        )
    if kind == "study" and (args.data or args.templates):
        raise StudioError(f"--protocol study is about scenes alone: leave {args.data or args.templates} out.")
    if not args.data:
        count = args.images or SCENES
        if kind == "study":
            return SceneStudy(count, max(1, count * 2 // 5), max(2, count * 3 // 5))
        if kind == "retrieval":
            return CaptionRetrieval(SceneData(SEED, count))
        return SceneClasses(count, args.templates or SCENE_TEMPLATES.name)
    if kind == "retrieval":
        if data is None:
            raise StudioError(f"{args.data} has classes and no captions: use --protocol zero-shot, or tars or a CSV.")
        return CaptionRetrieval(data, args.images or 0)
    if data is not None:
        raise StudioError(
            f"{args.data} has captions and no classes: use --protocol retrieval, or a folder with a folder of pictures "
            "for each class."
        )
    return FolderClasses(args.data, args.templates or FolderClasses.templates, args.images or 0)


def data_of(path: str, settings: Sequence[str]) -> TarData | CsvData | None:
    """The captioned data at a path, or None for a folder without tars.

    Raises:
        StudioError: there is nothing, or a setting does not exist.
    """
    named, where = dict(setting(text, "root=pictures") for text in settings), Path(path)
    if where.suffix.lower() in (".csv", ".tsv"):
        return from_plain(CsvData, {**named, "csv": path}, "data")
    if where.is_dir():
        tars = any(item.is_file() and {".tar", ".tgz"} & set(item.suffixes) for item in where.iterdir())
        return from_plain(TarData, {**named, "tars": path}, "data") if tars else None
    if where.exists() or any(sign in path for sign in "*?[{"):
        return from_plain(TarData, {**named, "tars": path}, "data")
    raise StudioError(f"There is nothing at {path}: give a folder of folders by class, tars, or a CSV.")
