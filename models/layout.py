"""What the tokens of a tower are: a grid of patches behind some prefix tokens, or a sentence."""

from dataclasses import dataclass

from models.errors import StudioError


@dataclass(frozen=True)
class TokenGrid:
    """Tokens of a vision tower: `prefix` tokens (CLS first), then `rows` x `cols` patches row by row."""

    prefix: int
    rows: int
    cols: int

    @property
    def patches(self) -> int:
        """Number of patch tokens, R * C."""
        return self.rows * self.cols

    @property
    def tokens(self) -> int:
        """Number of all tokens, N."""
        return self.prefix + self.patches

    def token(self, row: int, col: int) -> int:
        """Index of the token of the patch at (row, col).

        Raises:
            StudioError: the patch lies outside the grid.
        """
        if not (0 <= row < self.rows and 0 <= col < self.cols):
            raise StudioError(
                f"Patch ({row}, {col}) lies outside the {self.rows} x {self.cols} grid: "
                f"choose row 0-{self.rows - 1} and column 0-{self.cols - 1}."
            )
        return self.prefix + row * self.cols + col


@dataclass(frozen=True)
class TokenSequence:
    """Tokens of a text tower: `tokens` positions of which the end-of-text position is read out."""

    tokens: int
