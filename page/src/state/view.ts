// What the reader chose: theme, colours and order of the field, what is hovered, and what is highlighted.
import { computed, effect, signal } from '@preact/signals'
import type { Held, NodeStrip } from '../api'
import { namespaceOf } from './cluster'
import { beat, cluster } from './live'
import { route } from './route'

export type Theme = 'system' | 'light' | 'dark'
export type Colouring = 'namespace' | 'state'
export type Grouping = 'model' | 'rack' | 'namespace'
export type Density = 'auto' | 'tiny' | 'small' | 'medium' | 'large'

function kept<T extends string>(key: string, allowed: readonly T[], fallback: T) {
  let first: string | null = null
  try {
    first = localStorage.getItem(`linkwise.${key}`)
  } catch {
    // storage can be forbidden; the choice then lasts as long as the page
  }
  const value = signal<T>(allowed.includes(first as T) ? (first as T) : fallback)
  value.subscribe((next) => {
    try {
      if (next === fallback) localStorage.removeItem(`linkwise.${key}`)
      else localStorage.setItem(`linkwise.${key}`, next)
    } catch {
      // as above
    }
  })
  return value
}

export const theme = kept<Theme>('theme', ['system', 'light', 'dark'], 'system')
export const colouring = kept<Colouring>('colours', ['namespace', 'state'], 'namespace')
export const grouping = kept<Grouping>('order', ['model', 'rack', 'namespace'], 'model')
export const density = kept<Density>('size', ['auto', 'tiny', 'small', 'medium', 'large'], 'auto')
export const asTable = signal(false)
export const printing = signal(false)

const systemDark = matchMedia('(prefers-color-scheme: dark)')
const systemIsDark = signal(systemDark.matches)
systemDark.addEventListener('change', () => {
  systemIsDark.value = systemDark.matches
})
export const dark = computed(() => !printing.value && (theme.value === 'system' ? systemIsDark.value : theme.value === 'dark'))
effect(() => {
  document.documentElement.dataset.theme = dark.value ? 'dark' : 'light'
})

/** the pod under the pointer or the keyboard, as "namespace/name" */
export const hoveredPod = signal('')
/** what is typed into the search field: the field fades what does not match */
export const searched = signal('')
/** a legend entry that was pressed */
export const only = signal<{ namespace?: string; state?: StateClass } | null>(null)
/** devices of a plan, by node: nothing of it exists */
export const planned = signal<ReadonlyMap<string, ReadonlySet<number>> | null>(null)
/** whether the details cover the field on a phone */
export const sheetOpen = signal(false)

/** What a holder is in the field, fewer than the states of the ledger. */
export type StateClass = 'use' | 'start' | 'leave' | 'reserved'
export const STATE_CLASS: Record<Held['state'], StateClass> = {
  bound: 'use',
  binding: 'start',
  claimed: 'reserved',
  terminating: 'leave',
  planned: 'reserved',
  offered: 'reserved',
  reserved: 'reserved',
}

/** Returns whether a holder is lit, or null if nothing is highlighted. */
export const lit = computed<((node: NodeStrip, held: Held | null) => boolean) | null>(() => {
  if (hoveredPod.value) {
    const pod = hoveredPod.value
    return (_, held) => held?.pod === pod
  }
  if (searched.value) {
    const text = searched.value.toLowerCase()
    return (node, held) => node.name.toLowerCase().includes(text) || !!held?.pod.includes(text) || !!held?.group.includes(text)
  }
  if (planned.value) {
    const places = planned.value
    return (node) => places.has(node.name)
  }
  const at = route.value
  if (at.view === 'pod') {
    const pod = `${at.namespace}/${at.name}`
    beat.value
    // a pod that waits has no devices to highlight
    if (cluster.pods.has(pod)) return (_, held) => held?.pod === pod
  }
  if (at.view === 'group') {
    const group = `${at.namespace}/${at.name}`
    beat.value
    if (cluster.groups.has(group)) return (_, held) => held?.group === group
  }
  if (only.value) {
    const { namespace, state } = only.value
    return (_, held) =>
      !!held && (namespace === undefined || namespaceOf(held.pod) === namespace) && (state === undefined || STATE_CLASS[held.state] === state)
  }
  return null
})
