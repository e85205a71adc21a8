"""Long runs of what the tests do for seconds: `make soak` (SECONDS=600 by default); ends with 1 at the first failure.

Half of the time real texts are cut, spliced, repeated and damaged; nothing may raise anything but TopologyError, and
nothing may take longer than its size allows. The other half anything happens to a broker, to single pods and to groups,
and what must be true stays true. What fails is printed so that it can be done again.
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
SLOWEST = 2e-6  # seconds a character, for texts of some size
STEPS = 80  # in one world; then a new one
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
    """Do both for as many seconds as asked, with a seed that is printed."""
    seconds, seed = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0, time.time_ns()
    fuzz(seconds / 2, seed)
    shake(seconds / 2, seed)


def fuzz(seconds: float, seed: int) -> None:
    """Read damaged texts."""
    chooser, texts = random.Random(seed), seeds()
    print(f"fuzzing {len(texts)} texts for {seconds:g} s, seed {seed}")
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        attempt(damaged(chooser, texts), seed)
        rounds += 1
        if rounds % 5000 == 0:
            print(f"{rounds} texts, {end - time.monotonic():.0f} s left")
    print(f"{rounds} texts, none raised or hung")


def shake(seconds: float, seed: int) -> None:
    """Let anything happen to brokers, one world after the other."""
    print(f"shaking brokers for {seconds:g} s, from seed {seed}")
    end, worlds, steps = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        steps += live(seed + worlds, STEPS, groups=worlds % 2 == 1)
        worlds += 1
        if worlds % 500 == 0:
            print(f"{steps} steps, {end - time.monotonic():.0f} s left")
    print(f"{steps} steps in {worlds} worlds, nothing was sold twice, forgotten or refused in vain")


def live(seed: int, steps: int, *, groups: bool = False) -> int:
    """One world from its beginning; how many steps it took. All of them are printed if one goes wrong."""
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
    """Texts to start from: rendered profiles, and real outputs where they lie beside the checkout."""
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
    """One text after a few accidents."""
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
    """Read one text; say everything about it if that goes wrong."""
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
