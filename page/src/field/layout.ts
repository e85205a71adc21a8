// Where every node and device of the field is, by arithmetic: no element per node, and hits are found without a search.
import type { NodeStrip } from '../api'
import { namespaceOf, stripOf } from '../state/cluster'
import type { Density, Grouping } from '../state/view'
import { natural } from '../text'

export interface Size {
  device: number // width of a device
  height: number
  gap: number // between devices
  name: number // height of the name above the devices, 0: without names
  font: number
  between: number // between columns, at least
  row: number // between rows
}

export const SIZES: Record<Exclude<Density, 'auto'>, Size> = {
  tiny: { device: 4, height: 8, gap: 1, name: 0, font: 0, between: 8, row: 4 },
  small: { device: 8, height: 11, gap: 1, name: 0, font: 0, between: 12, row: 6 },
  medium: { device: 15, height: 15, gap: 2, name: 19, font: 11, between: 22, row: 10 },
  large: { device: 28, height: 28, gap: 3, name: 23, font: 12.5, between: 34, row: 18 },
}

/** The size for a number of nodes: names for as long as people can read them all. */
export const sizeFor = (density: Density, nodes: number): Size =>
  SIZES[density === 'auto' ? (nodes <= 16 ? 'large' : nodes <= 600 ? 'medium' : nodes <= 2000 ? 'small' : 'tiny') : density]

export const HEADER = 31 // height of a group's title
const AFTER = 20 // below a group
export const PADDING = 20
const ROW = 16 // devices in one row of a node
const LETTER = 0.602 // width of a letter of the monospaced face, in its size

export interface Group {
  key: string
  nodes: string[]
  top: number // of the title
  first: number // top of the first row
  columns: number
  rows: number
  pitchX: number
  pitchY: number
  width: number // of a node's devices
  perRow: number
  letters: number // of a name, before it is shortened
}

export interface Layout {
  groups: Group[]
  size: Size
  width: number
  height: number
  /** node to its group and position, for the keyboard and for scrolling */
  places: Map<string, { group: number; index: number }>
}

/** The group of a node in the field. */
export function keyOf(node: NodeStrip, grouping: Grouping): string {
  if (grouping === 'model') return node.model || 'Unknown model'
  if (grouping === 'rack') return node.rack || 'Without a rack'
  const counts = new Map<string, number>()
  for (const { count, held } of stripOf(node).bars) add(counts, held.pod ? namespaceOf(held.pod) : '', count)
  for (const { parts } of stripOf(node).shares) for (const { held } of parts) add(counts, held.pod ? namespaceOf(held.pod) : '', 1)
  counts.delete('')
  const [most] = [...counts].sort((a, b) => b[1] - a[1] || natural(a[0], b[0]))
  return most ? most[0] : 'Without pods'
}

function add(counts: Map<string, number>, key: string, by: number): void {
  counts.set(key, (counts.get(key) ?? 0) + by)
}

export function layout(nodes: Iterable<NodeStrip>, grouping: Grouping, size: Size, width: number): Layout {
  const byKey = new Map<string, NodeStrip[]>()
  for (const node of nodes) {
    const key = keyOf(node, grouping)
    const list = byKey.get(key)
    if (list) list.push(node)
    else byKey.set(key, [node])
  }
  const groups: Group[] = []
  const places: Layout['places'] = new Map()
  const inner = width - 2 * PADDING
  let top = PADDING - 8
  const keys = [...byKey.keys()].sort((a, b) => Number(a.startsWith('Without')) - Number(b.startsWith('Without')) || natural(a, b))
  for (const key of keys) {
    const members = byKey.get(key)!.sort((a, b) => natural(a.name, b.name))
    let most = 1
    let longest = 0
    for (const { marks, name } of members) {
      most = Math.max(most, marks.length)
      longest = Math.max(longest, name.length)
    }
    const perRow = Math.min(most, ROW)
    const lines = Math.ceil(most / ROW)
    const strip = perRow * (size.device + size.gap) - size.gap
    const letter = size.font * LETTER
    // a long name may be wider than its devices, but not so much that the field falls apart
    const cell = size.name ? Math.min(inner, Math.max(strip, Math.min(longest * letter, Math.max(strip * 1.5, 150)))) : strip
    const columns = Math.max(1, Math.floor((inner + size.between) / (cell + size.between)))
    const spread = columns > 1 ? (inner - cell) / (columns - 1) : inner
    const pitchX = Math.min(spread, (cell + size.between) * 1.3)
    const pitchY = size.name + lines * (size.height + size.gap) - size.gap + size.row
    const rows = Math.ceil(members.length / columns)
    groups.push({
      key,
      nodes: members.map((node) => node.name),
      top,
      first: top + HEADER,
      columns,
      rows,
      pitchX,
      pitchY,
      width: strip,
      perRow,
      letters: letter ? Math.max(6, Math.floor((pitchX - 8) / letter)) : 0,
    })
    members.forEach((node, index) => places.set(node.name, { group: groups.length - 1, index }))
    top += HEADER + rows * pitchY - size.row + AFTER
  }
  return { groups, size, width, height: Math.max(top, 0) + 4, places }
}

