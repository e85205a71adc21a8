// Where the devices of a machine are drawn: as it is built, by the shape that the service names.
import type { Layout, Links } from '../api'

export interface Point {
  x: number
  y: number
}
export interface Edge {
  i: number
  j: number
  kind: number
  gbps: number | null
  /** an SVG path */
  path: string
}
export interface Box {
  x: number
  y: number
  width: number
  height: number
  label: string
}
export interface Drawing {
  width: number
  height: number
  radius: number
  points: Point[]
  edges: Edge[]
  hub: (Point & { r: number; label: string }) | null
  boxes: Box[]
  /** thin lines of the tree */
  wires: string[]
}

const WIDTH = 460

export function place(links: Links, count: number): Drawing {
  switch (links.layout.shape) {
    case 'hub':
      return hub(links, count)
    case 'quads':
      return quads(links, count)
    case 'rings':
    case 'islands':
      return circles(links, count)
    default:
      return tree(links, count)
  }
}

const point = (x: number, y: number): Point => ({ x, y })

/** Kinds that are drawn as lines: direct ones, or where a machine was only measured, all but the slowest. */
export function isDrawn(kind: number, { kinds, layout }: Links): boolean {
  if (kinds.some((one) => one.direct)) return !!kinds[kind]?.direct
  return layout.shape !== 'tree' && kind < kinds.length - 1
}

const direct = (links: Links): Links['pairs'] => links.pairs.filter(([, , kind]) => isDrawn(kind, links))
const line = (a: Point, b: Point): string => `M${round(a.x)} ${round(a.y)}L${round(b.x)} ${round(b.y)}`
const round = (value: number): number => Math.round(value * 10) / 10

function edgesOf(pairs: Links['pairs'], points: Point[], path: (a: Point, b: Point) => string = line): Edge[] {
  return pairs.map(([i, j, kind, gbps]) => ({ i, j, kind, gbps, path: path(points[i]!, points[j]!) }))
}

/** All devices around a switch: only the spokes are drawn, with the kind and bandwidth in the hub. */
function hub(links: Links, count: number): Drawing {
  const radius = count > 8 ? 17 : 22
  const arm = count > 8 ? 138 : 116
  const height = 2 * (arm + radius) + 16
  const middle = point(WIDTH / 2, height / 2)
  const points = Array.from({ length: count }, (_, index) => {
    const angle = (2 * Math.PI * index) / count - Math.PI / 2
    return point(middle.x + arm * Math.cos(angle), middle.y + arm * Math.sin(angle))
  })
  // a spoke has the best link of its device
  const edges = points.map((at, device): Edge => {
    let best: Links['pairs'][number] | null = null
    for (const pair of direct(links)) if ((pair[0] === device || pair[1] === device) && (!best || pair[2] < best[2])) best = pair
    return { i: device, j: -1, kind: best ? best[2] : links.kinds.length - 1, gbps: best ? best[3] : null, path: line(at, middle) }
  })
  return { width: WIDTH, height, radius, points, edges, hub: { ...middle, r: 46, label: links.layout.hub }, boxes: [], wires: [] }
}

/** Two quads beside each other, arranged so that the links between them are short and cross as little as possible. */
function quads(links: Links, count: number): Drawing {
  const groups = links.layout.groups
  const [left, right] = groups
  if (!left || !right || groups.length !== 2 || left.length !== 4 || right.length !== 4) return circles(links, count)
  const corners = [point(30, 58), point(30, 208), point(162, 58), point(162, 208)]
  const mirrored = corners.map(({ x, y }) => point(WIDTH - x, y))
  const pairs = direct(links)
  let best = Infinity
  let points: Point[] = []
  for (const a of permutations(left)) {
    // the lowest position stands top left; the mirrored arrangements are no better
    if (a[0] !== Math.min(...left)) continue
    for (const b of permutations(right)) {
      const trial: Point[] = []
      a.forEach((device, corner) => (trial[device] = corners[corner]!))
      b.forEach((device, corner) => (trial[device] = mirrored[corner]!))
      const cost = costOf(pairs, trial)
      if (cost < best - 1e-6) {
        best = cost
        points = trial
      }
    }
  }
  const path = (a: Point, b: Point): string => {
    const far = Math.abs(a.x - b.x) > 300 && a.y === b.y
    if (!far) return line(a, b)
    const bend = a.y < 133 ? -64 : 64
    return `M${a.x} ${a.y}Q${(a.x + b.x) / 2} ${a.y + bend} ${b.x} ${b.y}`
  }
  return { width: WIDTH, height: 266, radius: 22, points, edges: edgesOf(pairs, points, path), hub: null, boxes: [], wires: [] }
}

