"""`python -m train evaluate MODEL ...`: zero-shot and retrieval, on scenes and on any labelled or captioned data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

EXAMPLE = """\
examples:
  python -m train evaluate my-diffclip clip-scenes                unseen scenes, over all object names
  python -m train evaluate my-diffclip --protocol retrieval       unseen scenes and their captions
  python -m train evaluate my-diffclip clip-scenes --protocol study --out study.json
                                                                  names, captions, minimal pairs, renderings, attention
  python -m train evaluate vit.pt --data imagenet/val --templates openai-7 --out imagenet.json
  python -m train evaluate vit.pt --data 'flickr/test-{00..09}.tar' --set 'captions=["json:captions"]'
  torchrun --nproc-per-node 4 -m train evaluate vit.pt --data flickr.csv --set root=flickr --workers 4

What an exported folder (`python -m train export`) scores on scenes is written into its evaluation.json and its card.
"""
SCENES = 500


def add_parser(subparsers: Any) -> None:
    """Adds the `evaluate` command to the subparsers of an argparse parser."""
    parser = subparsers.add_parser(
        "evaluate",
        help="measure checkpoints: zero-shot and retrieval, on unseen scenes or on data of your own",
        description="Measures zero-shot classification (top-1, top-5, mean recall of a class) or retrieval both ways "
        "(R@1, 5, 10: a query scores if any right answer is among the first k), with 95 % intervals over pictures.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help="a shipped name, a file or folder, hf-hub:org/repo, or open_clip:ARCH/PRETRAINED",
    )
    parser.add_argument("--data", metavar="PATH", help="a folder of folders by class, tars, or a CSV (default: scenes)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="key=value", help="a setting of tars or CSV, as for check-data"
    )
    parser.add_argument(
        "--protocol", choices=("zero-shot", "retrieval", "study"), help="default: what the data are made for"
    )
    parser.add_argument(
        "--templates",
        help="openai-80, openai-7, plain, scenes, or one with {} in it (default: scenes for scenes, else openai-80)",
    )
    parser.add_argument("--images", type=int, help=f"pictures, evenly spaced (default: {SCENES} scenes, all of others)")
    parser.add_argument("--workers", type=int, default=0, help="processes that read pictures (default: none but this)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="where to keep the results with their origin")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measures what `args` ask for, prints it, writes it where it belongs; returns 0.

    Raises StudioError for data, models or settings that there are not or that do not fit each other.
    """
    from train.evaluation.evaluate import evaluate, protocol_of

    evaluate(args.models, protocol_of(args), args.workers, args.device, args.out)
    return 0
