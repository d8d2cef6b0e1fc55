"""`python -m train`: make data, train, evaluate, export. Each command says what it does with --help."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from models.errors import StudioError
from train.scenes import command as scenes_command


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a wrong input is one sentence on stderr and exit status 2."""
    parser = argparse.ArgumentParser(prog="python -m train", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    scenes_command.add_parser(commands)

    fit = commands.add_parser("fit", help="train a model from a config; go on where it stopped")
    fit.add_argument("config", type=Path, help="a TOML file, as train/configs/clip_scenes.toml")
    fit.add_argument("settings", nargs="*", metavar="key=value", help="overrides, as optim.lr=5e-4 stop_after=50")
    fit.add_argument("--out", type=Path, help="the run's folder (default: runs/NAME)")
    fit.set_defaults(run=_fit)

    export = commands.add_parser("export", help="make the folder that is shipped from a finished run")
    export.add_argument("folder", type=Path, metavar="RUN", help="the run's folder")
    export.add_argument("out", type=Path, metavar="OUT", help="a new folder, as assets/checkpoints/NAME")
    export.set_defaults(run=_export)

    evaluate = commands.add_parser("evaluate", help="measure checkpoints on unseen scenes, write it into their cards")
    evaluate.add_argument("folders", nargs="+", type=Path, metavar="CHECKPOINT", help="exported folders to compare")
    evaluate.add_argument("--images", type=int, default=500, help="scenes to classify (default: %(default)s)")
    evaluate.set_defaults(run=_evaluate)

    args = parser.parse_args(arguments)
    try:
        return args.run(args)
    except StudioError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


# Each command imports what it needs, so that none waits for what another needs.
def _fit(args: argparse.Namespace) -> int:
    from train.config import load_config
    from train.loop import fit

    config = load_config(args.config, args.settings)
    print(fit(config, args.out or Path("runs") / config.name))
    return 0


def _export(args: argparse.Namespace) -> int:
    from train.export import export_run

    print(export_run(args.folder, args.out))
    return 0


def _evaluate(args: argparse.Namespace) -> int:
    from models.checkpoints import load_checkpoint
    from train.evaluation.zero_shot import zero_shot
    from train.export import EVALUATION, check_exported, write_card

    for folder in args.folders:
        check_exported(folder)
    results = {folder: asdict(zero_shot(load_checkpoint(folder), args.images)) for folder in args.folders}
    for folder, result in results.items():
        compared = [other for key, other in results.items() if key != folder]
        plain: dict[str, Any] = {**result, "compared": compared}
        (folder / EVALUATION).write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
        write_card(folder)
        low, high = result["top1_interval"]
        print(f"{result['model']}: top-1 {result['top1']:.1%} ({low:.1%} to {high:.1%}), top-5 {result['top5']:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