/** Long links and links that run from top to bottom between the quads cost more. */
function costOf(pairs: Links['pairs'], points: Point[]): number {
  let cost = 0
  for (const [i, j] of pairs) {
    const a = points[i]!
    const b = points[j]!
    const between = (a.x < WIDTH / 2) !== (b.x < WIDTH / 2)
    cost += Math.hypot(a.x - b.x, a.y - b.y) + (between && a.y !== b.y ? 1000 : 0)
  }
  return cost
}

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length < 2) return [[...items]]
  return items.flatMap((item, index) => permutations([...items.slice(0, index), ...items.slice(index + 1)]).map((rest) => [item, ...rest]))
}

/** Rings and islands: one circle per group; what joins them is slower and drawn as one thin line. */
function circles(links: Links, count: number): Drawing {
  const groups = complete(links.layout.groups, count)
  const radius = count > 8 ? 17 : 20
  const perRow = Math.min(groups.length, groups.length === 4 ? 2 : groups.length > 4 ? 4 : 3)
  const rows = Math.ceil(groups.length / perRow)
  const slot = WIDTH / perRow
  const most = Math.max(...groups.map((group) => group.length))
  const arm = Math.min(slot / 2 - radius - 12, most <= 2 ? 38 : most <= 4 ? 72 : 110)
  const tall = 2 * (arm + radius) + 20
  const points: Point[] = []
  const middles: Point[] = []
  groups.forEach((group, index) => {
    const middle = point(slot * ((index % perRow) + 0.5), tall * (Math.floor(index / perRow) + 0.5))
    middles.push(middle)
    group.forEach((device, order) => {
      const turn = group.length === 4 ? Math.PI / 4 : 0
      const angle = (2 * Math.PI * order) / group.length - Math.PI / 2 - turn
      points[device] = point(middle.x + arm * Math.cos(angle), middle.y + arm * Math.sin(angle))
    })
  })
  const wires = middles.slice(1).map((to, index) => line(middles[index]!, to))
  const boxes = middles.map(({ x, y }, index): Box => ({ x: x - arm - radius - 7, y: y - arm - radius - 7, width: 2 * (arm + radius + 7), height: 2 * (arm + radius + 7), label: groups.length > 1 ? String(index) : '' }))
  return {
    width: WIDTH,
    height: rows * tall,
    radius,
    points,
    edges: edgesOf(direct(links), points),
    hub: null,
    boxes: groups.length > 1 ? boxes : [],
    wires,
  }
}

function complete(groups: number[][], count: number): number[][] {
  const known = new Set(groups.flat())
  const rest = Array.from({ length: count }, (_, index) => index).filter((index) => !known.has(index))
  return [...groups.filter((group) => group.length > 0), ...(rest.length ? [rest] : [])]
}

