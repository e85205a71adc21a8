// The first screen beside the field: what waits, and what would still fit.
import { useState } from 'preact/hooks'
import type { ModelFit, Waiting } from '../api'
import { beat, cluster, loaded } from '../state/live'
import { groupPath, podPath } from '../state/route'
import { sheetOpen } from '../state/view'
import { count, number, sentence, shortModel } from '../text'
import { Key, Link, Section, Skeleton } from '../parts/common'

const PAGE = 30

export function WaitingPanel() {
  beat.value
  if (!loaded.value) return <Skeleton />
  const { waiting, totals, models } = cluster
  return (
    <>
      <header class="head">
        <div class="head-line">
          <h2>Waiting</h2>
          {totals.waitingPods > 0 && <span class="badge warn">{count(totals.waitingPods, 'pod')}</span>}
          <button type="button" class="close only-phone" aria-label="Close" onClick={() => (sheetOpen.value = false)}>
            <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
              <path d="M3 3l10 10M13 3L3 13" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" />
            </svg>
          </button>
        </div>
      </header>
      <List waiting={waiting} />
      {models.length > 0 && (
        <Section title="Pods that would still fit, by number of devices">
          <Fits models={models} />
        </Section>
      )}
    </>
  )
}

function List({ waiting }: { waiting: Waiting[] }) {
  const [shown, setShown] = useState(PAGE)
  if (!waiting.length) return <p class="calm">No pod waits for devices.</p>
  return (
    <>
      <ul class="waiting">
        {waiting.slice(0, shown).map((one) => {
          const key = `${one.namespace}/${one.name}`
          const size = one.kind === 'group' ? count(one.pods, 'pod') : one.devices ? count(one.devices, 'device') : 'share'
          return (
            <li key={`${one.kind} ${key}`}>
              <Link to={one.kind === 'group' ? groupPath(key) : podPath(key)} class="row-link" onGo={() => (sheetOpen.value = true)}>
                <span class="row-title">
                  <Key namespace={one.namespace} name={one.name} />
                </span>
                <span class="badge quiet">{size}</span>
                <span class="row-text">{sentence(one.sentence)}</span>
              </Link>
            </li>
          )
        })}
      </ul>
      {waiting.length > shown && (
        <button type="button" class="button quiet" onClick={() => setShown(shown + 4 * PAGE)}>
          Show {number(Math.min(4 * PAGE, waiting.length - shown))} more of {number(waiting.length - shown)}
        </button>
      )}
    </>
  )
}

function Fits({ models }: { models: ModelFit[] }) {
  const sizes = [...new Set(models.flatMap(({ fits }) => Object.keys(fits)))].sort((a, b) => Number(a) - Number(b))
  return (
    <div class="table-box">
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Model</th>
            {sizes.map((size) => (
              <th scope="col" class="right" key={size}>
                {size}
              </th>
            ))}
            <th scope="col" class="right">
              Free
            </th>
          </tr>
        </thead>
        <tbody>
          {models.map((model) => (
            <tr key={model.model}>
              <th scope="row" title={model.model}>
                {shortModel(model.model)}
              </th>
              {sizes.map((size) => {
                const fits = model.fits[size]
                return (
                  <td key={size} class={`right ${fits === 0 ? 'none' : ''}`}>
                    {fits === undefined ? <span class="muted">–</span> : number(fits)}
                  </td>
                )
              })}
              <td class="right muted">
                {number(model.free)} / {number(model.devices)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
