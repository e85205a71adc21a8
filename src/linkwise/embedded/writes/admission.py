"""Admission points of a write: where admission may change the object, and where it may only accept or deny it.

A write is a generator. It yields an AdmissionRequest when its object has defaults but is not validated yet (mutating), and
again when it is complete and valid (validating), and is resumed with the object as admitted. So one piece of code serves the
writes that wait for webhooks and those of the components in this process, which never wait.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Stored

__all__ = ["AdmissionRequest", "ChangedMeanwhileError", "Write", "at_once", "without_admission"]

Raw = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")


class ChangedMeanwhileError(LinkwiseError):
    """The object was written while admission was waiting; the write starts again with the new object."""

    def __init__(self, resource: Resource, name: str) -> None:
        super().__init__(f"{resource.group_resource} {name} was changed during admission")
        self.resource, self.name = resource, name


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A write at one of its admission points."""

    mutating: bool
    """whether the object may still be changed"""
    operation: Literal["CREATE", "UPDATE", "DELETE"]
    resource: Resource
    namespace: str
    name: str
    """empty if the server will generate it"""
    object: Raw | None
    """None for a delete"""
    old: Stored | None = None
    """the stored object, for updates and deletes"""
    subresource: str = ""
    dry_run: bool = False
    kind: tuple[str, str, str] | None = None
    """group, version and kind of the object if they are not the resource's: Binding, Eviction"""
    options: msgspec.Struct | None = None
    """DeleteOptions of a delete"""


Write = Generator[AdmissionRequest, Raw | None, T]
"""a write that stops at its admission points, and returns what was stored"""


def without_admission(write: Write[T]) -> T:
    """Complete a write at once, as admitted at every point."""
    try:
        request = next(write)
        while True:
            request = write.send(request.object)
    except StopIteration as stop:
        result: T = stop.value
        return result


def at_once(begin: Callable[P, Write[T]]) -> Callable[P, T]:
    """The function that completes a write at once, as admitted at every point."""

    def complete(*arguments: P.args, **options: P.kwargs) -> T:
        return without_admission(begin(*arguments, **options))

    return complete
