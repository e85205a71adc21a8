// The devices of a machine and what links them.
import { useState } from 'preact/hooks'
import type { Links } from '../api'
import { colours } from '../colours'
import type { Held, NodeStrip } from '../api'
import { holdersOf, indexAt, isPromised, namespaceOf, positionsOf } from '../state/cluster'
import { hoveredPod } from '../state/view'
import { nodeText } from '../text'
import { isDrawn, kindClass, place, thickness } from './layout'

interface Props {
  links: Links
  node: NodeStrip
  /** numbers of devices, as are those of the runner-up */
  chosen?: readonly number[]
  runnerUp?: readonly number[]
}

const gb = (value: number | null): string => (value === null ? '' : `${Math.round(value * 10) / 10} GB/s`)

export function Machine({ links, node, chosen, runnerUp }: Props) {
  const [focus, setFocus] = useState(-1)
  const count = node.marks.length
  const drawing = place(links, count)
  const { points, radius, hub } = drawing
  const picked = chosen ? new Set(positionsOf(node, chosen)) : null
  const second = new Set(positionsOf(node, runnerUp ?? []).filter((device) => !picked?.has(device)))
  const isLit = (device: number): boolean => (focus >= 0 ? device === focus : !picked || picked.has(device) || second.has(device))
  const edgeLit = (i: number, j: number): boolean => (focus >= 0 ? i === focus || j === focus : !picked || (picked.has(i) && (j < 0 || picked.has(j))))
  const drawn = links.kinds.some((_, kind) => isDrawn(kind, links))
  const fastest = links.kinds[0]
  return (
    <figure class="machine">
      <svg viewBox={`0 0 ${drawing.width} ${drawing.height}`} role="img" aria-label={`Links between the ${count} devices of ${node.name}`}>
        {drawing.wires.map((wire) => (
          <path key={wire} d={wire} class="wire" />
        ))}
        {drawing.boxes.map((box) => (
          <g key={`${box.x},${box.y}`}>
            <rect x={box.x} y={box.y} width={box.width} height={box.height} rx="8" class={box.height < 40 ? 'box solid' : 'box'} />
            {box.height < 40 && (
              <text x={box.x + box.width / 2} y={box.y + box.height / 2} class="box-label">
                {box.label}
              </text>
            )}
          </g>
        ))}
        {drawing.edges.map(({ i, j, kind, gbps, path }) => (
          <path key={`${i}-${j}`} d={path} class={`edge ${kindClass(kind, links)} ${edgeLit(i, j) ? '' : 'dim'}`} stroke-width={thickness(gbps, kind, links)} />
        ))}
        {hub && (
          <g>
            <circle cx={hub.x} cy={hub.y} r={hub.r} class="hub" />
            <text x={hub.x} y={hub.y - 8} class="hub-name">
              {hub.label}
            </text>
            <text x={hub.x} y={hub.y + 10} class="hub-gbps">
              {gb(fastest?.gbps ?? null)}
            </text>
          </g>
        )}
        {points.map(({ x, y }, device) => {
          const holders = holdersOf(node, device)
          return (
            <g
              key={device}
              class={`device ${isLit(device) ? '' : 'dim'}`}
              onPointerEnter={() => {
                setFocus(device)
                hoveredPod.value = holders[0]?.pod ?? ''
              }}
              onPointerLeave={() => {
                setFocus(-1)
                hoveredPod.value = ''
              }}
            >
              <title>{nodeText(node, device)}</title>
              {picked?.has(device) && <circle cx={x} cy={y} r={radius + 4} class="ring" />}
              {second.has(device) && <circle cx={x} cy={y} r={radius + 4} class="ring dashed" />}
              <circle cx={x} cy={y} r={radius + 1} class="backing" />
              <circle cx={x} cy={y} r={radius} class={`disc ${discClass(holders)}`} />
              <Fill holders={holders} x={x} y={y} r={radius} />
              {node.marks[device] !== '.' && <circle cx={x} cy={y} r={radius} class="disc-flaw" />}
              <text x={x} y={y + 0.5} class={`disc-label ${holders.length && !isShared(holders) && !isPromised(holders[0]!) ? 'on' : ''}`}>
                {indexAt(node, device)}
              </text>
              {node.marks[device] !== '.' && (
                <g class="flaw" transform={`translate(${x + radius * 0.68} ${y - radius * 0.72})`}>
                  <circle r="7.5" />
                  <path d="M-2.8-2.8 2.8 2.8M2.8-2.8-2.8 2.8" />
                </g>
              )}
            </g>
          )
        })}
      </svg>
      <figcaption>
        {focus >= 0 ? (
          <FocusText links={links} node={node} focus={focus} />
        ) : (
          <>
            {links.kinds.map((kind, index) => (
              <span key={kind.code} class="legend-link">
                <svg width="20" height="8" aria-hidden="true">
                  <path d="M1 4H19" class={`edge ${kindClass(index, links)}`} stroke-width={thickness(kind.gbps, index, links)} />
                </svg>
                <span>
                  {kind.name === kind.code ? '' : kind.name} {kind.code} {kind.code.includes('GB/s') ? '' : <b>{gb(kind.gbps)}</b>}
                </span>
              </span>
            ))}
            {second.size > 0 && <span>dashed circle: runner-up</span>}
            {!drawn && <span>no direct links</span>}
            <span>{links.measured ? 'measured on this node' : 'typical for the kind of link, not measured'}</span>
          </>
        )}
      </figcaption>
    </figure>
  )
}

const isShared = (holders: Held[]): boolean => holders.some((held) => held.part !== undefined && held.part < 100)

function discClass(holders: Held[]): string {
  const [first] = holders
  if (!first || isShared(holders)) return 'free'
  if (isPromised(first)) return 'reserved'
  return first.pod ? `n${colours.of(namespaceOf(first.pod))}` : 'other'
}

/** Fill level of a shared device, from below. */
function Fill({ holders, x, y, r }: { holders: Held[]; x: number; y: number; r: number }) {
  if (!isShared(holders)) return null
  const total = Math.min(100, holders.reduce((sum, held) => sum + (held.part ?? 100), 0))
  const level = y + r - (2 * r * total) / 100
  const half = Math.sqrt(Math.max(0, r * r - (level - y) ** 2))
  const namespace = holders[0]?.pod ? namespaceOf(holders[0].pod) : ''
  const colour = namespace ? `n${colours.of(namespace)}` : 'other'
  if (total >= 100) return <circle cx={x} cy={y} r={r} class={`level ${colour}`} />
  return <path d={`M${x - half} ${level}A${r} ${r} 0 ${total > 50 ? 1 : 0} 0 ${x + half} ${level}Z`} class={`level ${colour}`} />
}

function FocusText({ links, node, focus }: { links: Links; node: NodeStrip; focus: number }) {
  const byKind = new Map<string, number[]>()
  for (const [i, j, kind, gbps] of links.pairs) {
    if (i !== focus && j !== focus) continue
    const code = links.kinds[kind]?.code ?? ''
    const key = `${code.includes('GB/s') ? '' : code} ${gb(gbps ?? links.kinds[kind]?.gbps ?? null)}`
    const list = byKind.get(key)
    const other = indexAt(node, i === focus ? j : i)
    if (list) list.push(other)
    else byKind.set(key, [other])
  }
  return (
    <span>
      Device {indexAt(node, focus)}: {[...byKind].map(([kind, others]) => `${kind.trim()} to ${others.join(', ')}`).join('; ')}
    </span>
  )
}
