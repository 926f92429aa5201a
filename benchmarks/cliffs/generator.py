"""Statements by number: what a statement is to be comes from the shares, the rest from a seed of its own."""

from .draw import Draw
from .forms import FORMS
from .profile import Profile
from .shares import Shares
from .statement import Statement


class Generator:
    """The statements of a seed. Each depends on its number alone, so that a longer run begins like a shorter one."""

    def __init__(self, profiles: dict[str, Profile], seed: int, only: dict[str, list[str]] | None = None):
        self.profiles = profiles
        self.seed = seed
        self.shares = Shares(seed, only)

    def statement(self, number: int) -> Statement:
        """Statement ``number``."""
        share = self.shares.of(number)
        return FORMS[share.form](Draw(f"{self.seed}/statement/{number}", share, self.profiles))

    def statements(self, count: int) -> list[Statement]:
        """The first ``count``."""
        return [self.statement(number) for number in range(count)]
