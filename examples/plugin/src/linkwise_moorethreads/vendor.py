"""Moore Threads: the output of `mthreads-gmi topo -m`, MTLink, a machine, and the needs of containers."""

import re

from linkwise.vendors.link_table.layout import Names, leading, tables
from linkwise.vendors.link_table.matrix import no_table, read_first
from linkwise.vendors.machine import MachineProfile, linked
from linkwise.vendors.reader import Reader, Reading
from linkwise.vendors.vendor import LinkCode, NeedsRule, Vendor

KIND = "mthreads-gmi topo -m"
GPUS = Names("GPU[0-9]{1,3}")
COMMAND = re.compile(r"mthreads-gmi[ \t]+topo")
ROW = re.compile(r"(?m)^\W*GPU[0-9]{1,3}[ \t][^\n]*\bMTL\b")

S4000 = """
X    MTL  SYS  SYS
MTL  X    SYS  SYS
SYS  SYS  X    MTL
SYS  SYS  MTL  X
"""


def recognises(text: str) -> bool:
    """Whether a row has an MTLink, or the command is in the text and no other vendor's is."""
    return bool(ROW.search(text)) or (bool(COMMAND.search(text)) and "nvidia-smi" not in text)


def read(text: str) -> Reading:
    """The link matrix."""
    return read_first(list(leading(tables(text, GPUS))), KIND) or no_table(KIND, "", "the text has no table of GPUs")


def machines() -> tuple[MachineProfile, ...]:
    """The machines that can be named: `linkwise up --fleet mtt-s4000=2`."""
    return (MachineProfile("mtt-s4000", "moorethreads", "MTT S4000", 49152, linked(S4000)),)


VENDOR = Vendor(
    name="moorethreads",
    readers=(Reader(KIND, recognises, read, claims="matrix of GPUs"),),
    tools={"mthreads-gmi": KIND},
    links=(LinkCode("MTL", "MTLink"),),
    machines=machines,
    container_needs=NeedsRule(
        node="/dev/mtgpu.{number}",
        control=(),
        cdi="mthreads.com/gpu",
        visible="MTHREADS_VISIBLE_DEVICES",
    ),
)
