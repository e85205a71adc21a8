// Details of a node: how its devices are linked, who uses them, and what still fits.
import type { DeviceDetail, NodePage } from '../api'
import { beat, cluster } from '../state/live'
import { useResource } from '../state/resource'
import { useTick } from './stamp'
import { devicesText, memoryText, MODE_TEXT } from '../text'
import { Machine } from '../machine/machine'
import { Badge, Head, Notes, PodLink, Printed, Say, Section, Shown } from '../parts/common'

export function NodePanel({ name }: { name: string }) {
  beat.value
  // the load of devices is no change of the cluster
  const load = useTick(15)
  const resource = useResource<NodePage>(`page/nodes/${encodeURIComponent(name)}`, `${cluster.stampOf(name)} ${load}`)
  return (
    <Shown resource={resource} what={`Node ${name}`}>
      {(page) => <Details page={page} />}
    </Shown>
  )
}

function Details({ page }: { page: NodePage }) {
  const strip = cluster.nodes.get(page.name)
  const idle = page.devices.filter((device) => !device.pods.length && !device.cordon && !device.fault && device.state === 'idle').length
  const first = page.devices[0]
  const each = first && first.memory > 0 ? `${memoryText(first.memory, first.unit)}${page.devices.length > 1 ? ' each' : ''}` : ''
  const sub = [page.model, uniform(page.devices) ? each : '', MODE_TEXT[page.mode] ?? page.mode, page.allocator].filter(Boolean).join(' · ')
  return (
    <>
      <Head title={page.name} badge={`${idle} of ${page.devices.length} idle`} sub={sub} />
      <Notes notes={page.problems} />
      {strip && page.links && (
        <Section title="Links between devices">
          <Machine links={page.links} node={strip} />
        </Section>
      )}
      {!page.links && (
        <Section title="Links between devices">
          <p class="muted">The node publishes no link data, so all sets of its devices count as equal.</p>
        </Section>
      )}
      <Section title="Devices">
        <Devices devices={page.devices} />
      </Section>
      {page.fits && (
        <Section title="What still fits">
          {page.sizes.length > 0 && (
            <p class="sizes" aria-label={`Sizes that fit: ${page.sizes.join(', ')}`}>
              {page.sizes.map((size) => (
                <span key={size}>{size}</span>
              ))}
            </p>
          )}
          <p>
            <Say text={page.fits} />
          </p>
        </Section>
      )}
      {page.links && page.links.pairs.length > 0 && (
        <Section title="Bandwidth between pairs, GB/s">
          <Matrix page={page} />
        </Section>
      )}
      <Printed lines={page.lines} command={`linkwise explain node/${page.name}`} />
    </>
  )
}

/** Whether all devices have the same memory and no shares, so that one number says all. */
const uniform = (devices: DeviceDetail[]): boolean => devices.every(({ memory, used }) => memory === devices[0]!.memory && (used === 0 || used === memory))

/** Equal neighbours in one row: idle devices of a large machine are not eight rows. */
function rowsOf(devices: DeviceDetail[]): DeviceDetail[][] {
  const rows: DeviceDetail[][] = []
  const keys = new Map<string, DeviceDetail[]>()
  for (const device of devices) {
    const plain = !device.fault && !device.cordon && (!device.usage || !device.pods.length)
    const pods = device.pods.map(({ pod, text, state }) => `${pod} ${text} ${state}`).join()
    const key = plain ? `${pods} ${device.state} ${device.health} ${device.used}/${device.memory}` : `only ${device.index}`
    const same = keys.get(key)
    if (same) same.push(device)
    else {
      const row = [device]
      keys.set(key, row)
      rows.push(row)
    }
  }
  return rows
}

