// When what waits is explained again: its answer depends on the whole cluster, which changes all the time.
import { useRef } from 'preact/hooks'
import { cluster } from '../state/live'

const PAUSE = 5000 // ms

/** The revision of the cluster, but at most every five seconds another one. */
export function useSlowStamp(): number {
  const last = useRef({ at: 0, stamp: 0 })
  if (last.current.stamp !== cluster.revision && performance.now() - last.current.at > PAUSE) last.current = { at: performance.now(), stamp: cluster.revision }
  return last.current.stamp
}
