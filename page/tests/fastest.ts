// Speeds are compared to one that is measured beside them: a busy machine slows both.

/** Milliseconds of the fastest of ten calls. */
export function fastest(work: () => unknown): number {
  let best = Infinity
  for (let turn = 0; turn < 10; turn += 1) {
    const start = performance.now()
    work()
    best = Math.min(best, performance.now() - start)
  }
  return best
}
