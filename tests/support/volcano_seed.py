"""Configuration of Volcano's scheduler as seed 003 has it, letter by letter."""

from __future__ import annotations

from typing import Final

__all__ = ["SEED_FILE", "SEED_TIERS"]

SEED_TIERS: Final = """\
tiers:\x20
- plugins:\x20
  - name: priority
  - name: gang
  - name: conformance
  - name: topology910
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""two tiers"""
SEED_FILE: Final = f'actions: "enqueue, allocate, backfill"\n{SEED_TIERS}'
"""the two tiers with the seed's actions"""
