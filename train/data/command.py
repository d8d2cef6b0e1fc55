"""`python -m train check-data PATH`: what is there, what is wrong with it, and counts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

EXAMPLE = """\
examples:
  python -m train check-data cc3m                               a folder of tars
  python -m train check-data 'cc3m/cc3m-train-*.tar' --full     a pattern; all headers
  python -m train check-data 'cc3m/cc3m-train-{0000..0575}.tar' a range; missing shards are told
  python -m train check-data flickr.csv root=flickr caption=comment
  python -m train check-data renders 'split="last dot"' 'captions=["json:text"]'

The exit status is 0 for data that can be trained on, 1 for data to repair, 2 where nothing can be read.
"""


def add_parser(subparsers: Any) -> None:
    """Adds the `check-data` command to the subparsers of an argparse parser."""
    parser = subparsers.add_parser(
        "check-data",
        help="say what data are there, what is wrong with them, and counts",
        description="Looks at tar shards or at a CSV with pictures, and changes nothing. The headers of as many tars "
        "as the time allows are scanned, spread over the whole, or the first rows of the CSV, and 300 samples are "
        "decoded.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", help="a folder of tars, a tar, a pattern, a range {0000..0575}, or a CSV or TSV")
    parser.add_argument(
        "settings", nargs="*", default=[], metavar="key=value", help="settings of the data, as a config has them"
    )
    parser.add_argument(
        "--full", action="store_true", help="scan the headers of all tars or all rows, however long it takes"
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="for headers or rows, then for pictures (%(default)s)"
    )
    parser.add_argument("--limit", type=float, default=0.01, help="share that training may skip (%(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the report that `args` (path, settings, full, seconds, limit) ask for; returns 0 or 1.

    Raises StudioError where there are no data of a known kind, and for a setting that does not exist.
    """
    from models.plain import from_plain
    from train.data.check import Effort, check
    from train.data.config import CsvData, TarData, setting

    settings = dict(setting(text, "root=pictures") for text in args.settings)
    if Path(args.path).suffix.lower() in (".csv", ".tsv"):
        data = from_plain(CsvData, {**settings, "csv": args.path}, "data")
    else:
        data = from_plain(TarData, {**settings, "tars": args.path}, "data")
    report = check(data, args.limit, Effort(args.full, args.seconds))
    print(report.text())
    return 1 if report.problems else 0
