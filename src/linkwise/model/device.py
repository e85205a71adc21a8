"""One accelerator as its node reports it."""

from dataclasses import dataclass

__all__ = ["Device"]


@dataclass(frozen=True, slots=True)
class Device:
    """A device is known by its id everywhere; index and minor matter only where a tool or a kernel wants them."""

    id: str
    """the UUID, or `#index` where only counts are known"""
    index: int
    minor: int | None = None
    numa: int | None = None
    bus_id: str = ""
    model: str = ""
    memory: int = 0  # in the unit of the node's share resource
    healthy: bool = True
    bytes: int = 0  # of memory, where that is told beside the unit; 0 if not
