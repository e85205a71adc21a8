// The cluster as the page holds it: nodes by name, and indexes of pods and namespaces that follow every change.
import type { Change, Cluster, Held, ModelFit, NodeStrip, Reader, Totals, Waiting } from '../api'

export const NO_TOTALS: Totals = { devices: 0, inUse: 0, idle: 0, reserved: 0, unusable: 0, waitingPods: 0 }

/** States in which devices are promised and not used yet. */
const PROMISED = new Set<Held['state']>(['planned', 'offered', 'reserved', 'claimed'])

export const isPromised = (held: Held): boolean => PROMISED.has(held.state)

export const namespaceOf = (key: string): string => key.slice(0, key.indexOf('/'))
export const nameOf = (key: string): string => key.slice(key.indexOf('/') + 1)

export class ClusterState {
  version = ''
  at = ''
  reader: Reader = { everywhere: true, namespaces: [] }
  totals: Totals = NO_TOTALS
  models: ModelFit[] = []
  waiting: Waiting[] = []
  notes: string[] = []
  readonly nodes = new Map<string, NodeStrip>()
  /** pod to the nodes on which it holds devices */
  readonly pods = new Map<string, Set<string>>()
  /** group to the number of entries that name it */
  readonly groups = new Map<string, number>()
  /** namespace to the number of entries that name it */
  readonly namespaces = new Map<string, number>()
  /** grows with every change of a node */
  revision = 0
  /** grows with every change, also one of what waits */
  changes = 0
  /** grows when nodes come, go, or belong to another place of the field */
  shape = 0
  private readonly touched = new Map<string, number>()

  /** Replace everything, as after a new connection. */
  replace(cluster: Cluster): void {
    this.nodes.clear()
    this.pods.clear()
    this.groups.clear()
    this.namespaces.clear()
    this.revision += 1
    this.shape += 1
    this.reader = cluster.reader
    for (const node of cluster.nodes) this.put(node)
    this.take(cluster)
  }

  /** Apply a change: named nodes are replaced whole, the rest stays. */
  apply(change: Change): void {
    if (change.nodes?.length || change.gone?.length) this.revision += 1
    for (const name of change.gone ?? []) this.drop(name)
    for (const node of change.nodes ?? []) this.put(node)
    this.take(change)
  }

  /** A number that changes when the node does. */
  stampOf(node: string): number {
    return this.touched.get(node) ?? 0
  }

  /** A number that changes when a node of the pod does. */
  stampOfPod(pod: string): number {
    let stamp = 0
    for (const node of this.pods.get(pod) ?? []) stamp += this.stampOf(node)
    return stamp
  }

  private take(part: Change | Cluster): void {
    this.changes += 1
    this.version = part.version
    this.at = part.at
    if (part.totals) this.totals = part.totals
    if (part.models) this.models = part.models
    if (part.waiting) this.waiting = part.waiting
    if (part.notes) this.notes = part.notes
  }

  private put(node: NodeStrip): void {
    const before = this.nodes.get(node.name)
    if (before) this.index(before, -1)
    if (!before || before.model !== node.model || before.rack !== node.rack || before.marks.length !== node.marks.length)
      this.shape += 1
    this.nodes.set(node.name, node)
    this.index(node, 1)
    this.touched.set(node.name, this.revision)
  }

  private drop(name: string): void {
    const before = this.nodes.get(name)
    if (!before) return
    this.index(before, -1)
    this.nodes.delete(name)
    this.touched.set(name, this.revision)
    this.shape += 1
  }

  private index(node: NodeStrip, sign: 1 | -1): void {
    for (const held of node.held) {
      if (!held.pod) continue
      const nodes = this.pods.get(held.pod)
      if (sign > 0) {
        if (nodes) nodes.add(node.name)
        else this.pods.set(held.pod, new Set([node.name]))
      } else if (nodes) {
        nodes.delete(node.name)
        if (nodes.size === 0) this.pods.delete(held.pod)
      }
      count(this.namespaces, namespaceOf(held.pod), sign)
      if (held.group) count(this.groups, held.group, sign)
    }
  }
}

function count(counts: Map<string, number>, key: string, sign: 1 | -1): void {
  const next = (counts.get(key) ?? 0) + sign
  if (next > 0) counts.set(key, next)
  else counts.delete(key)
}

/** How the devices of a node are drawn: runs of one pod as one bar, shares by device. */
export interface Strip {
  /** bars of whole devices: first position, number of devices, holder */
  bars: { from: number; count: number; held: Held }[]
  /** devices with shares, from the bottom up */
  shares: { device: number; parts: { held: Held; from: number; to: number }[] }[]
  /** positions without a holder */
  idle: number[]
  inUse: number
  promised: number
}

const strips = new WeakMap<NodeStrip, Strip>()

export function stripOf(node: NodeStrip): Strip {
  const known = strips.get(node)
  if (known) return known
  const owner: (Held | undefined)[] = new Array(node.marks.length)
  const parts = new Map<number, Held[]>()
  for (const held of node.held) {
    for (const device of held.devices) {
      if (held.part !== undefined && held.part < 100) {
        const list = parts.get(device)
        if (list) list.push(held)
        else parts.set(device, [held])
      } else if (!owner[device] || isPromised(owner[device])) owner[device] = held
    }
  }
  const strip: Strip = { bars: [], shares: [], idle: [], inUse: 0, promised: 0 }
  for (let device = 0; device < node.marks.length; device += 1) {
    const held = owner[device]
    if (held) {
      const last = strip.bars.at(-1)
      if (last && last.held === held && last.from + last.count === device && !isPromised(held)) last.count += 1
      else strip.bars.push({ from: device, count: 1, held })
      if (isPromised(held)) strip.promised += 1
      else strip.inUse += 1
      continue
    }
    const shared = parts.get(device)
    if (!shared) {
      strip.idle.push(device)
      continue
    }
    let level = 0
    strip.shares.push({
      device,
      parts: shared.map((one) => {
        const from = level
        level = Math.min(100, level + (one.part ?? 0))
        return { held: one, from, to: level }
      }),
    })
    if (shared.some((one) => !isPromised(one))) strip.inUse += 1
    else strip.promised += 1
  }
  strips.set(node, strip)
  return strip
}

/** The number of a device at a position: what tools and the command line call it. */
export const indexAt = (node: NodeStrip, position: number): number => node.indices?.[position] ?? position

/** The positions of devices by their numbers; those that the node does not have any more are left out. */
export const positionsOf = (node: NodeStrip, indices: readonly number[]): number[] =>
  node.indices ? indices.map((index) => node.indices!.indexOf(index)).filter((position) => position >= 0) : [...indices]

/** Holders of one device of a node, the one of the bar first. */
export const holdersOf = (node: NodeStrip, device: number): Held[] => node.held.filter((held) => held.devices.includes(device))
