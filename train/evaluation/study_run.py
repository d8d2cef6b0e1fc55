"""`python -m train evaluate MODEL ... --protocol study`: model after model, each kept in the file once it is done."""

import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from models.errors import StudioError
from models.loaded import LoadedModel
from models.zoo import load_model
from train.data.sample import counted
from train.distributed import gather, open_world
from train.evaluation.figures.write import write_figures
from train.evaluation.identity import identity, weights
from train.evaluation.labelled import one_object_scenes
from train.evaluation.protocols import SceneStudy, settings_of
from train.evaluation.report import INTERVALS, columns, versions, write_report
from train.evaluation.spread import Ranks
from train.evaluation.study import Sizes, study
from train.evaluation.study_file import (
    Entry,
    StudyModel,
    differences,
    entry,
    models_of,
    plain,
    read_content,
    read_study,
)
from train.evaluation.zero_shot import SEED
from train.together import each

_NOTES = (
    "Intervals: 95 %, bootstrap over pictures. Ties count against the model.",
    "Attention: the CLS row over patches, mean over heads, mean over layers; every layer is in --out.",
)


def evaluate_study(asked: Sequence[str], protocol: SceneStudy, workers: int, device: str, out: Path | None) -> None:
    """Measure models, print a table, and write the file of the study, its tables and its figures beside each other.

    What the file holds already of the same weights is not measured again, and models that it holds beside those asked
    for stay in it. Ctrl-C or SIGTERM leaves at once, with the models kept that were done.

    Raises:
        StudioError: there is no such model or device, one cannot be measured, or `out` holds something else.
    """
    kept = _kept(out, protocol) if out else {}
    with open_world(device) as world, _terminated_as_interrupted():
        models = each(world, lambda: {name: load_model(name) for name in asked})
        entries = dict(kept)
        try:
            for name, model in models.items():
                known = kept.get(name)
                if known and known["model"]["weights"] == weights(model):
                    if world.is_main:
                        print(f"{model.name}: as {out} has it", file=sys.stderr)
                else:
                    ranks = Ranks(world.rank, world.size, partial(gather, world))
                    entries[name] = _measured(name, model, protocol, ranks, workers, world.device)
                    if world.is_main and out:
                        write_report(out, _content(protocol, entries))
        except KeyboardInterrupt:
            if world.is_main:
                print(_stopped(models, out), file=sys.stderr)
            raise
        if world.is_main:
            print(_table(models_of(entries.values()), protocol))
            if out:
                print(write_report(out, _content(protocol, entries)))
                print("\n".join(map(str, write_figures(read_study(out), out.parent))))


def _kept(out: Path, protocol: SceneStudy) -> dict[str, Entry]:
    """The entries of a study with the same settings and versions, by the name that each was asked for by.

    Raises:
        StudioError: there is something else, or no folder to write into.
    """
    if not out.absolute().parent.is_dir():
        raise StudioError(f"{out} cannot be written, for there is no folder {out.parent}: make it first.")
    if not out.exists():
        return {}
    content = read_content(out)
    ours: Mapping[str, Any] = {"protocol": settings_of(protocol), "versions": versions()}
    for part, own in ours.items():
        if content.get(part) != own:
            raise StudioError(
                f"{out} is there already, with other {'settings' if part == 'protocol' else 'package versions'} "
                f"({content.get(part)}): choose another --out, or delete it."
            )
    models_of(content["results"])  # refuses what could not be quoted afterwards
    return {one["model"]["asked"]: one for one in content["results"]}


def _measured(
    asked: str, model: LoadedModel, protocol: SceneStudy, ranks: Ranks, workers: int, device: torch.device
) -> Entry:
    """The entry of a model, which is on the device for as long as it is measured."""
    model.module.to(device)
    try:
        found = study(model, SEED, Sizes(protocol.study, protocol.pairs, protocol.attention), ranks, workers)
    finally:
        model.module.to("cpu")
    command = ["python", "-m", "train", "evaluate", asked, "--protocol", "study", "--images", str(protocol.study)]
    scenes = one_object_scenes(SEED, protocol.study, 2 * max(model.preprocess_settings.input_size)).source
    how = {
        "command": shlex.join(command),
        "scenes": {"description": scenes.describe(), "fingerprint": scenes.fingerprint()},
    }
    return entry({**identity(asked, model, str(device)), **how}, found)


def _content(protocol: SceneStudy, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """The file: everything that is needed to get the same numbers again, the numbers, and their differences."""
    return {
        "protocol": settings_of(protocol),
        "intervals": INTERVALS,
        "versions": versions(),
        "results": list(entries.values()),
        "differences": plain(differences(models_of(entries.values()))),
    }


def _table(models: Sequence[StudyModel], protocol: SceneStudy) -> str:
    """A column a model: the shares in percent with their intervals."""
    found = [{name: one for name, one in model.numbers.items() if not name.endswith(": lift")} for model in models]
    heading = (
        f"study of scenes: {counted(protocol.study, 'scene')} with one object, seed {SEED}, and others of that seed"
    )
    return "\n".join([heading, "", *columns([model.name for model in models], found), "", *_NOTES])


def _stopped(models: Mapping[str, LoadedModel], out: Path | None) -> str:
    """What a stop leaves, by what the file holds: it may have come between the writing of a model and any count."""
    held = read_content(out)["results"] if out and out.exists() else []
    sums = {one["model"]["asked"]: one["model"]["weights"] for one in held}
    done = sum(sums.get(name) == weights(model) for name, model in models.items())
    if out is None or not done:
        return "Stopped: nothing is kept" + ("." if out else ", for there is no --out.")
    return f"Stopped: {done} of {counted(len(models), 'model')} are kept in {out}; the same command goes on from there."


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """While open, SIGTERM does what Ctrl-C does, so that hooks come out and what is done is told."""
    if threading.current_thread() is not threading.main_thread():  # the system tells the main thread alone
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
