"""`python -m train evaluate MODEL ...`: what checkpoints can do; `python -m train figures FILE.json`: how it looks."""

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

A study keeps each model in --out once it is measured, and draws figures beside it. Given again, after a stop or with
more models, the command measures what is missing, and the same weights no second time.
What an exported folder (`python -m train export`) scores on scenes is written into its evaluation.json and its card.
"""
FIGURES = """\
example:
  python -m train figures assets/results/scenes.json --into README.md

Markers in a document: <!-- scenes:table --> and <!-- /scenes:table -->; also sentences, attention, differences and
controls.
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

    figures = subparsers.add_parser(
        "figures",
        help="draw the figures and tables of a study from its file, and quote it in documents",
        description="Writes bars.svg, radar.svg, attention.svg, relevance.svg and tables.md beside the file that "
        "`evaluate --protocol study --out` wrote, which does so itself when it is done. Documents given by --into get "
        "tables and sentences between their markers.",
        epilog=FIGURES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    figures.add_argument("study", type=Path, metavar="FILE.json", help="the file of a study")
    figures.add_argument(
        "--into", type=Path, nargs="+", default=[], metavar="DOCUMENT.md", help="documents whose markers are filled"
    )
    figures.set_defaults(run=draw)


def run(args: argparse.Namespace) -> int:
    """Measures what `args` ask for, prints it, writes it where it belongs; returns 0.

    Raises StudioError for data, models or settings that there are not or that do not fit each other.
    """
    from train.evaluation.evaluate import evaluate, protocol_of

    evaluate(args.models, protocol_of(args), args.workers, args.device, args.out)
    return 0


def draw(args: argparse.Namespace) -> int:
    """Draws the figures of a study and fills documents; returns 0.

    Raises StudioError for a file that is no study, or a document without markers.
    """
    from train.evaluation.figures.write import write_figures
    from train.evaluation.quoting import fill, quotations
    from train.evaluation.study_file import read_study

    found = read_study(args.study)
    told = quotations(found)
    written = write_figures(found, args.study.parent) + [fill(path, told) for path in args.into]
    print("\n".join(map(str, written)))
    return 0
