// The cluster: figures, the switches and legend, and the field or its table.
import { useState } from 'preact/hooks'
import { COLOURS, colours } from '../colours'
import { Field } from '../field/field'
import { sizeFor, SIZES } from '../field/layout'
import { stripOf } from '../state/cluster'
import { beat, cluster, live, loaded } from '../state/live'
import { asTable, colouring, density, grouping, only, sheetOpen, type Colouring, type Density, type Grouping, type StateClass } from '../state/view'
import { capital, count, heldText, natural, number, percent, sentence, shortModel } from '../text'
import { Empty, NodeLink, SignedOut, Skeleton } from '../parts/common'

export function Stage() {
  beat.value
  const now = live.value
  if (!loaded.value) {
    if (now.state === 'reconnecting' && now.status === 401) return <SignedOut />
    if (now.state === 'reconnecting' && now.status === 403) return <Empty title="Not permitted" text={sentence(capital(now.sentence))}>{null}</Empty>
    if (now.state === 'reconnecting') return <Empty title="The cluster is not available right now" text={`${sentence(capital(now.sentence))} The page tries again.`}>{null}</Empty>
    return <Skeleton />
  }
  if (!cluster.nodes.size)
    return (
      <>
        <Banners />
        <Cards />
        <Empty title="No node has devices" text="Nodes appear here as soon as they publish accelerators. `linkwise doctor` says what is missing.">
          {null}
        </Empty>
      </>
    )
  return (
    <>
      <Banners />
      <Cards />
      <Toolbar />
      {asTable.value ? (
        <NodeTable />
      ) : (
        <div class="field-card">
          <Field />
        </div>
      )}
    </>
  )
}

function Banners() {
  beat.value
  const now = live.value
  const expired = now.state === 'reconnecting' && now.status === 401
  const sentences = [...cluster.notes, ...(now.state === 'reconnecting' && now.status >= 500 ? [capital(now.sentence)] : [])]
  if (!cluster.reader.everywhere && cluster.reader.namespaces.length)
    sentences.push(`Pods are named for ${cluster.reader.namespaces.join(', ')} only; devices of other namespaces are grey.`)
  return (
    <>
      {expired && (
        <p class="banner bad" role="alert">
          The session has expired, and this picture is no longer updated. Run <code>linkwise page</code> again.
        </p>
      )}
      {sentences.map((text) => (
        <p class="banner" key={text}>
          {sentence(text)}
        </p>
      ))}
    </>
  )
}

function Cards() {
  beat.value
  const { totals, models } = cluster
  const { devices, inUse, idle, reserved, unusable, waitingPods } = totals
  return (
    <div class="cards">
      <section class="card">
        <h2>Devices in use</h2>
        <p class="figure">
          <b>{number(inUse)}</b>
          <span>
            of {number(devices)} · {percent(inUse, devices)} %
          </span>
        </p>
        <svg class="thin" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">
          <rect width="1000" height="10" class="track" />
          <rect width={devices ? (1000 * inUse) / devices : 0} height="10" class="in-use" />
          <rect x={devices ? (1000 * inUse) / devices : 0} width={devices ? (1000 * reserved) / devices : 0} height="10" class="soon" />
        </svg>
      </section>
      <section class="card">
        <h2>Idle</h2>
        <p class="figure">
          <b>{number(idle)}</b>
          {reserved > 0 && <span>+ {number(reserved)} reserved</span>}
        </p>
        {unusable > 0 && <p class="aside bad">{number(unusable)} unusable</p>}
      </section>
      <section class="card">
        <h2>Waiting</h2>
        <p class="figure">
          <b>{number(waitingPods)}</b>
          <span>{waitingPods === 1 ? 'pod' : 'pods'}</span>
        </p>
        <button type="button" class="only-phone linklike" onClick={() => (sheetOpen.value = true)}>
          Why
        </button>
      </section>
      <section class="card wide">
        <h2>Largest pod that fits now, in devices</h2>
        <ul class="largest">
          {models.filter(({ fits }) => Object.keys(fits).length > 0).slice(0, 12).map(({ model, largest }) => (
            <li key={model} title={model}>
              {shortModel(model)} <b class={largest ? '' : 'none'}>{largest}</b>
            </li>
          ))}
        </ul>
      </section>
    </div>
  )
}

function Choice<T extends string>({ label, value, options, onChange }: { label: string; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void }) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([key, text]) => (
        <button type="button" key={key} aria-pressed={value === key} onClick={() => onChange(key)}>
          {text}
        </button>
      ))}
    </div>
  )
}

const ORDER: Density[] = ['tiny', 'small', 'medium', 'large']

