// The connection to the service: one stream of changes, reconnected with backoff, and what the page knows from it.
import { batch, signal } from '@preact/signals'
import type { Change, Cluster } from '../api'
import { ClusterState } from './cluster'
import { Refused, refusalOf, request } from './server'
import { delayAfter, EventParser } from './stream'

export type Live =
  | { state: 'connecting' }
  | { state: 'live' }
  | { state: 'reconnecting'; since: Date; stale: boolean; status: number; sentence: string }

export const cluster = new ClusterState()
/** whether a whole cluster has arrived */
export const loaded = signal(false)
export const live = signal<Live>({ state: 'connecting' })
/** grows once per drawn frame in which something changed: for the field */
export const frame = signal(0)
/**
 * Grows at most four times per second, for figures and lists. The cluster itself is not a signal: every component that
 * reads it reads this one, or it is not drawn again.
 */
export const beat = signal(0)

const BEAT = 250 // ms
const STALE = 10_000 // ms without a connection, after which the picture is called stale
const SILENCE = 40_000 // ms without a byte, with a heartbeat every 15 s, after which the connection is given up
let frameAsked = false
let beatAsked = false
let failures = 0
let retryNow: (() => void) | undefined

function changed(): void {
  if (!frameAsked) {
    frameAsked = true
    requestAnimationFrame(() => {
      frameAsked = false
      frame.value += 1
    })
  }
  if (!beatAsked) {
    beatAsked = true
    setTimeout(() => {
      beatAsked = false
      beat.value += 1
    }, BEAT)
  }
}

function handle(event: string, data: string): void {
  if (event === 'cluster') {
    cluster.replace(JSON.parse(data) as Cluster)
    batch(() => {
      loaded.value = true
      beat.value += 1
    })
  } else if (event === 'change') cluster.apply(JSON.parse(data) as Change)
  changed()
}

/** Why the service ends a stream in order. */
function reasonOf(data: string): string {
  try {
    return (JSON.parse(data) as { reason: string }).reason
  } catch {
    return 'The service ended the connection.'
  }
}

async function follow(): Promise<void> {
  const abort = new AbortController()
  let watchdog = setTimeout(() => abort.abort(), SILENCE)
  try {
    const since = cluster.version ? `?since=${encodeURIComponent(cluster.version)}` : ''
    const answer = await request(`page/stream${since}`, { signal: abort.signal, headers: { accept: 'text/event-stream' }, cache: 'no-store' })
    const reader = answer.body!.getReader()
    const decoder = new TextDecoder()
    const parser = new EventParser()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      clearTimeout(watchdog)
      watchdog = setTimeout(() => abort.abort(), SILENCE)
      for (const { event, data } of parser.push(decoder.decode(value, { stream: true }))) {
        if (event === 'bye') throw new Refused(0, reasonOf(data))
        handle(event, data)
      }
      if (live.peek().state !== 'live' && loaded.peek()) live.value = { state: 'live' }
      failures = 0
    }
  } finally {
    clearTimeout(watchdog)
    abort.abort()
  }
}

/** Follow the service for as long as the page is open. */
export async function connect(): Promise<void> {
  for (;;) {
    let status = 0
    let sentence = 'The connection to the service ended.'
    try {
      await follow()
    } catch (error) {
      const refused = refusalOf(error)
      status = refused.status
      sentence = refused.message
    }
    failures += 1
    const before = live.peek()
    const since = before.state === 'reconnecting' ? before.since : new Date()
    const stale = (): boolean => loaded.peek() && Date.now() - since.getTime() >= STALE
    live.value = { state: 'reconnecting', since, stale: stale(), status, sentence }
    setTimeout(() => {
      const now = live.peek()
      if (now.state === 'reconnecting' && now.since === since && stale()) live.value = { ...now, stale: true }
    }, STALE + 50)
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, 1000 * delayAfter(failures, Math.random()))
      retryNow = () => {
        clearTimeout(timer)
        failures = 0
        resolve()
      }
    })
    retryNow = undefined
  }
}

/** Try again at once: the reader asked for it, or the machine is online again. */
export function retry(): void {
  retryNow?.()
}

addEventListener('online', retry)
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') retry()
})
