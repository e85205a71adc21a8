"""Soak test: long runs of the fuzz and property tests (`make soak`, SECONDS=600 by default); exits with 1 on a failure.

Half of the time it damages texts of vendor tools: the parser may raise nothing but TopologyError and must stay linear in
the size of the text. In the other half random events happen to brokers, for single pods and for groups, while the
invariants of the property tests are checked. A failure is printed with the seed and the steps that reproduce it.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from linkwise import TopologyError, parse_topology
from linkwise.vendors.machines import PROFILES
from support.builders.tool_texts import P2P_TITLES, p2p_text
from support.properties.broker_world import World
from support.properties.group_world import GroupWorld

ROOT = Path(__file__).resolve().parents[1]
SLOWEST = 2e-6  # seconds per character, for texts of some size
STEPS = 80  # per world
WEIGHTS = {
    "schedule": 8,
    "create": 6,
    "deliver": 6,
    "filter": 5,
    "bind": 5,
    "land": 5,
    "read": 3,
    "delete": 3,
    "agent": 3,
    "group": 6,
    "place": 8,
    "write": 4,
    "settle": 1,
}


def main() -> None:
    """Run both halves."""
    seconds, seed = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0, time.time_ns()
    fuzz(seconds / 2, seed)
    shake(seconds / 2, seed)


def fuzz(seconds: float, seed: int) -> None:
    """Parse damaged texts."""
    chooser, texts = random.Random(seed), seeds()
    print(f"fuzzing {len(texts)} texts for {seconds:g} s, seed {seed}")
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        attempt(damaged(chooser, texts), seed)
        rounds += 1
        if rounds % 5000 == 0:
            print(f"{rounds} texts, {end - time.monotonic():.0f} s left")
    print(f"{rounds} texts, none raised or took too long")


def shake(seconds: float, seed: int) -> None:
    """Run random events on brokers, one world after the other."""
    print(f"random events on brokers for {seconds:g} s, from seed {seed}")
    end, worlds, steps = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        steps += live(seed + worlds, STEPS, groups=worlds % 2 == 1)
        worlds += 1
        if worlds % 500 == 0:
            print(f"{steps} steps, {end - time.monotonic():.0f} s left")
    print(f"{steps} steps in {worlds} worlds, all invariants held")


def live(seed: int, steps: int, *, groups: bool = False) -> int:
    """Run one world; returns the number of steps, and prints all of them if one fails."""
    chooser = random.Random(seed)
    start = chooser.randrange(256), chooser.randrange(256)
    world = GroupWorld(*start, chooser.randrange(256)) if groups else World(*start)
    names, done = list(world.moves), list[tuple[str, int, int, int]]()
    weights = [WEIGHTS.get(name, 2) for name in names]
    try:
        for _ in range(steps):
            (move,) = chooser.choices(names, weights)
            done.append((move, chooser.randrange(256), chooser.randrange(256), chooser.randrange(256)))
            world.step(*done[-1])
    except Exception:
        print(f"seed {seed}, {groups=}: {type(world).__name__}{start}, steps {done}")
        raise
    return steps


def seeds() -> list[str]:
    """Initial texts: rendered profiles, and recorded outputs if they are beside the checkout."""
    collected = [
        file.read_text("utf-8", errors="replace")
        for file in sorted((ROOT.parent / "shared/data/topology-text").glob("*/*.txt"))
    ]
    speeds = tuple(tuple(float(10 * i + j) for j in range(4)) for i in range(4))
    return [*collected, p2p_text(dict.fromkeys(P2P_TITLES, speeds)), *map(link_text, PROFILES)]


def link_text(name: str) -> str:
    """A profile as `nvidia-smi topo -m` would print it."""
    topology = PROFILES[name].topology
    head = "\t" + "\t".join(f"GPU{i}" for i in range(len(topology.devices)))
    return "\n".join([head, *(f"GPU{i}\t" + "\t".join(row) for i, row in enumerate(topology.links))]) + "\n"


def damaged(chooser: random.Random, texts: list[str]) -> str:
    """A text after one to four random edits."""
    text = chooser.choice(texts)
    for _ in range(chooser.randint(1, 4)):
        start, end = sorted(chooser.randint(0, len(text)) for _ in range(2))
        text = chooser.choice(
            [
                text[:end],
                text[start:],
                text[:start] + text[end:],
                text[:start] + chooser.choice(texts) + text[end:],
                text[:start] + "".join(chr(chooser.randint(0, 0x2FF)) for _ in range(8)) + text[start:],
                text[:end] + text[start:end] * 3 + text[end:],
            ]
        )
    return text[:200_000]


def attempt(text: str, seed: int) -> None:
    """Parse one text; print it if that fails."""
    start = time.perf_counter()
    try:
        parse_topology(text)
    except TopologyError:
        pass
    except Exception:
        print(f"seed {seed}: {text!r}")
        raise
    spent = time.perf_counter() - start
    if len(text) > 20_000 and spent > SLOWEST * len(text) + 1.0:
        print(f"seed {seed}: {len(text)} characters took {spent:.1f} s")
        sys.exit(1)


if __name__ == "__main__":
    main()
