"""What can be changed in a run: every edit is one frozen value, and says in which layers it holds.

`layers` of an edit is a layer, several, or None for all; negative numbers count from the end, -1 is the last. Edits
are put together in one order, whatever the order in which they are given:

1. scores: of the source (`UseSource`), with the neighbourhood's bonus (`Neighbourhood`);
2. weights of each map: by a normaliser (`UseNormalizer`) or by a control of sparsity (`TopK`, `RandomMask`,
   `MatchedEntropy`); several sources are summed after this. `Identity` stands for everything up to step 4;
3. A2 of a differential head: shuffled, uniform, or another picture's (`ShuffledA2`, `UniformA2`, `OtherA2`);
4. lambda (`SetLambda`), which gives the weights A1 - lambda A2;
5. heads that answer nothing (`AblateHeads`);
6. the module's own merge: head norm and (1 - lambda_init) where it has them, output projection;
7. the block: without its residual (`DropResidual`), without its FFN (`DropFFN`).

One edit of each step and layer; a second one is refused, since one of them would silently win.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

from models.errors import StudioError
from models.maps import Source
from models.normalizers import Normalizer
from models.recorder import Recording

Layers = int | tuple[int, ...] | None

HIGHEST_SEED = 2**48  # times the layers that a seed is spread over, it stays below the 2**63 that a generator takes


@dataclass(frozen=True)
class UseSource:
    """Scores from other vectors: "qk" (the model's own), "qq", "kk", "vv", or several of them, as ("qq", "kk").

    Several are summed after normalising, so that rows sum to their number, or averaged.

    Raises:
        StudioError: no source, or an unknown way to combine.
    """

    source: Source
    combine: Literal["sum", "mean"] = "sum"
    layers: Layers = None

    def __post_init__(self) -> None:
        if not isinstance(self.source, Sequence) or not self.names or self.combine not in ("sum", "mean"):
            raise StudioError(
                f"Sources {self.source!r} combined by {self.combine!r} make no map: give at least one source, and "
                "'sum' or 'mean'."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The sources, one or more."""
        return (self.source,) if isinstance(self.source, str) else tuple(self.source)


@dataclass(frozen=True)
class Neighbourhood:
    """NACLIP's bonus for near patches: a Gaussian of the distance in patches is added to the scaled scores.

    exp(-(dy^2 + dx^2) / (2 std^2)) between two patches, so its peak is 1 and it is not normalised; 0 wherever a prefix
    token (CLS, register) is the query or the key. Source: Hajimiri, Ben Ayed and Dolz, "Pay Attention to Your
    Neighbours" (WACV 2025), where std is 5.

    Raises:
        StudioError: std that is not above 0.
    """

    std: float = 5.0
    layers: Layers = None

    def __post_init__(self) -> None:
        if not (_is_finite(self.std) and self.std > 0):
            raise StudioError(f"A neighbourhood of std {self.std!r} patches is impossible: give a number above 0.")


@dataclass(frozen=True)
class SupportOf:
    """As many keys in each row as this normaliser gives a weight other than zero, of the same scores.

    Raises:
        StudioError: what is no `Normalizer`.
    """

    normalizer: Normalizer

    def __post_init__(self) -> None:
        _check_normalizer(self.normalizer)


Keep = int | SupportOf


@dataclass(frozen=True)
class UseNormalizer:
    """Another normaliser in the place of softmax, for both maps of a differential head.

    Raises:
        StudioError: what is no `Normalizer`.
    """

    normalizer: Normalizer
    layers: Layers = None

    def __post_init__(self) -> None:
        _check_normalizer(self.normalizer)


@dataclass(frozen=True)
class TopK:
    """Softmax over the highest scores of each row: the sparsity of entmax without its shape.

    `keep` is how many, a number or the support of a normaliser. A masked key is never among them.

    Raises:
        StudioError: fewer than one key, or no whole number of them.
    """

    keep: Keep
    layers: Layers = None

    def __post_init__(self) -> None:
        _check_keep(self.keep)


@dataclass(frozen=True)
class RandomMask:
    """Softmax over keys drawn at random in each row: sparsity that knows nothing of the scores.

    `keep` is how many, a number or the support of a normaliser; a masked key is never drawn. The draw is a function of
    (seed, layer, head, map, query), the same for all pictures.

    Raises:
        StudioError: fewer than one key or no whole number of them, or a seed that is not from 0 to 2 ** 48.
    """

    keep: Keep
    seed: int = 0
    layers: Layers = None

    def __post_init__(self) -> None:
        _check_keep(self.keep)
        _check_seed(self.seed)


@dataclass(frozen=True)
class MatchedEntropy:
    """Softmax with a temperature a row, such that its entropy is that of this normaliser on the same scores.

    As concentrated as entmax, but without a zero.

    Raises:
        StudioError: what is no `Normalizer`.
    """

    normalizer: Normalizer
    layers: Layers = None

    def __post_init__(self) -> None:
        _check_normalizer(self.normalizer)


@dataclass(frozen=True)
class Identity:
    """Every token attends to itself alone: what entmax of a self-correlation becomes when it is sharp enough.

    In a differential head the identity takes the place of the whole A1 - lambda A2. Putting it in the place of both
    maps would give (1 - lambda) I, which the head's RMSNorm makes the same for lambda < 1, but nothing for lambda = 1
    and its negative for lambda > 1: a control must not turn on that.
    """

    layers: Layers = None


@dataclass(frozen=True)
class ShuffledA2:
    """A2 with its patch keys in another order: a subtracted map that knows nothing of the picture.

    One permutation for all layers, heads, queries and pictures; the prefix keys stay where they are. It is the first
    that `statistics.shuffled_differences` draws from the same seed.

    Raises:
        StudioError: a seed that is not from 0 to 2 ** 48.
    """

    seed: int = 0
    layers: Layers = None

    def __post_init__(self) -> None:
        _check_seed(self.seed)


@dataclass(frozen=True)
class UniformA2:
    """A2 spread evenly over all keys that are not masked, each row keeping its sum."""

    layers: Layers = None


@dataclass(frozen=True)
class OtherA2:
    """A2 of another picture (or text), from a recording of one of them or of as many as are run.

    Its scores become weights as those of the run do: by the same source, bonus and normaliser.

    Raises:
        StudioError: what is no recording.
    """

    recording: Recording
    layers: Layers = None

    def __post_init__(self) -> None:
        if not isinstance(self.recording, Recording):
            raise StudioError(f"{_named(self.recording)} is no recording: give what record(tower) made of a picture.")


@dataclass(frozen=True)
class SetLambda:
    """Another lambda: one number, or one a head; for all heads, or for `heads`.

    In DiffCLIP the head's RMSNorm makes a positive factor on a row of weights irrelevant, so lambda = 0 gives plain A1
    behind the same norm and the same (1 - lambda_init), which is kept: lambda_init is not changed. In DIFF V2 the value
    takes the place of the sigmoid's for every token, and lambda = 0 is standard attention of the first queries.

    Raises:
        StudioError: a value that is not a finite number or a tuple of them, or another number of values than of
            `heads`.
    """

    value: float | tuple[float, ...]
    layers: Layers = None
    heads: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        if not values or not all(map(_is_finite, values)):
            raise StudioError(
                f"lambda = {self.value!r} is impossible: give a finite number, or a tuple of one for each head."
            )
        if self.heads is not None:
            _check_heads(self.heads)
            if isinstance(self.value, tuple) and len(self.value) != len(self.heads):
                raise StudioError(
                    f"{len(self.value)} values of lambda do not fit {len(self.heads)} heads: give one, or one for each."
                )


@dataclass(frozen=True)
class AblateHeads:
    """Heads whose weights are zero: they add nothing to what the output projection is given.

    Raises:
        StudioError: no head, one twice, or what is no whole number.
    """

    heads: tuple[int, ...]
    layers: Layers = None

    def __post_init__(self) -> None:
        _check_heads(self.heads)


@dataclass(frozen=True)
class DropResidual:
    """The block goes on with its attention branch alone, without what came in; the FFN follows unless dropped."""

    layers: Layers = None


@dataclass(frozen=True)
class DropFFN:
    """The block ends after attention: its FFN adds nothing."""

    layers: Layers = None


WeightRule = UseNormalizer | TopK | RandomMask | MatchedEntropy | Identity
A2Control = ShuffledA2 | UniformA2 | OtherA2
Edit = UseSource | Neighbourhood | WeightRule | A2Control | SetLambda | AblateHeads | DropResidual | DropFFN


def is_whole(value: object) -> bool:
    """Whether a value counts or numbers something: an integer of any type, and no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _named(value: object) -> str:
    """How a sentence names what is of the wrong type: a short value itself, of others the type."""
    return repr(value) if isinstance(value, (str, Real)) else f"A {type(value).__name__}"


def _check_keep(keep: Keep) -> None:
    if isinstance(keep, SupportOf):
        return
    if not is_whole(keep) or keep < 1:
        raise StudioError(
            f"Keeping {keep!r} keys is impossible: give a whole number of at least 1, or SupportOf a normaliser."
        )


def _check_seed(seed: int) -> None:
    if not is_whole(seed) or not 0 <= seed <= HIGHEST_SEED:
        raise StudioError(f"Seed {seed!r} is impossible: give a whole number from 0 to 2**48.")


def _check_heads(heads: tuple[int, ...]) -> None:
    if not isinstance(heads, Sequence) or not heads or not all(map(is_whole, heads)) or len(set(heads)) != len(heads):
        raise StudioError(f"Heads {heads!r} are impossible: give a tuple of at least one whole number, each once.")


def _check_normalizer(normalizer: Normalizer) -> None:
    if not isinstance(normalizer, Normalizer):
        raise StudioError(f"{_named(normalizer)} is no normaliser: give Normalizer(alpha) with alpha from 1 to 2.")