/** Top left corner of a node. */
export function cornerOf(group: Group, index: number): { x: number; y: number } {
  return { x: PADDING + (index % group.columns) * group.pitchX, y: group.first + Math.floor(index / group.columns) * group.pitchY }
}

/** Top left corner of a device, from the corner of its node. */
export function deviceAt(group: Group, size: Size, device: number): { x: number; y: number } {
  return {
    x: (device % group.perRow) * (size.device + size.gap),
    y: size.name + Math.floor(device / group.perRow) * (size.height + size.gap),
  }
}

export interface Hit {
  node: string
  device: number // -1: beside the devices
}

/** What is at a point of the field. */
export function hit(field: Layout, x: number, y: number): Hit | null {
  const { groups, size } = field
  let low = 0
  let high = groups.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (groups[middle]!.top <= y) low = middle
    else high = middle - 1
  }
  const group = groups[low]
  if (!group || y < group.first) return null
  const slack = Math.min(4, size.between / 2 - 1)
  const row = Math.floor((y - group.first) / group.pitchY)
  const column = Math.floor((x - PADDING + slack) / group.pitchX)
  if (column < 0 || column >= group.columns || row >= group.rows) return null
  const name = group.nodes[row * group.columns + column]
  if (name === undefined) return null
  const inX = x - PADDING - column * group.pitchX
  const inY = y - group.first - row * group.pitchY - size.name
  if (inX > group.width + slack && (size.name === 0 || inY > 0)) return null
  if (inY > group.pitchY - size.name - size.row + slack) return null
  const place = Math.min(group.perRow - 1, Math.max(0, Math.floor(inX / (size.device + size.gap))))
  const lines = Math.round((group.pitchY - size.name - size.row + size.gap) / (size.height + size.gap))
  const line = Math.min(lines - 1, Math.floor(inY / (size.height + size.gap)))
  return { node: name, device: inY < 0 || inX > group.width ? -1 : line * group.perRow + place }
}

export type Step = 'left' | 'right' | 'up' | 'down' | 'home' | 'end' | 'pageup' | 'pagedown'

/** The node that the keyboard reaches from `from`; the first one if there is none yet. */
export function step(field: Layout, from: string, direction: Step, page = 5): string {
  const at = field.places.get(from)
  const { groups } = field
  if (!groups.length) return ''
  if (!at || direction === 'home') return groups[0]!.nodes[0] ?? ''
  if (direction === 'end') return groups.at(-1)!.nodes.at(-1) ?? ''
  const group = groups[at.group]!
  if (direction === 'left') return group.nodes[at.index - 1] ?? groups[at.group - 1]?.nodes.at(-1) ?? from
  if (direction === 'right') return group.nodes[at.index + 1] ?? groups[at.group + 1]?.nodes[0] ?? from
  let place = from
  for (let turn = direction === 'pageup' || direction === 'pagedown' ? page : 1; turn > 0; turn -= 1)
    place = vertical(field, place, direction === 'up' || direction === 'pageup' ? -1 : 1)
  return place
}

function vertical(field: Layout, from: string, sign: 1 | -1): string {
  const at = field.places.get(from)!
  const group = field.groups[at.group]!
  const next = group.nodes[at.index + sign * group.columns]
  if (next !== undefined) return next
  const row = Math.floor(at.index / group.columns)
  if (sign > 0 && row < group.rows - 1) return group.nodes.at(-1)!
  const other = field.groups[at.group + sign]
  if (!other) return from
  const x = (at.index % group.columns) * group.pitchX
  const column = Math.min(other.columns - 1, Math.round(x / other.pitchX))
  const base = sign > 0 ? 0 : (other.rows - 1) * other.columns
  return other.nodes[Math.min(other.nodes.length - 1, base + column)]!
}
