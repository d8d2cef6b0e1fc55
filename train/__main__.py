"""`python -m train`: make data, plan, train, report, evaluate, export. Each command says what it does with --help."""

import argparse
import sys
from pathlib import Path

from models.errors import StudioError
from train import run_commands
from train.data import command as data_command
from train.evaluation import command as evaluate_command
from train.scenes import command as scenes_command


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a wrong input, or a path that the system refuses, is one sentence on stderr and status 2."""
    parser = argparse.ArgumentParser(prog="python -m train", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    scenes_command.add_parser(commands)
    data_command.add_parser(commands)
    run_commands.add_parsers(commands)

    export = commands.add_parser(
        "export",
        help="make the folder that is shipped from a finished run",
        description="Makes a folder of weights, config, tokenizer, log and card, which load_model and the page open.",
        epilog="example: python -m train export runs/my-diffclip my-diffclip --push-to-hub me/my-diffclip --private",
    )
    export.add_argument("folder", type=Path, metavar="RUN", help="the run's folder")
    export.add_argument("out", type=Path, metavar="OUT", help="a new folder, as assets/checkpoints/NAME")
    export.add_argument(
        "--push-to-hub", metavar="ORG/NAME", help="a repository on the Hugging Face Hub, made if need be"
    )
    export.add_argument("--private", action="store_true", help="make the repository a private one")
    export.set_defaults(run=_export)

    evaluate_command.add_parser(commands)

    # What stands after an option is left over by argparse, though it may be one more setting.
    args, left = parser.parse_known_args(arguments)
    if left and not (hasattr(args, "settings") and all("=" in item and not item.startswith("-") for item in left)):
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    if left:
        args.settings = [*args.settings, *left]
    try:
        return args.run(args)
    except StudioError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}: choose another path, or mend this one.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


# Each command imports what it needs, so that none waits for what another needs.
def _export(args: argparse.Namespace) -> int:
    from train.export import export_run
    from train.push import check_repository, push_folder

    if args.private and not args.push_to_hub:
        raise StudioError("--private is of a repository: name one with --push-to-hub, or drop it.")
    if args.push_to_hub:
        check_repository(args.push_to_hub)
    print(export_run(args.folder, args.out))
    if args.push_to_hub:
        print(push_folder(args.out, args.push_to_hub, args.private))
    return 0


if __name__ == "__main__":
    sys.exit(main())
