// When something is loaded again although its own node has not changed.
import { useEffect, useRef, useState } from 'preact/hooks'
import { cluster } from '../state/live'

const PAUSE = 5000 // ms

/**
 * The number of changes of the cluster, but at most every five seconds another one: what waits depends on the whole
 * cluster, which changes all the time. The last change is never missed.
 */
export function useSlowStamp(): number {
  const last = useRef({ at: -PAUSE, stamp: -1 })
  const [, again] = useState(0)
  const due = last.current.at + PAUSE - performance.now()
  if (last.current.stamp !== cluster.changes && due <= 0) last.current = { at: performance.now(), stamp: cluster.changes }
  const late = last.current.stamp !== cluster.changes
  useEffect(() => {
    if (!late) return
    const timer = setTimeout(() => again((turn) => turn + 1), Math.max(0, due) + 10)
    return () => clearTimeout(timer)
  }, [late])
  return last.current.stamp
}

/** Seconds since the page was opened, in steps of `seconds`: for figures that change without an event, while someone looks. */
export function useTick(seconds: number, active = true): number {
  const [tick, setTick] = useState(0)
  useEffect(() => {
    if (!active) return
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') setTick((one) => one + 1)
    }, 1000 * seconds)
    return () => clearInterval(timer)
  }, [seconds, active])
  return tick * seconds
}
