// Details of a node: how its devices are linked, who uses them, and what still fits.
import type { DeviceDetail, NodePage } from '../api'
import { beat, cluster } from '../state/live'
import { useResource } from '../state/resource'
import { devicesText, MODE_TEXT, number } from '../text'
import { Machine } from '../machine/machine'
import { Badge, Head, Notes, PodLink, Printed, Section, Shown } from '../parts/common'

export function NodePanel({ name }: { name: string }) {
  beat.value
  const resource = useResource<NodePage>(`page/nodes/${encodeURIComponent(name)}`, cluster.stampOf(name))
  return (
    <Shown resource={resource} what={`Node ${name}`}>
      {(page) => <Details page={page} />}
    </Shown>
  )
}

function Details({ page }: { page: NodePage }) {
  const strip = cluster.nodes.get(page.name)
  const idle = page.devices.filter((device) => !device.pods.length && !device.cordon && !device.fault && device.state === 'idle').length
  const sub = [page.model, MODE_TEXT[page.mode] ?? page.mode, page.allocator].filter(Boolean).join(' · ')
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
          <p>{page.fits}</p>
        </Section>
      )}
      {page.links && page.links.matrix.length > 0 && (
        <Section title="Bandwidth between pairs, GB/s">
          <Matrix page={page} />
        </Section>
      )}
      <Printed lines={page.lines} command={`linkwise explain node/${page.name}`} />
    </>
  )
}

/** Equal neighbours in one row: idle devices of a large machine are not eight rows. */
function rowsOf(devices: DeviceDetail[]): DeviceDetail[][] {
  const rows: DeviceDetail[][] = []
  const keys = new Map<string, DeviceDetail[]>()
  for (const device of devices) {
    const plain = !device.usage && !device.fault && !device.cordon
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
  const memory = devices.some((device) => device.memory > 0)
  const usage = devices.some((device) => device.usage)
  return (
    <div class="table-box">
      <table class="table devices">
        <thead>
          <tr>
            <th scope="col">Device</th>
            <th scope="col">Pod</th>
            {memory && (
              <th scope="col" class="right">
                Memory
              </th>
            )}
            {usage && (
              <th scope="col" class="right">
                Load
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
                      {pod ? <PodLink pod={pod} /> : <span class="muted">another namespace</span>} <span class="muted">{text}</span>
                    </div>
                  ))}
                </td>
                {memory && (
                  <td class="right nowrap">
                    {device.used > 0 && device.used < device.memory ? `${number(device.used)} of ` : ''}
                    {number(device.memory)} <span class="muted">{device.unit}</span>
                  </td>
                )}
                {usage && <td class="right">{device.usage?.compute === null || !device.usage ? <span class="muted">–</span> : `${device.usage.compute} %`}</td>}
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

function State({ device }: { device: DeviceDetail }) {
  const unhealthy = device.fault || (/^healthy$/i.test(device.health) || !device.health ? '' : device.health)
  return (
    <>
      {unhealthy && <Badge text={device.fault ? `unhealthy: ${device.fault}` : unhealthy} tone="bad" />}
      {device.cordon && <Badge text={`cordoned: ${device.cordon}`} tone="bad" />}
      {!unhealthy && !device.cordon && (device.state === 'idle' ? <Badge text="idle" /> : <span>{device.state}</span>)}
    </>
  )
}

function Matrix({ page }: { page: NodePage }) {
  const { matrix, worth } = page.links!
  const most = Math.max(...worth.flat(), 1)
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Bandwidth between pairs of devices">
      <table class={`matrix ${matrix.length > 8 ? 'dense' : ''}`}>
        <thead>
          <tr>
            <td />
            {matrix.map((_, index) => (
              <th scope="col" key={index}>
                {index}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {matrix.map((row, i) => (
            <tr key={i}>
              <th scope="row">{i}</th>
              {row.map((text, j) => (
                <td key={j} class={i === j ? 'self' : `heat${Math.round((5 * (worth[i]?.[j] ?? 0)) / most)}`}>
                  {i === j ? '' : text}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

