"""`python -m train plan`, `fit` and `report`: a run before, while and after it happens."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

FIT = """\
examples:
  python -m train fit train/configs/clip_scenes.toml
  python -m train fit train/configs/clip_scenes.toml --out runs/short stop_after=50 workers=2
  torchrun --nproc-per-node 4 -m train fit mine.toml

SIGTERM, SIGINT (Ctrl-C) or SIGUSR1 end the run after its step, with its state saved; the same command goes on, and a
measurement that was cut is made then. A second Ctrl-C ends it at once. The exit status of a stopped run is 0 as well.
While the data are opened, SIGTERM and SIGUSR1 leave that at once with status 0, and Ctrl-C ends the program.

Under torchrun, a signal to one of the processes stops all of them after the same step, with the state saved once.
torchrun passes SIGTERM and SIGINT on to them, waits 30 seconds before it kills them, and then leaves with status 1,
though all is saved. SIGUSR1 it does not pass on: it is ended by it, and the run goes on without it. So send that to a
process of the run: one is enough, there is no limit of 30 seconds, and torchrun leaves with status 0:
kill -USR1 $(pgrep -P NUMBER_OF_TORCHRUN | head -n 1). An error is told by all processes, which leave with status 2;
torchrun then leaves with 1, as where one of them is killed. The same command goes on from the state that was saved
last. On Windows, torchrun needs USE_LIBUV=0 in the environment.
"""
PLAN = """\
examples:
  python -m train plan train/configs/clip_scenes.toml --measure
  python -m train plan train/configs/clip_scenes.toml batch_size=64 --processes 2 --speed 900
  python -m train plan mine.toml --samples 2300000           data that are not on this machine
"""


def add_parsers(subparsers: Any) -> None:
    """Adds the commands to the subparsers of an argparse parser."""
    shape = argparse.RawDescriptionHelpFormatter
    fit = subparsers.add_parser(
        "fit", help="train a model from a config; go on where it stopped", epilog=FIT, formatter_class=shape
    )
    _add_config(fit)
    fit.add_argument("--out", type=Path, help="the run's folder (default: runs/NAME)")
    fit.add_argument(
        "--anyway",
        action="store_true",
        help="let the run in the folder go on with other settings of optim; its config.json tells since when",
    )
    fit.set_defaults(run=_fit)

    plan = subparsers.add_parser(
        "plan",
        help="say what a run will take, without training",
        description="Prints steps, epochs, parameters, memory, operations and, for a measured or given speed, time.",
        epilog=PLAN,
        formatter_class=shape,
    )
    _add_config(plan)
    plan.add_argument("--samples", type=int, default=0, help="size of the data, where they are not at hand")
    plan.add_argument("--out", type=Path, help="the run's folder as for fit; the index of tars is kept beside it")
    plan.add_argument("--processes", type=int, default=1, help="processes that train together (%(default)s)")
    speed = plan.add_mutually_exclusive_group()
    speed.add_argument("--speed", type=float, help="samples a second of all processes together")
    speed.add_argument(
        "--measure", action="store_true", help="time a few steps of this run, with its batch, on this machine"
    )
    plan.set_defaults(run=_plan)

    report = subparsers.add_parser(
        "report",
        help="write a page with the curves of a run",
        description="Writes one page, without scripts and without anything to load, from what a run has logged so far.",
        epilog="example:\n  python -m train report runs/diffclip-scenes --out diffclip.html",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    report.add_argument("folder", type=Path, metavar="RUN", help="a run's folder, or one made by export")
    report.add_argument("--out", type=Path, help="the page (default: RUN/report.html)")
    report.set_defaults(run=_report)


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, metavar="CONFIG", help="a TOML file, as train/configs/clip_scenes.toml")
    parser.add_argument(
        "settings", nargs="*", default=[], metavar="key=value", help="overrides, as optim.lr=5e-4 stop_after=50"
    )


# Each command imports what it needs, so that none waits for what another needs.
def _fit(args: argparse.Namespace) -> int:
    import os

    from train.config import load_config
    from train.loop import fit

    config = load_config(args.config, args.settings)
    done = fit(config, args.out or Path("runs") / config.name, anyway=args.anyway)
    if os.environ.get("RANK", "0") == "0":
        print(done)
    return 0


def _plan(args: argparse.Namespace) -> int:
    from models.errors import StudioError
    from train.config import load_config
    from train.feed import index_folder
    from train.plan import Given, Measured, Speed, Unknown, plan

    if args.samples < 0 or (args.speed is not None and not args.speed > 0):
        raise StudioError("--samples cannot be below 0, and --speed must be above 0.")
    speed: Speed = Measured() if args.measure else Given(args.speed) if args.speed else Unknown()
    config = load_config(args.config, args.settings)
    cache = index_folder(args.out or Path("runs") / config.name)
    for label, text in plan(config, args.samples, args.processes, speed, cache):
        print(f"{label:<12}{text}")
    return 0


def _report(args: argparse.Namespace) -> int:
    from train.report import write_report

    print(write_report(args.folder, args.out))
    return 0
