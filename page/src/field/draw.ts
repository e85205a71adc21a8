// Draws the visible part of the field on a canvas.
import type { Held, NodeStrip } from '../api'
import { colours } from '../colours'
import { type ClusterState, isPromised, namespaceOf, stripOf } from '../state/cluster'
import { STATE_CLASS, type Colouring } from '../state/view'
import { count, number, shorten, shortModel } from '../text'
import { cornerOf, deviceAt, type Group, type Layout, PADDING, type Size } from './layout'

export interface Palette {
  ink: string
  muted: string
  faint: string
  line: string
  card: string
  track: string
  fill: string
  accent: string
  soft: string
  amber: string
  amberSoft: string
  red: string
  idle: string
  other: string
  states: { use: string; start: string; leave: string }
  hues: string[]
}

export interface Scene {
  state: ClusterState
  layout: Layout
  palette: Palette
  colouring: Colouring
  lit: ((node: NodeStrip, held: Held | null) => boolean) | null
  selected: string
  focused: string
  hovered: string
  planned: ReadonlyMap<string, ReadonlySet<number>> | null
  sums: GroupSum[]
}

export interface GroupSum {
  inUse: number
  devices: number
}

const FADED = 0.2

export function sumsOf(state: ClusterState, layout: Layout): GroupSum[] {
  return layout.groups.map((group) => {
    let inUse = 0
    let devices = 0
    for (const name of group.nodes) {
      const node = state.nodes.get(name)
      if (!node) continue
      inUse += stripOf(node).inUse
      devices += node.marks.length
    }
    return { inUse, devices }
  })
}

/** Draw what lies between `top` and `top + height` of the field; the origin of the context is at `top`. */
export function draw(context: CanvasRenderingContext2D, scene: Scene, top: number, height: number): void {
  const { layout } = scene
  context.clearRect(0, 0, layout.width, height)
  context.save()
  context.translate(0, -top)
  layout.groups.forEach((group, index) => {
    const bottom = group.first + group.rows * group.pitchY
    if (bottom < top || group.top > top + height) return
    drawTitle(context, scene, group, index)
    const first = Math.max(0, Math.floor((top - group.first) / group.pitchY))
    const last = Math.min(group.rows - 1, Math.floor((top + height - group.first) / group.pitchY))
    const end = Math.min(group.nodes.length, (last + 1) * group.columns)
    for (let place = first * group.columns; place < end; place += 1) {
      const node = scene.state.nodes.get(group.nodes[place]!)
      if (node) drawNode(context, scene, group, node, place)
    }
  })
  context.restore()
}

function drawTitle(context: CanvasRenderingContext2D, scene: Scene, group: Group, index: number): void {
  const { palette, layout, sums } = scene
  const baseline = group.top + 15
  const right = layout.width - PADDING
  const narrow = layout.width < 480
  context.textBaseline = 'alphabetic'
  context.textAlign = 'left'
  context.font = "600 13px 'Inter Variable', sans-serif"
  context.fillStyle = palette.ink
  const title = narrow ? shorten(shortModel(group.key), 24) : group.key
  context.fillText(title, PADDING, baseline)
  const after = PADDING + context.measureText(title).width + 10
  context.font = "400 12.5px 'Inter Variable', sans-serif"
  context.fillStyle = palette.muted
  context.fillText(count(group.nodes.length, 'node'), after, baseline)
  const sum = sums[index]
  if (!sum) return
  const textOf = ({ inUse, devices }: GroupSum): string => `${number(inUse)} / ${number(devices)}${narrow ? '' : ' in use'}`
  // the bars of all groups end at one line, whatever the length of the figures
  const widest = Math.max(...sums.map((one) => textOf(one).length)) * 6.9
  context.textAlign = 'right'
  context.fillText(textOf(sum), right, baseline)
  const bar = narrow ? 44 : 90
  const start = right - widest - 12 - bar
  if (start < after + 60) return
  rounded(context, start, baseline - 7, bar, 5, 2.5, palette.track)
  if (sum.inUse > 0) rounded(context, start, baseline - 7, Math.max(3, (bar * sum.inUse) / sum.devices), 5, 2.5, palette.fill)
}

