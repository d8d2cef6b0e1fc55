"""Runs of the λ chart -> the settings of their recipe; the settings -> the same runs, by the logs that are given."""

from collections.abc import Sequence
from pathlib import Path

from models import LoadedModel, StudioError
from studio.lambda_recipe import LambdaRun, LambdaSettings
from studio.lambdas import Kept, LambdaRuns, Run, final_of, run_of_log
from studio.runlog import find_log, read_log
from studio.service import Service


def taken_runs(runs: Sequence[Run]) -> tuple[list[int], LambdaRuns, LambdaSettings]:
    """(places of the runs that can be taken away, those runs, their settings); what could not be read is left out.

    A run by its folder is known by its log, as an uploaded one is: paths of a machine are in no file.
    """
    there = [at for at, run in enumerate(runs) if run.model or run.log is not None]
    kept = [runs[at] for at in there]
    found = [
        LambdaRun(
            run.title,
            run.model,
            "" if run.log is None else run.log.sha256,
            tuple(kept.step for kept in run.kept),
            run.said,
        )
        for run in kept
    ]
    return there, LambdaRuns(tuple(kept)), LambdaSettings(tuple(found))


def runs_again(
    service: Service, settings: LambdaSettings, logs: Sequence[Path], *, anyway: bool
) -> tuple[LambdaRuns, LambdaSettings, list[str]]:
    """(the runs of a recipe, the settings of what was found, what is not as it was).

    Args:
        service: has the recipe's models under its names.
        settings: the runs.
        logs: files that were given; each belongs to the run that names its sha256. Logs that lie with the models are
            found without.
        anyway: take another log where that of the recipe is not at hand.

    Raises:
        StudioError: a log is not at hand, is another one, or is none of the recipe.
    """
    given = {read_log(path).sha256: path for path in logs}
    wanted = {run.log for run in settings.runs}
    strange = [path for digest, path in given.items() if digest not in wanted]
    runs: list[Run] = []
    now: list[LambdaRun] = []
    said: list[str] = []
    for at, run in enumerate(settings.runs):
        kept = tuple(Kept(step) for step in run.kept)
        if not run.log:
            final = final_of(service.model(run.model)) if run.model else {}
            runs.append(Run(str(at), run.title, run.said, None, final, kept, run.model))
            now.append(run)
            continue
        path = given.get(run.log) or _beside(service, run)
        if path is None or (read_log(path).sha256 != run.log and strange):
            path = strange.pop(0) if strange else path
        if path is None:
            raise StudioError(
                f"The log of the recipe's run {run.title!r} (sha256 {run.log[:12]}…) is not here: give it with "
                "--log FILE."
            )
        found = run_of_log(str(at), run.title, path, kept)
        assert found.log is not None
        if found.log.sha256 != run.log:
            said.append(
                f"The log of {run.title} is not that of the recipe: {path.name} has sha256 {found.log.sha256[:12]}…, "
                f"the recipe's {run.log[:12]}…."
            )
        runs.append(found)
        now.append(LambdaRun(run.title, run.model, found.log.sha256, run.kept, found.said))
    said += [f"{path.name} is no log of the recipe, and is not drawn." for path in strange]
    if said and not anyway:
        raise StudioError(f"{said[0]} Give the logs of the recipe with --log FILE, or draw with --anyway.")
    return LambdaRuns(tuple(runs)), LambdaSettings(tuple(now)), said


def _beside(service: Service, run: LambdaRun) -> Path | None:
    """The log that lies with a run's model."""
    return find_log(_folder(service.model(run.model))) if run.model else None


def _folder(model: LoadedModel) -> Path:
    path = model.origin.path
    return path if path.is_dir() else path.parent
