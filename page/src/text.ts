// Sentences and numbers of the page itself; everything about decisions comes from the service as it is.
import type { Held, NodeStrip } from './api'
import { holdersOf, indexAt, stripOf } from './state/cluster'

const NUMBER = new Intl.NumberFormat('en-US')

export const number = (value: number): string => NUMBER.format(value)
export const count = (value: number, noun: string, plural = `${noun}s`): string => `${number(value)} ${value === 1 ? noun : plural}`
export const percent = (part: number, whole: number): number => (whole > 0 ? Math.round((100 * part) / whole) : 0)
export const clock = (time: Date): string => time.toLocaleTimeString('en-GB')

/** Positions as people write them: 0-3, 5. */
export function devicesText(devices: readonly number[]): string {
  const sorted = [...devices].sort((a, b) => a - b)
  const runs: string[] = []
  for (let index = 0; index < sorted.length; ) {
    let end = index
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end]! + 1) end += 1
    if (end - index >= 2) runs.push(`${sorted[index]}-${sorted[end]}`)
    else for (let one = index; one <= end; one += 1) runs.push(String(sorted[one]))
    index = end + 1
  }
  return runs.join(', ')
}

export const STATE_TEXT: Record<Held['state'], string> = {
  bound: 'in use',
  binding: 'being bound',
  terminating: 'terminating',
  planned: 'reserved by a plan',
  offered: 'offered',
  reserved: 'reserved',
  claimed: 'claimed, still in use by pods that are leaving',
}

export const MODE_TEXT: Record<string, string> = {
  any: 'whole devices or shares',
  whole: 'whole devices',
  memory: 'shared by memory',
  percent: 'shared by percentage',
}

export const holderText = (held: Held): string => held.pod || (held.group ? `group ${held.group}` : 'a pod of another namespace')

/** One line about a holder: who, what, where. */
export function heldText(node: NodeStrip, held: Held): string {
  const share = held.part !== undefined && held.part < 100 ? `, ${held.part} %` : ''
  const noun = held.devices.length === 1 ? 'device' : 'devices'
  return `${holderText(held)}: ${noun} ${devicesText(held.devices.map((position) => indexAt(node, position)))}${share}, ${STATE_TEXT[held.state]}`
}

/** What a screen reader says about a node, and the tooltip in words. */
export function nodeText(node: NodeStrip, device = -1): string {
  const strip = stripOf(node)
  const size = node.marks.length
  const parts = [`${node.name}, ${node.model}, ${strip.inUse} of ${count(size, 'device')} in use`]
  if (strip.promised) parts.push(`${strip.promised} reserved`)
  const bad = [...node.marks].filter((mark) => mark !== '.').length
  if (bad) parts.push(`${bad} cordoned or unhealthy`)
  if (device < 0) return `${parts.join(', ')}.${node.note ? ` ${node.note}` : ''}`
  const mark = node.marks[device]
  const holders = holdersOf(node, device)
  const what = holders.length ? holders.map((held) => heldText(node, held)).join('; ') : 'idle'
  const flaw = mark === 'x' ? ', unhealthy' : mark === 'c' ? ', cordoned' : ''
  return `${node.name}, device ${indexAt(node, device)}${flaw}: ${what}.`
}

/** States as a badge: Unschedulable, In use. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

const WORDS = /^(a|all|an|chosen|device|devices|fits|for|group|if|in|it|its|next|no|node|nodes|none|tied|only|placed|pod|pods|the|there|this|runner-up|seen|waits?|not|why)\b/

/** What the command line prints as a line, as a sentence: names keep their case. */
export function sentence(text: string): string {
  const start = WORDS.test(text) ? capital(text) : text
  return !start || /[.!?:]$/.test(start) ? start : `${start}.`
}

/** The reason of many nodes stands beside their number: "8 nodes had ..." loses its subject. */
export const reasonText = (text: string): string => text.replace(/^(\d[\d,]* nodes?|node\(s\)) /, '')

/** Memory of a device in the largest unit that reads well. */
export function memoryText(amount: number, unit: string): string {
  if (unit === 'MiB' && amount >= 1024) return `${Math.round(amount / 1024)} GiB`
  return `${number(amount)} ${unit}`
}

const COLLATOR = new Intl.Collator('en', { numeric: true })
export const natural = (a: string, b: string): number => COLLATOR.compare(a, b)

/** A name that is too long, without its middle: both ends tell nodes of a pool apart. */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text
  const end = Math.ceil((length - 1) / 2)
  return `${text.slice(0, length - 1 - end)}…${text.slice(text.length - end)}`
}

/** Short model names: without the maker, which the memory and the form tell apart anyway. */
export const shortModel = (model: string): string => model.replace(/^(NVIDIA|Tesla|AMD Instinct|AMD|Huawei|Cambricon)\s+/, '')

/** The first time a text states a duration in words. */
export function secondsText(seconds: number): string {
  if (seconds < 120) return count(Math.max(0, Math.round(seconds)), 'second')
  if (seconds < 7200) return count(Math.round(seconds / 60), 'minute')
  return count(Math.round(seconds / 3600), 'hour')
}