function rounded(context: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, r: number, colour: string): void {
  context.fillStyle = colour
  context.beginPath()
  context.roundRect(x, y, w, h, r)
  context.fill()
}

function outlined(context: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, r: number, line: string, inside: string): void {
  context.beginPath()
  context.roundRect(x + 0.5, y + 0.5, w - 1, h - 1, r)
  context.fillStyle = inside
  context.fill()
  context.strokeStyle = line
  context.lineWidth = 1
  context.stroke()
}

export function colourOf(scene: Pick<Scene, 'palette' | 'colouring'>, held: Held): string {
  const { palette, colouring } = scene
  if (colouring === 'state') {
    const kind = STATE_CLASS[held.state]
    return kind === 'reserved' ? palette.amber : palette.states[kind]
  }
  if (!held.pod) return palette.other
  return palette.hues[colours.of(namespaceOf(held.pod))]!
}

function drawNode(context: CanvasRenderingContext2D, scene: Scene, group: Group, node: NodeStrip, place: number): void {
  const { palette, layout, lit } = scene
  const { size } = layout
  const { x, y } = cornerOf(group, place)
  const strip = stripOf(node)
  const places = scene.planned?.get(node.name)
  const framed = node.name === scene.selected || node.name === scene.focused
  if (framed || node.name === scene.hovered) frame(context, scene, group, x, y, framed, node.name.length)
  const radius = size.device > 20 ? 5 : size.device > 10 ? 3 : 1
  const nodeLit = !lit || lit(node, null)
  context.globalAlpha = 1
  if (size.name) {
    const some = nodeLit || node.held.some((held) => lit?.(node, held))
    context.globalAlpha = some ? 1 : 0.4
    context.textAlign = 'left'
    context.textBaseline = 'alphabetic'
    context.font = `400 ${size.font}px 'JetBrains Mono Variable', monospace`
    context.fillStyle = node.name === scene.selected ? palette.accent : palette.ink
    context.fillText(shorten(node.name, group.letters), x, y + size.name - 7)
  }
  const alpha = (held: Held | null): number => (!lit || nodeLit || lit(node, held) ? 1 : FADED)
  for (const device of strip.idle) {
    const at = deviceAt(group, size, device)
    context.globalAlpha = alpha(null)
    idle(context, scene, size, x + at.x, y + at.y, radius)
  }
  for (const { from, count: devices, held } of strip.bars) {
    context.globalAlpha = alpha(held)
    const colour = colourOf(scene, held)
    for (let device = from; device < from + devices; ) {
      const line = Math.min(from + devices, (Math.floor(device / group.perRow) + 1) * group.perRow)
      const at = deviceAt(group, size, device)
      const width = (line - device) * (size.device + size.gap) - size.gap
      if (isPromised(held)) {
        if (size.device > 10) outlined(context, x + at.x, y + at.y, width, size.height, radius, palette.amber, palette.amberSoft)
        else if (size.device > 4) outlined(context, x + at.x, y + at.y, width, size.height, 1, palette.amber, palette.amberSoft)
        else {
          context.fillStyle = palette.amber
          context.fillRect(x + at.x, y + at.y, width, size.height)
          context.fillStyle = palette.amberSoft
          context.fillRect(x + at.x + 1, y + at.y + 1, width - 2, size.height - 2)
        }
      } else if (size.device > 10) rounded(context, x + at.x, y + at.y, width, size.height, radius, colour)
      else {
        context.fillStyle = colour
        context.fillRect(x + at.x, y + at.y, width, size.height)
      }
      device = line
    }
  }
  for (const { device, parts } of strip.shares) {
    const at = deviceAt(group, size, device)
    context.globalAlpha = alpha(null)
    idle(context, scene, size, x + at.x, y + at.y, radius)
    context.save()
    context.beginPath()
    context.roundRect(x + at.x, y + at.y, size.device, size.height, radius)
    context.clip()
    for (const { held, from, to } of parts) {
      context.globalAlpha = alpha(held)
      context.fillStyle = colourOf(scene, held)
      const low = Math.round((size.height * from) / 100)
      const high = Math.max(low + 1, Math.round((size.height * to) / 100))
      const seam = from > 0 && size.height > 10 ? 1 : 0
      context.fillRect(x + at.x, y + at.y + size.height - high, size.device, high - low - seam)
    }
    context.restore()
  }
  for (let device = 0; device < node.marks.length; device += 1) {
    const at = deviceAt(group, size, device)
    if (size.device > 20) {
      context.globalAlpha = Math.max(0.5, alpha(null))
      context.font = "500 11px 'Inter Variable', sans-serif"
      context.textAlign = 'center'
      context.textBaseline = 'middle'
      const bar = strip.bars.find(({ from, count: devices }) => device >= from && device < from + devices)
      context.fillStyle = bar && !isPromised(bar.held) ? palette.card : palette.muted
      if (bar) context.globalAlpha = Math.max(0.5, alpha(bar.held))
      if (node.marks[device] === '.') context.fillText(String(device), x + at.x + size.device / 2, y + at.y + size.height / 2 + 0.5)
    }
    if (node.marks[device] !== '.') {
      const bar = strip.bars.find(({ from, count: devices, held }) => device >= from && device < from + devices && !isPromised(held))
      flaw(context, scene, size, x + at.x, y + at.y, radius, !!bar && alpha(bar.held) === 1)
    }
    if (places?.has(device)) {
      context.globalAlpha = 1
      context.strokeStyle = palette.ink
      context.lineWidth = size.device > 10 ? 2 : 1.5
      context.beginPath()
      context.roundRect(x + at.x + 0.5, y + at.y + 0.5, size.device - 1, size.height - 1, radius)
      if (size.device > 10) {
        context.fillStyle = palette.accent
        context.fill()
      }
      context.stroke()
    }
  }
  context.globalAlpha = 1
}

