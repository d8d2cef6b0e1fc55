"""What a person should know of a source before a model is trained on it, as sentences."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from train.data.lost import ends_early, lost_samples
from train.data.sample import Source, counted, told
from train.data.skips import shown
from train.data.tars import TarFolder

_SHOWN = 4


def remarks(source: Source) -> list[str]:
    """Sentences about what is left out, about shards that end early, and about shards of several kinds; or none."""
    told_of = []
    count = sum(source.left_out.values())
    if count:
        told_of.append(
            f"{counted(count, 'sample')} of {count + len(source):,} cannot be used ({told(source.left_out)})"
            f"{shown(source.examples)}; `python -m train check-data` says more."
        )
    if isinstance(source, TarFolder):
        early = sum(map(ends_early, source.shards))
        if early:
            lost = counted(lost_samples(source.shards), "sample")
            told_of.append(
                f"{counted(early, 'tar shard')} of {len(source.shards):,} ended early, with about {lost} that nobody "
                "saw: fetch these shards again."
            )
        told_of += [f"{text}." for text in several_kinds([Path(shard.path) for shard in source.shards])]
    return told_of


def several_kinds(paths: Sequence[Path]) -> list[str]:
    """A line about shards of several names, as cc3m-train-0000.tar beside cc3m-validation-0000.tar; or none."""
    kinds = Counter(re.sub(r"\d+$", "", path.stem) for path in paths)
    if len(kinds) < 2:
        return []
    named = ", ".join(f"{kind}*.tar ({count:,})" for kind, count in kinds.most_common(_SHOWN))
    more = f" and {len(kinds) - _SHOWN:,} more" if len(kinds) > _SHOWN else ""
    most = str(paths[0].parent / f"{kinds.most_common(1)[0][0]}*.tar")
    return [f"shards of several names are taken together: {named}{more}; for those of one, give a pattern as '{most}'"]
