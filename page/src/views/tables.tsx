// Tables that `linkwise get` prints, as they are.
import { useSignal } from '@preact/signals'
import { beat } from '../state/live'
import { useResource } from '../state/resource'
import { capital } from '../text'
import { Empty, Notes, Shown } from '../parts/common'
import { useSlowStamp } from './stamp'

type Cell = string | [string, string] | [string, string, string]
interface Table {
  kind: string
  empty: string
  notes: string[]
  columns: { name: string; wide?: boolean }[]
  rows: { name: string; namespace?: string; cells: Cell[] }[]
}

const TEXT = {
  usage: { title: 'Usage by namespace', sub: 'Devices that the pods of each namespace hold, as `linkwise get usage` prints them.', none: 'Namespaces appear here as soon as their pods hold or wait for devices.' },
  policies: { title: 'Policies', sub: 'AcceleratorPolicies of this cluster, as `linkwise get policy` prints them.', none: 'An AcceleratorPolicy says which namespaces may request which devices, how many, and who may share them. Without one, all may request all.' },
}

export function TablePage({ view }: { view: 'usage' | 'policies' }) {
  beat.value
  const wide = useSignal(false)
  const resource = useResource<Table | Table[]>(view === 'usage' ? 'tables/usage' : 'tables/policy', useSlowStamp())
  const { title, sub, none } = TEXT[view]
  return (
    <section class="page-card">
      <header class="page-head">
        <div>
          <h2>{title}</h2>
          <p class="sub">{sub.split('`').map((part, index) => (index % 2 ? <code key={part}>{part}</code> : part))}</p>
        </div>
        {[resource.data ?? []].flat().some(({ columns }) => columns.some((column) => column.wide)) && (
          <label class="check">
            <input type="checkbox" checked={wide.value} onChange={(event) => (wide.value = event.currentTarget.checked)} /> All columns
          </label>
        )}
      </header>
      <Shown resource={resource} what={title}>
        {(data) => (
          <>
            {[data].flat().map((table) => (
              <Rows key={table.kind} table={table} wide={wide.value} none={none} />
            ))}
          </>
        )}
      </Shown>
    </section>
  )
}

const heading = (name: string): string => capital(name === name.toUpperCase() ? name.toLowerCase() : name)

function Rows({ table, wide, none }: { table: Table; wide: boolean; none: string }) {
  const shown = table.columns.map((column, index) => ({ ...column, index })).filter((column) => wide || !column.wide)
  const numeric = new Set(shown.filter(({ index }) => table.rows.length > 0 && table.rows.every(({ cells }) => /^[-–]?[\d.,]*\s?[%a-zA-Z]{0,3}$/.test(textOf(cells[index]!, wide)))).map(({ index }) => index))
  // on a phone, the texts of a row stand below each other in its first column, so that its figures stay in sight
  const stacked = shown.filter(({ index }, order) => order > 0 && !numeric.has(index))
  const namespaced = table.rows.some((row) => row.namespace) && !table.columns.some(({ name }) => /namespace/i.test(name))
  if (!table.rows.length) return <Empty title={capital(table.empty || 'Nothing to show')} text={none} />
  return (
    <>
      <Notes notes={table.notes} />
      <div class="table-box" tabIndex={0} role="region" aria-label={table.kind}>
        <table class="table roomy">
          <thead>
            <tr>
              {namespaced && <th scope="col">Namespace</th>}
              {shown.map(({ name, index }) => (
                <th scope="col" key={name} class={numeric.has(index) ? 'right' : stacked.some((one) => one.index === index) ? 'not-phone' : ''}>
                  {heading(name)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.rows.map((row) => (
              <tr key={`${row.namespace ?? ''}/${row.name}`} class={row.cells.some((cell) => textOf(cell, wide) === 'TOTAL') ? 'total' : ''}>
                {namespaced && <td>{row.namespace}</td>}
                {shown.map(({ index, name }, order) => {
                  const cell = row.cells[index]!
                  const text = textOf(cell, wide)
                  return (
                    <td key={name} class={`${numeric.has(index) ? 'right' : order > 0 ? 'not-phone' : ''} ${/^(0|-|)$/.test(text) ? 'muted' : ''} ${Array.isArray(cell) && cell[1] ? `style-${cell[1].replace(/\W+/g, '-')}` : ''}`}>
                      {text || '–'}
                      {order === 0 &&
                        stacked
                          .map((column) => textOf(row.cells[column.index]!, wide))
                          .filter((one) => one && one !== '-')
                          .map((one) => (
                            <span class="only-phone stacked" key={one}>
                              {one}
                            </span>
                          ))}
                    </td>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}

const textOf = (cell: Cell, wide: boolean): string => (typeof cell === 'string' ? cell : wide ? cell[0] : (cell[2] ?? cell[0]))
