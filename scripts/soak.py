"""Soak test: long runs of the fuzz and property tests; exits with 1 on a failure.

Half of the time (`make soak`, SECONDS=600 by default) it damages texts of vendor tools: the parser may raise nothing but
TopologyError and must stay linear in the size of the text. In the other half random events happen to brokers while the
invariants of the property tests are checked, in worlds of several kinds. With `--steps` (`make soak STEPS=1000000`)
each kind runs that many steps, and the texts are left out. A failure is printed with the seed and the steps that
reproduce it: `scripts/soak.py --steps 80 --kind KIND --seed SEED` runs that world again.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from linkwise import TopologyError, parse_topology
from linkwise.vendors.machines import PROFILES
from support.builders.tool_texts import P2P_TITLES, p2p_text
from support.properties.broker_world import World
from support.properties.gang_world import GangWorld
from support.properties.gated_world import GatedWorld
from support.properties.group_world import GroupWorld
from support.properties.random_plans import check_random_plans
from support.properties.reservation_world import ReservationWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ROOT = Path(__file__).resolve().parents[1]
SLOWEST = 2e-6  # seconds per character, for texts of some size
STEPS = 80  # per world
MOST_FAILURES = 20
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
    "settle": 1,
}
MEMBERSHIP = {
    "join": 10,
    "group": 6,
    "relabel": 6,
    "deliver all": 14,
    "delete": 6,
    "pod group": 5,
    "filter": 8,
    "place": 3,
    "bind": 4,
    "land": 4,
    "create": 4,
    "schedule": 4,
    "sleep": 1,
    "gate": 1,
    "read": 1,
    "finish": 2,
}
"""few nodes change, and members come, go and move between groups all the time"""

GANGS = {
    **MEMBERSHIP,
    "overtake": 4,
    "move member": 4,
    "restate": 4,
    "leave out": 2,
    "burst": 4,
    "interrupt": 3,
    "idle": 3,
    "jump": 2,
}
"""what groups are most likely to get stuck by"""


class Kind(NamedTuple):
    """A kind of worlds, and how often each move is made."""

    world: Callable[..., World]
    numbers: int
    """how many the world is made of"""
    weights: Mapping[str, int]
    others: int
    """the weight of moves that are not listed"""


KINDS = {
    "single": Kind(World, 2, WEIGHTS, 2),
    "group": Kind(GroupWorld, 3, WEIGHTS, 2),
    "membership": Kind(GroupWorld, 3, MEMBERSHIP, 0),
    "gang": Kind(GangWorld, 3, GANGS, 1),
    "gated": Kind(GatedWorld, 3, {**GANGS, "steer": 12, "restart": 3}, 1),
    "reservation": Kind(ReservationWorld, 3, {**WEIGHTS, "crowd": 6, "report": 6, "wait": 10, "deliver all": 8}, 1),
}


PLANS = "plan"
"""the kind that compares the plans of random groups with brute force; each counts as the steps of one world"""


class Failure(NamedTuple):
    """A world in which an invariant did not hold."""

    error: str
    story: str
    """the seed and the steps that reproduce it"""


def main() -> None:
    """Run as long as asked."""
    parser = argparse.ArgumentParser(description="Fuzz the parsers and the broker.")
    parser.add_argument("seconds", nargs="?", type=float, default=600.0, help="half for texts, half for brokers")
    parser.add_argument("--steps", type=int, help="steps of each kind of worlds, instead of a time")
    parser.add_argument("--kind", choices=[*KINDS, PLANS], action="append", help="kind of worlds; all by default")
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="of the first world")
    parser.add_argument("--jobs", type=int, default=1, help="processes, with --steps")
    args = parser.parse_args()
    kinds = args.kind or [*KINDS, PLANS]
    if args.steps is not None:
        failed = [kind for kind in kinds if count_steps(args.steps, args.seed, kind, args.jobs)]
        sys.exit(bool(failed))
    fuzz(args.seconds / 2, args.seed)
    shake(args.seconds / 2, args.seed, kinds)


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


def shake(seconds: float, seed: int, kinds: list[str]) -> None:
    """Run random events on brokers, one world after the other, until the first failure."""
    print(f"random events on brokers for {seconds:g} s, from seed {seed}")
    end, worlds, steps = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        steps += live(seed + worlds, STEPS, kinds[worlds % len(kinds)])
        worlds += 1
        if worlds % 500 == 0:
            print(f"{steps} steps, {end - time.monotonic():.0f} s left")
    print(f"{steps} steps in {worlds} worlds, all invariants held")


def count_steps(steps: int, seed: int, kind: str, jobs: int) -> bool:
    """Run that many steps in worlds of one kind; whether an invariant did not hold."""
    worlds = -(-steps // STEPS)
    print(f"{kind}: {steps} steps in {worlds} worlds, from seed {seed}", flush=True)
    start, errors = time.monotonic(), Counter[str]()
    with ProcessPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
        run, chosen = partial(survive, kind=kind), range(seed, seed + worlds)
        results: Iterable[Failure | None] = pool.map(run, chosen, chunksize=20) if pool else map(run, chosen)
        for done, failure in enumerate(results, 1):
            if failure:
                errors[re.sub(r"'[^']*'|\bu\d+|[\w-]+/[\w.-]+|\d+(\.\d+)?", "#", failure.error)[:100]] += 1
                print(f"FAILED {failure.error}\n{failure.story}", flush=True)
            if done % 500 == 0:
                rate = done * STEPS / (time.monotonic() - start)
                print(f"{kind}: {done * STEPS} steps, {rate:.0f} per second, {errors.total()} failures", flush=True)
            if errors.total() >= MOST_FAILURES:
                break
    for error, count in errors.most_common():
        print(f"{kind}: {count} times {error}")
    print(f"{kind}: {'failed' if errors else 'all invariants held'}", flush=True)
    return bool(errors)


def survive(seed: int, kind: str) -> Failure | None:
    """Run one world; its failure, if it fails."""
    try:
        live(seed, STEPS, kind)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is counted and the run goes on
        return Failure(
            f"{type(error).__name__}: {error}", "".join(getattr(error, "__notes__", [f"--kind {kind} --seed {seed}"]))
        )
    return None


def live(seed: int, steps: int, kind: str = "single") -> int:
    """Run one world; returns the number of steps, and adds all of them to the error if one fails."""
    if kind == PLANS:
        check_random_plans(seed)
        return steps
    chosen, chooser = KINDS[kind], random.Random(seed)
    start = [chooser.randrange(256) for _ in range(chosen.numbers)]
    world = chosen.world(*start)
    names, done = list(world.moves), list[tuple[str, int, int, int]]()
    weights = [chosen.weights.get(name, chosen.others) for name in names]
    try:
        for _ in range(steps):
            (move,) = chooser.choices(names, weights)
            done.append((move, chooser.randrange(256), chooser.randrange(256), chooser.randrange(256)))
            world.step(*done[-1])
    except Exception as error:
        error.add_note(f"--kind {kind} --seed {seed}: {type(world).__name__}{tuple(start)}, steps {done}")
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