function idle(context: CanvasRenderingContext2D, { palette }: Scene, size: Size, x: number, y: number, radius: number): void {
  if (size.device > 10) outlined(context, x, y, size.device, size.height, radius, palette.idle, palette.card)
  else {
    context.fillStyle = palette.track
    context.fillRect(x, y, size.device, size.height)
  }
}

function flaw(context: CanvasRenderingContext2D, { palette }: Scene, size: Size, x: number, y: number, radius: number, used: boolean): void {
  context.globalAlpha = 1
  if (size.device <= 10) {
    context.fillStyle = palette.red
    context.fillRect(x, y + size.height / 2 - 1.5, size.device, 3)
    return
  }
  if (used) {
    // the colour of the pod stays visible
    context.strokeStyle = palette.red
    context.lineWidth = 2
    context.beginPath()
    context.roundRect(x, y, size.device, size.height, radius)
    context.stroke()
  } else outlined(context, x, y, size.device, size.height, radius, palette.red, palette.card)
  const middleX = x + size.device / 2
  const middleY = y + size.height / 2
  const arm = size.device > 20 ? 5 : 2.8
  context.strokeStyle = used ? palette.card : palette.red
  context.lineWidth = size.device > 20 ? 2.2 : 1.7
  context.beginPath()
  context.moveTo(middleX - arm, middleY - arm)
  context.lineTo(middleX + arm, middleY + arm)
  context.moveTo(middleX + arm, middleY - arm)
  context.lineTo(middleX - arm, middleY + arm)
  context.stroke()
}

function frame(context: CanvasRenderingContext2D, scene: Scene, group: Group, x: number, y: number, strong: boolean, letters: number): void {
  const { palette, layout } = scene
  const { size } = layout
  const room = Math.min(8, size.between / 2 - 1)
  const width = Math.max(group.width, Math.min(group.letters, letters) * size.font * 0.602)
  context.globalAlpha = 1
  context.beginPath()
  const above = size.name ? 4 : room / 1.5
  context.roundRect(x - room, y - above + 0.5, width + 2 * room, group.pitchY - size.row + above + Math.min(room, size.row / 2), size.name ? 6 : 2)
  context.fillStyle = palette.soft
  context.fill()
  if (!strong) return
  context.strokeStyle = palette.accent
  context.lineWidth = 1.5
  context.stroke()
}