/** PCIe: devices below their switch, below their NUMA node; direct links (bridges) join neighbours in the lowest row. */
function tree(links: Links, count: number): Drawing {
  const { layout } = links
  const numa = complete(layout.numa, count)
  const radius = count > 8 ? 15 : 21
  const pairs = direct(links)
  const partner = new Map<number, number>()
  for (const [i, j] of pairs) {
    if (!partner.has(i)) partner.set(i, j)
    if (!partner.has(j)) partner.set(j, i)
  }
  const perRow = 8
  const step = Math.min(64, (WIDTH - 2 * radius - 8) / (Math.min(count, perRow) - 1 || 1))
  const rowHeight = 218
  const points: Point[] = []
  const wires: string[] = []
  const boxes: Box[] = []
  let column = 0
  let row = 0
  const roots: Point[][] = [[]]
  for (const [index, members] of numa.entries()) {
    if (column > 0 && column + members.length > perRow) {
      row += 1
      column = 0
      roots.push([])
    }
    const top = row * rowHeight + 8
    const switches = complete(
      layout.switches.map((one) => one.filter((device) => members.includes(device))),
      0,
    )
    const placed = new Set(switches.flat())
    const units = [...switches, ...members.filter((device) => !placed.has(device)).map((device) => [device])]
    const begin = column
    const joints: Point[] = []
    for (const unit of units) {
      const from = column
      for (const device of neighbours(unit, partner)) {
        points[device] = point(radius + 4 + column * step, top + 158)
        column += 1
      }
      const x = radius + 4 + ((from + column - 1) / 2) * step
      if (unit.length > 1 || switches.includes(unit)) {
        boxes.push({ x: x - 22, y: top + 78, width: 44, height: 22, label: 'switch' })
        for (const device of unit) wires.push(line(point(x, top + 100), points[device]!))
        joints.push(point(x, top + 78))
      } else joints.push(points[unit[0]!]!)
    }
    const x = radius + 4 + ((begin + column - 1) / 2) * step
    const wide = Math.max(76, (column - begin - 1) * step + 2 * radius)
    boxes.push({ x: x - wide / 2, y: top, width: wide, height: 28, label: layout.numa.length ? `NUMA ${index}` : 'host' })
    for (const joint of joints) wires.push(line(point(Math.max(x - wide / 2 + 8, Math.min(x + wide / 2 - 8, joint.x)), top + 28), joint))
    roots[row]!.push(point(x, top + 14))
  }
  for (const list of roots) for (let index = 1; index < list.length; index += 1) wires.unshift(line(list[index - 1]!, list[index]!))
  const path = (a: Point, b: Point): string => {
    if (a.y !== b.y || Math.abs(a.x - b.x) <= step * 1.1) return line(a, b)
    const bend = 24 + Math.abs(a.x - b.x) / 5
    return `M${round(a.x)} ${a.y}Q${round((a.x + b.x) / 2)} ${round(a.y + bend)} ${round(b.x)} ${b.y}`
  }
  const used = Math.max(...points.map(({ x }) => x)) + radius + 4
  const shift = (WIDTH - used) / 2
  return shifted({ width: WIDTH, height: (row + 1) * rowHeight - 18, radius, points, edges: edgesOf(pairs, points, path), hub: null, boxes, wires }, shift, path, pairs)
}

/** Move a drawing to the middle; paths are made from points, except for the wires. */
function shifted(drawing: Drawing, by: number, path: (a: Point, b: Point) => string, pairs: Links['pairs']): Drawing {
  const points = drawing.points.map(({ x, y }) => point(x + by, y))
  return {
    ...drawing,
    points,
    edges: edgesOf(pairs, points, path),
    boxes: drawing.boxes.map((box) => ({ ...box, x: box.x + by })),
    wires: drawing.wires.map((wire) => wire.replace(/([ML])(-?[\d.]+)/g, (_, letter: string, x: string) => `${letter}${round(Number(x) + by)}`)),
  }
}

/** Order in which directly linked devices stand beside each other. */
function neighbours(devices: number[], partner: Map<number, number>): number[] {
  const order: number[] = []
  for (const device of devices) {
    if (order.includes(device)) continue
    order.push(device)
    const other = partner.get(device)
    if (other !== undefined && devices.includes(other) && !order.includes(other)) order.push(other)
  }
  return order
}

/** Width of a link's line, by its bandwidth beside the fastest of the machine. */
export function thickness(gbps: number | null, kind: number, links: Links): number {
  const fastest = Math.max(...links.kinds.map((one) => one.gbps ?? 0), 1)
  const value = gbps ?? links.kinds[kind]?.gbps ?? null
  if (!isDrawn(kind, links)) return 1.5
  if (value === null) return kind === 0 ? 5 : 3.5
  return Math.max(2, Math.min(6, 6 * Math.sqrt(value / fastest)))
}

/** Class of a link's colour: the fastest direct kind, the next one, others, and PCIe. */
export function kindClass(kind: number, links: Links): string {
  if (!isDrawn(kind, links)) return 'k-slow'
  const order = links.kinds.filter((_, index) => isDrawn(index, links)).indexOf(links.kinds[kind]!)
  return ['k-first', 'k-second', 'k-third'][Math.min(2, order)]!
}

export type { Layout }
