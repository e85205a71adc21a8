"""Something in a user's words that is broken: where it stands, and what to do about it."""

from dataclasses import dataclass

__all__ = ["Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Reported, never guessed at."""

    where: str
    """the object: `pod default/trainer-0`, `node gpu-1`"""
    key: str
    """the label, annotation, resource or field"""
    sentence: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.sentence}"
