"""python -m models {describe,check,export}: what a checkpoint is, whether its maps are true, an export."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from models.errors import StudioError

if TYPE_CHECKING:
    from models.loaded import LoadedModel

_SOURCE = "a shipped name, a file or folder, hf-hub:org/repo[@rev], or open_clip:ARCH/PRETRAINED"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status, 0 for success, 1 for a check that failed, 2 for bad input."""
    args = _parser().parse_args(arguments)
    try:
        return args.run(args)
    except StudioError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m models", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="{describe,check,export}")
    describe = commands.add_parser(
        "describe",
        help="say what a checkpoint is and what was assumed",
        description="Say what a checkpoint is, what decides its results, and what was assumed.",
        epilog="example: python -m models describe checkpoint_best.pt --resize squash",
    )
    check = commands.add_parser(
        "check",
        help="hold our maps and our entmax against their references on this machine",
        description="Hold our entmax against the entmax package, and the maps of a model against its own outputs.",
        epilog="example: python -m models check diffclip-scenes",
    )
    export = commands.add_parser(
        "export",
        help="write a checkpoint as safetensors and config",
        description="Write a checkpoint as a folder of safetensors and config that loads back bit-equal.",
        epilog="example: python -m models export checkpoint_best.pt diffclip-vitb16",
    )
    describe.set_defaults(run=_describe)
    check.set_defaults(run=_check)
    export.set_defaults(run=_export)
    for command in (describe, check, export):
        command.add_argument("source", nargs="?" if command is check else None, help=_SOURCE)
        _add_settings(command)
    export.add_argument("out", type=Path, help="a new folder")
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """What can be said of a checkpoint that its file does not say; the fields of models.overrides.Overrides."""
    pair = {"nargs": 2, "metavar": ("VISION", "TEXT")}
    parser.add_argument("--heads", type=int, help="raw heads of each tower", **pair)
    parser.add_argument("--lambda-init", type=_number_or_word, help="a number, or depth")
    parser.add_argument("--activation", choices=("gelu", "quick_gelu"), help="of each tower", **pair)
    parser.add_argument("--norm-eps", type=float, help="LayerNorm's epsilon of each tower", **pair)
    parser.add_argument("--grid", type=int, nargs=2, metavar=("ROWS", "COLS"), help="patches; positions are resampled")
    parser.add_argument(
        "--file-grid", type=int, nargs=2, metavar=("ROWS", "COLS"), help="of the file's own positions, if no square"
    )
    parser.add_argument("--mean", type=float, nargs=3, metavar=("R", "G", "B"))
    parser.add_argument("--std", type=float, nargs=3, metavar=("R", "G", "B"))
    parser.add_argument("--resize", choices=("shortest", "squash"))
    parser.add_argument("--interpolation", choices=("bicubic", "bilinear"))
    parser.add_argument("--truncation", choices=("keep_end", "cut_end"), help="of too long a text")


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _load(args: argparse.Namespace) -> "LoadedModel":
    from models.zoo import load_model

    settings = {key: value for key, value in vars(args).items() if key not in ("source", "run", "out")}
    return load_model(args.source, **settings)


def _describe(args: argparse.Namespace) -> int:
    from models.description import describe

    print(describe(_load(args)))
    return 0


def _check(args: argparse.Namespace) -> int:
    from models.check import check_entmax, check_reconstruction

    passed = True
    for line in check_entmax():
        print(line, flush=True)
        passed &= line.passed
    if args.source:
        for line in check_reconstruction(_load(args)):
            print(line, flush=True)
            passed &= line.passed
    return 0 if passed else 1


def _export(args: argparse.Namespace) -> int:
    from models.checkpoints import export_checkpoint, free_folder

    free_folder(args.out)
    print(export_checkpoint(_load(args), args.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
