"""`python -m train scenes OUT --count N`: writes a data set of scenes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tqdm import tqdm

from train.scenes.shards import write_shards


def add_parser(subparsers: Any) -> None:
    """Adds the `scenes` command to the subparsers of an argparse parser."""
    parser = subparsers.add_parser(
        "scenes",
        help="write captioned scenes of OpenMoji objects as tar shards",
        description="Writes scenes with captions, exact masks, boxes and minimal pairs as tar shards. "
        "One seed gives one data set, byte for byte.",
        epilog="example:\n  python -m train scenes shards --count 1000 --seed 0 --size 112",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path, help="a folder without shards; it is made when it does not exist")
    parser.add_argument("--count", type=int, default=1000, help="how many scenes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which series of scenes (default: %(default)s)")
    parser.add_argument("--size", type=int, default=112, help="pixels a side, 16 to 1024 (default: %(default)s)")
    parser.add_argument("--per-shard", type=int, default=1000, help="scenes in a shard (default: %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the shards that `args` (out, count, seed, size, per_shard) ask for; returns 0.

    Raises StudioError for values out of range and for a folder that already holds shards.
    """
    with tqdm(total=max(args.count, 0), unit="scene") as bar:
        paths = write_shards(args.out, args.count, args.seed, args.size, per_shard=args.per_shard, progress=bar.update)
    print(f"{args.count} scenes in {len(paths)} shard{'' if len(paths) == 1 else 's'} in {args.out}.")
    return 0