function Toolbar() {
  beat.value
  const size = sizeFor(density.value, cluster.nodes.size)
  const at = ORDER.findIndex((key) => key !== 'auto' && SIZES[key] === size)
  const zoom = (by: number): void => {
    density.value = ORDER[Math.max(0, Math.min(ORDER.length - 1, at + by))]!
  }
  return (
    <div class="toolbar">
      <div class="tools">
        <Choice<Colouring> label="Colours" value={colouring.value} options={[['namespace', 'Namespaces'], ['state', 'States']]} onChange={(value) => { colouring.value = value; only.value = null }} />
        <label class="select">
          <span>by</span>
          <select value={grouping.value} onChange={(event) => (grouping.value = event.currentTarget.value as Grouping)} aria-label="Order of the nodes">
            <option value="model">model</option>
            <option value="rack">rack</option>
            <option value="namespace">namespace</option>
          </select>
        </label>
        <span class="spring" />
        <div class="choice icons" role="group" aria-label="Size">
          <button type="button" aria-label="Smaller" disabled={at <= 0 || asTable.value} onClick={() => zoom(-1)}>
            −
          </button>
          <button type="button" aria-label="Larger" disabled={at >= ORDER.length - 1 || asTable.value} onClick={() => zoom(1)}>
            +
          </button>
        </div>
        <button type="button" class="toggle" aria-pressed={asTable.value} onClick={() => (asTable.value = !asTable.value)}>
          Table
        </button>
      </div>
      <Legend />
    </div>
  )
}

const STATES: [StateClass, string][] = [
  ['use', 'in use'],
  ['start', 'starting'],
  ['leave', 'terminating'],
]
const SHOWN = 8

function Legend() {
  beat.value
  const [all, setAll] = useState(false)
  const names = [...cluster.namespaces].sort((a, b) => natural(a[0], b[0])).map(([name]) => name)
  const shown = all ? names : names.slice(0, SHOWN)
  const current = only.value
  const shared = [...cluster.nodes.values()].some((node) => stripOf(node).shares.length > 0)
  return (
    <div class="legend" role="group" aria-label="Legend; press an entry to highlight it">
      {colouring.value === 'namespace'
        ? shown.map((name) => (
            <button type="button" key={name} aria-pressed={current?.namespace === name} onClick={() => (only.value = current?.namespace === name ? null : { namespace: name })}>
              <i class={`swatch n${colours.of(name) % COLOURS}`} />
              {name}
            </button>
          ))
        : STATES.map(([state, text]) => (
            <button type="button" key={state} aria-pressed={current?.state === state} onClick={() => (only.value = current?.state === state ? null : { state })}>
              <i class={`swatch s-${state}`} />
              {text}
            </button>
          ))}
      {colouring.value === 'namespace' && names.length > SHOWN && (
        <button type="button" onClick={() => setAll(!all)}>
          {all ? 'fewer' : `${names.length - SHOWN} more`}
        </button>
      )}
      {!cluster.reader.everywhere && (
        <span>
          <i class="swatch other" />
          other namespaces
        </span>
      )}
      <span>
        <i class="swatch idle" />
        idle
      </span>
      {shared && (
        <span>
          <i class="swatch shared" />
          shared, by fill
        </span>
      )}
      <button type="button" aria-pressed={current?.state === 'reserved'} onClick={() => (only.value = current?.state === 'reserved' ? null : { state: 'reserved' })}>
        <i class="swatch reserved" />
        reserved
      </button>
      <span>
        <svg class="swatch flawed" viewBox="0 0 12 12" aria-hidden="true">
          <path d="M3.6 3.6l4.8 4.8M8.4 3.6L3.6 8.4" />
        </svg>
        cordoned or unhealthy
      </span>
    </div>
  )
}

const ROWS = 100

/** The field in words, for screen readers and for copying. */
function NodeTable() {
  beat.value
  const [shown, setShown] = useState(ROWS)
  const nodes = [...cluster.nodes.values()].sort((a, b) => natural(a.model, b.model) || natural(a.name, b.name))
  const racks = nodes.some(({ rack }) => rack)
  return (
    <div class="page-card flush">
      <div class="table-box" tabIndex={0} role="region" aria-label="Nodes and their devices">
        <table class="table roomy">
          <caption class="hidden">Nodes and their devices</caption>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col" class="not-phone">
                Model
              </th>
              {racks && (
                <th scope="col" class="not-phone">
                  Rack
                </th>
              )}
              <th scope="col" class="right">
                In use
              </th>
              <th scope="col" class="right">
                Unusable
              </th>
              <th scope="col">Pods</th>
            </tr>
          </thead>
          <tbody>
            {nodes.slice(0, shown).map((node) => (
              <tr key={node.name}>
                <th scope="row" class="nowrap">
                  <NodeLink name={node.name} />
                  <span class="only-phone stacked">{[shortModel(node.model), node.rack].filter(Boolean).join(' · ')}</span>
                </th>
                <td class="nowrap not-phone">{shortModel(node.model)}</td>
                {racks && <td class="not-phone">{node.rack || <span class="muted">–</span>}</td>}
                <td class="right nowrap">
                  {stripOf(node).inUse} / {node.marks.length}
                </td>
                <td class="right">{[...node.marks].filter((mark) => mark !== '.').length || <span class="muted">–</span>}</td>
                <td class="small">{node.held.length ? node.held.map((held) => heldText(node, held)).join('; ') : <span class="muted">–</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {nodes.length > shown && (
        <button type="button" class="button quiet" onClick={() => setShown(shown + 4 * ROWS)}>
          Show more of {count(nodes.length - shown, 'node')}
        </button>
      )}
    </div>
  )
}