function Devices({ devices }: { devices: DeviceDetail[] }) {
  const memory = devices.some((device) => device.memory > 0) && !uniform(devices)
  const load = devices.some(({ usage }) => usage && usage.compute !== null)
  const full = devices.some(({ usage }) => usage && usage.memory !== null)
  return (
    <div class="table-box">
      <table class="table devices">
        <thead>
          <tr>
            <th scope="col">Device</th>
            <th scope="col">Pod</th>
            {memory && (
              <th scope="col" class="right">
                Allocated
              </th>
            )}
            {load && (
              <th scope="col" class="right">
                Load
              </th>
            )}
            {full && (
              <th scope="col" class={`right ${memory ? 'not-phone' : ''}`}>
                Memory
              </th>
            )}
            <th scope="col" class="right">
              State
            </th>
          </tr>
        </thead>
        <tbody>
          {rowsOf(devices).map((row) => {
            const device = row[0]!
            return (
              <tr key={device.index}>
                <th scope="row" class="mono" title={row.map(({ id, bus }) => `${id} ${bus}`).join('\n')}>
                  {devicesText(row.map(({ index }) => index))}
                </th>
                <td>
                  {device.pods.length === 0 && <span class="muted">–</span>}
                  {device.pods.map(({ pod, text }) => (
                    <div key={pod}>
                      {pod ? <PodLink pod={pod} /> : <span class="muted">another namespace</span>} <span class="muted">{text.replace(pod, '').trim()}</span>
                    </div>
                  ))}
                </td>
                {memory && (
                  <td class="right nowrap">
                    {device.used > 0 && device.used < device.memory ? `${device.used} of ` : ''}
                    {memoryText(device.memory, device.unit)}
                  </td>
                )}
                {load && <Share value={device.usage?.compute} />}
                {full && <Share value={device.usage?.memory} extra={memory ? 'not-phone' : ''} />}
                <td class="right">
                  <State device={device} />
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

const Share = ({ value, extra = '' }: { value: number | null | undefined; extra?: string }) => <td class={`right nowrap ${extra}`}>{value === null || value === undefined ? <span class="muted">–</span> : `${value} %`}</td>

function State({ device }: { device: DeviceDetail }) {
  const cordon = device.cordon.replace(/^cordoned:? */, '')
  const unhealthy = device.fault || (/^(healthy|cordoned)?$/i.test(device.health) ? '' : device.health)
  return (
    <>
      {unhealthy && <Badge text={device.fault ? `unhealthy: ${device.fault.replace(/^unhealthy:? */i, '')}`.replace(/: $/, '') : unhealthy} tone="bad" />}
      {device.cordon && <Badge text={cordon ? `cordoned: ${cordon}` : 'cordoned'} tone="bad" />}
      {!unhealthy && !device.cordon && (device.state === 'idle' ? <Badge text="idle" /> : <span>{/^\d/.test(device.state) ? 'shared' : device.state}</span>)}
    </>
  )
}

function Matrix({ page }: { page: NodePage }) {
  const { kinds, pairs, matrix } = page.links!
  const size = page.devices.length
  const names = page.devices.map(({ index }) => index)
  const cells: (number | null)[][] = Array.from({ length: size }, () => new Array<number | null>(size).fill(null))
  for (const [i, j, kind, gbps] of pairs) cells[i]![j] = cells[j]![i] = gbps ?? kinds[kind]?.gbps ?? null
  const values = [...new Set(cells.flat().filter((value) => value !== null))].sort((a, b) => a - b)
  // by rank, not by value: the slow links of a machine differ too
  const heat = (value: number | null): number => (value === null || values.length < 2 ? 2 : 1 + Math.round((4 * values.indexOf(value)) / (values.length - 1)))
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Bandwidth between pairs of devices">
      <table class={`matrix ${size > 8 ? 'dense' : ''}`}>
        <thead>
          <tr>
            <th scope="col">
              <span class="hidden">Device</span>
            </th>
            {cells.map((_, index) => (
              <th scope="col" key={index}>
                {names[index]}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {cells.map((row, i) => (
            <tr key={i}>
              <th scope="row">{names[i]}</th>
              {row.map((value, j) => (
                <td key={j} class={i === j ? 'self' : `heat${heat(value)}`} title={i === j ? '' : matrix[i]?.[j]}>
                  {i === j ? '' : value === null ? matrix[i]?.[j] : value >= 100 ? Math.round(value) : Math.round(value * 10) / 10}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
