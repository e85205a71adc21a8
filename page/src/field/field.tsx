// The field: every node as a strip of devices, drawn on a canvas that covers only what is visible.
import { effect, signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { colours } from '../colours'
import { holdersOf } from '../state/cluster'
import { cluster, frame, loaded } from '../state/live'
import { go, nodePath, podPath, route } from '../state/route'
import { colouring, dark, density, grouping, hoveredPod, lit, planned, printing, sheetOpen } from '../state/view'
import { heldText, nodeText } from '../text'
import { draw, sumsOf, type GroupSum, type Scene } from './draw'
import { cornerOf, hit, layout, sizeFor, step, type Hit, type Layout, type Step } from './layout'
import { readPalette } from './palette'

/** the node to bring into view: set by links, not by clicks into the field */
export const reveal = signal('')

const KEYS: Record<string, Step> = { ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down', Home: 'home', End: 'end', PageUp: 'pageup', PageDown: 'pagedown' }
const RELAYOUT = 1000 // ms between two orders by namespace, which follow the pods

export function Field() {
  const host = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const tip = useSignal<{ text: string[]; x: number; y: number; below: boolean } | null>(null)
  const spoken = useSignal('')

  useEffect(() => {
    const box = host.current!
    const picture = canvas.current!
    const context = picture.getContext('2d')!
    let field: Layout = { groups: [], size: sizeFor('auto', 0), width: 0, height: 0, places: new Map() }
    let palette = readPalette()
    let madeFor = ''
    let madeAt = 0
    let hovered: Hit | null = null
    let focused = ''
    let device = -1 // of the focused node, by the keyboard
    let asked = false
    let sums: GroupSum[] = []
    let summedFor = ''

    const arrange = (): void => {
      const key = [cluster.shape, grouping.value, density.value, box.clientWidth, grouping.value === 'namespace' && performance.now() - madeAt > RELAYOUT ? cluster.revision : ''].join()
      if (key === madeFor || box.clientWidth === 0) return
      if (grouping.value === 'namespace' && key.split(',').slice(0, 4).join() === madeFor.split(',').slice(0, 4).join() && performance.now() - madeAt < RELAYOUT) return
      field = layout(cluster.nodes.values(), grouping.value, sizeFor(density.value, cluster.nodes.size), box.clientWidth)
      madeFor = key
      madeAt = performance.now()
      box.style.height = `${field.height}px`
    }

    const window_ = (): { top: number; height: number } => {
      if (printing.peek()) return { top: 0, height: Math.min(field.height, 6000) }
      const rect = box.getBoundingClientRect()
      const scroller = box.closest('.stage')!.getBoundingClientRect()
      const from = Math.max(0, scroller.top, 0) - rect.top
      const to = Math.min(innerHeight, scroller.bottom) - rect.top
      const top = Math.max(0, Math.min(from, field.height))
      return { top, height: Math.max(0, Math.min(field.height, to) - top) }
    }

    const paint = (): void => {
      asked = false
      if (!box.isConnected) return // replaced by the table before the frame
      arrange()
      const { top, height } = window_()
      const ratio = Math.min(devicePixelRatio || 1, 2)
      const wide = Math.round(field.width * ratio)
      const tall = Math.round(height * ratio)
      if (picture.width !== wide || picture.height !== tall) {
        picture.width = wide
        picture.height = tall
        picture.style.width = `${field.width}px`
        picture.style.height = `${height}px`
      }
      picture.style.transform = `translateY(${top}px)`
      context.setTransform(ratio, 0, 0, ratio, 0, 0)
      if (summedFor !== `${cluster.revision} ${madeFor}`) {
        sums = sumsOf(cluster, field)
        summedFor = `${cluster.revision} ${madeFor}`
      }
      const at = route.peek()
      const scene: Scene = {
        state: cluster,
        layout: field,
        palette,
        colouring: colouring.peek(),
        lit: lit.peek(),
        selected: at.view === 'node' ? at.name : '',
        focused: document.activeElement === box ? focused : '',
        hovered: hovered?.node ?? '',
        planned: planned.peek(),
        sums,
      }
      draw(context, scene, top, height)
    }
    const ask = (): void => {
      if (asked) return
      asked = true
      requestAnimationFrame(paint)
    }

    const stops = [
      effect(() => {
        loaded.value
        frame.value
        colours.add(cluster.namespaces.keys())
        ask()
      }),
      effect(() => {
        lit.value
        route.value
        colouring.value
        grouping.value
        density.value
        planned.value
        ask()
      }),
      effect(() => {
        dark.value
        palette = readPalette()
        ask()
      }),
      effect(() => {
        // at once: the print follows the event
        if (printing.value) paint()
        else ask()
      }),
      effect(() => {
        const name = reveal.value
        if (!name || !loaded.value) return
        requestAnimationFrame(() => {
          if (!box.isConnected) return
          arrange()
          show(name)
          reveal.value = ''
        })
      }),
    ]

    const show = (name: string): void => {
      const at = field.places.get(name)
      if (!at) return
      const group = field.groups[at.group]!
      const { y } = cornerOf(group, at.index)
      const rect = box.getBoundingClientRect()
      const stage = box.closest('.stage')!
      const stageRect = stage.getBoundingClientRect()
      const bar = document.querySelector('.toolbar')?.getBoundingClientRect().height ?? 0
      const seenFrom = Math.max(0, stageRect.top) + bar
      const scrolls = getComputedStyle(stage).overflowY !== 'visible'
      // on a phone the window scrolls, and a bar at the bottom opens the details
      const seenTo = Math.min(innerHeight, stageRect.bottom) - (scrolls ? 0 : 70)
      const top = rect.top + y
      const bottom = top + group.pitchY
      let by = 0
      if (top < seenFrom + 8) by = top - seenFrom - 40
      else if (bottom > seenTo - 8) by = bottom - seenTo + 40
      if (!by) return
      if (scrolls) stage.scrollBy(0, by)
      else scrollBy(0, by)
    }

    const at = (event: MouseEvent): Hit | null => {
      const rect = box.getBoundingClientRect()
      const found = hit(field, event.clientX - rect.left, event.clientY - rect.top)
      // a node may have fewer devices than its group has room for
      if (found && found.device >= (cluster.nodes.get(found.node)?.marks.length ?? 0)) found.device = -1
      return found
    }
    const move = (event: PointerEvent): void => {
      if (event.pointerType === 'touch') return
      const now = at(event)
      box.classList.toggle('over', !!now)
      if (now?.node !== hovered?.node || now?.device !== hovered?.device) {
        hovered = now
        const node = now ? cluster.nodes.get(now.node) : undefined
        const holders = node && now && now.device >= 0 ? holdersOf(node, now.device) : []
        hoveredPod.value = holders[0]?.pod ?? ''
        ask()
      }
      const node = hovered && cluster.nodes.get(hovered.node)
      if (!node || !hovered) {
        tip.value = null
        return
      }
      const holders = hovered.device >= 0 ? holdersOf(node, hovered.device) : []
      const lines = holders.length ? holders.map((held) => heldText(node, held)) : []
      const [first, ...rest] = nodeText(node, holders.length ? -1 : hovered.device).split(/(?<=^[^,]+), /)
      tip.value = {
        text: [first ?? '', ...(holders.length ? lines : [rest.join(', ')])],
        x: Math.min(event.clientX + 14, innerWidth - 300),
        y: event.clientY,
        below: event.clientY < innerHeight - 120,
      }
    }
    const leave = (): void => {
      hovered = null
      hoveredPod.value = ''
      tip.value = null
      ask()
    }
    const open = (found: Hit): void => {
      const node = cluster.nodes.get(found.node)
      if (!node) return
      const current = route.peek()
      const holder = found.device >= 0 ? holdersOf(node, found.device).find((held) => held.pod) : undefined
      // a bar opens its pod; where nodes have no names to click, the first click shows the node, and the next one the pod
      const direct = field.size.name > 0 || (current.view === 'node' && current.name === node.name)
      go(holder && direct ? podPath(holder.pod) : nodePath(node.name))
      sheetOpen.value = true
    }
    const click = (event: MouseEvent): void => {
      const found = at(event)
      if (found) {
        focused = found.node
        device = -1
        open(found)
      } else if (route.peek().view !== 'plan') go('')
    }
    const speak = (): void => {
      const node = cluster.nodes.get(focused)
      if (!node) return
      spoken.value = nodeText(node, device)
      hoveredPod.value = device >= 0 ? (holdersOf(node, device)[0]?.pod ?? '') : ''
    }
    const key = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey) return
      const direction = KEYS[event.key]
      const node = cluster.nodes.get(focused)
      if (event.shiftKey && node && (event.key === 'ArrowRight' || event.key === 'ArrowLeft')) {
        const last = node.marks.length - 1
        device = event.key === 'ArrowRight' ? Math.min(last, device + 1) : Math.max(-1, device - 1)
      } else if (direction) {
        focused = step(field, focused, direction)
        device = -1
        show(focused)
      } else if (event.key === 'Enter' || event.key === ' ') {
        if (!node) return
        const holder = device >= 0 ? holdersOf(node, device).find((held) => held.pod) : undefined
        go(holder ? podPath(holder.pod) : nodePath(node.name))
        sheetOpen.value = true
      } else return
      event.preventDefault()
      speak()
      ask()
    }
    const focus = (): void => {
      const current = route.peek()
      if (current.view === 'node') focused = current.name
      else if (!cluster.nodes.has(focused)) focused = step(field, '', 'home')
      speak()
      ask()
    }
    const blur = (): void => {
      hoveredPod.value = ''
      ask()
    }

    const resized = new ResizeObserver(ask)
    resized.observe(box)
    document.addEventListener('scroll', ask, { capture: true, passive: true })
    addEventListener('resize', ask)
    void document.fonts?.ready.then(ask)
    box.addEventListener('pointermove', move)
    box.addEventListener('pointerleave', leave)
    box.addEventListener('click', click)
    box.addEventListener('keydown', key)
    box.addEventListener('focus', focus)
    box.addEventListener('blur', blur)
    return () => {
      for (const stop of stops) stop()
      resized.disconnect()
      document.removeEventListener('scroll', ask, { capture: true })
      removeEventListener('resize', ask)
      hoveredPod.value = ''
    }
  }, [])

  return (
    <>
      <div
        class="field"
        ref={host}
        tabIndex={0}
        role="application"
        aria-label="Nodes and their devices"
        aria-describedby="field-help"
      >
        <canvas ref={canvas} aria-hidden="true" />
      </div>
      <p id="field-help" class="hidden">
        Arrow keys move between nodes, Shift with left and right between the devices of a node, Enter opens the details. The button Table shows the same as a table.
      </p>
      <p class="hidden" aria-live="polite">
        {spoken}
      </p>
      {tip.value && <Tip {...tip.value} />}
    </>
  )
}

function Tip({ text, x, y, below }: { text: string[]; x: number; y: number; below: boolean }) {
  const [title, ...lines] = text
  return (
    <div class="tip" style={{ left: `${x}px`, ...(below ? { top: `${y + 18}px` } : { bottom: `${innerHeight - y + 12}px` }) }}>
      <b class="mono">{title}</b>
      {lines.slice(0, 5).map((line) => (
        <span key={line}>{line}</span>
      ))}
      {lines.length > 5 && <span>and {lines.length - 5} more</span>}
    </div>
  )
}
