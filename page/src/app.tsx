// The whole page: header, the cluster on the left, details on the right or, on a phone, in a sheet.
import { useEffect, useRef } from 'preact/hooks'
import { close, Empty } from './parts/common'
import { Header } from './parts/header'
import { beat, cluster, live, loaded } from './state/live'
import { route } from './state/route'
import { asTable, only, printing, sheetOpen } from './state/view'
import { count } from './text'
import { reveal } from './field/field'
import { GroupPanel } from './views/group'
import { NodePanel } from './views/node'
import { PlanPanel } from './views/plan'
import { PodPanel } from './views/pod'
import { Stage } from './views/stage'
import { TablePage } from './views/tables'
import { WaitingPanel } from './views/waiting'

function titleOf(at: typeof route.value): string {
  switch (at.view) {
    case 'node':
      return at.name
    case 'pod':
    case 'group':
      return `${at.namespace}/${at.name}`
    case 'unknown':
      return 'Not found'
    default:
      return at.view.charAt(0).toUpperCase() + at.view.slice(1)
  }
}

/** The first node that an address is about, empty if there is none. */
function firstNodeOf(at: typeof route.value): string {
  if (at.view === 'node') return at.name
  if (at.view === 'pod') return [...(cluster.pods.get(`${at.namespace}/${at.name}`) ?? [])][0] ?? ''
  if (at.view !== 'group') return ''
  const key = `${at.namespace}/${at.name}`
  for (const node of cluster.nodes.values()) if (node.held.some((held) => held.group === key)) return node.name
  return ''
}

export function App() {
  const at = route.value
  const panel = useRef<HTMLElement>(null)
  const title = titleOf(at)

  useEffect(() => {
    document.title = `${title} · Linkwise`
    panel.current?.scrollTo(0, 0)
  }, [title])

  // bring what the address names into view; what is visible already stays where it is
  const here = loaded.value
  useEffect(() => {
    if (here) reveal.value = firstNodeOf(route.peek())
  }, [title, here])

  useEffect(() => {
    const first = route.peek()
    if (first.view !== 'cluster') sheetOpen.value = true
    const escape = (event: KeyboardEvent): void => {
      if (event.key !== 'Escape' || event.defaultPrevented) return
      if (only.value) only.value = null
      else if (/^(TEXTAREA|SELECT)$/.test((event.target as HTMLElement).tagName)) (event.target as HTMLElement).blur()
      else close()
    }
    const before = (): void => {
      printing.value = true
    }
    const after = (): void => {
      printing.value = false
    }
    addEventListener('keydown', escape)
    addEventListener('beforeprint', before)
    addEventListener('afterprint', after)
    return () => {
      removeEventListener('keydown', escape)
      removeEventListener('beforeprint', before)
      removeEventListener('afterprint', after)
    }
  }, [])

  if (at.view === 'usage' || at.view === 'policies' || at.view === 'unknown')
    return (
      <div class="app single">
        <Skip />
        <Header />
        <main class="stage" id="content" tabIndex={-1}>
          <h1 class="hidden">Linkwise: {title}</h1>
          {at.view === 'unknown' ? <Empty title="There is no such page" text={`Nothing is at "${at.path}".`} /> : <TablePage key={at.view} view={at.view} />}
        </main>
      </div>
    )

  // before the first answer there is nothing to show beside what went wrong
  const alone = at.view === 'cluster' && !loaded.value && live.value.state === 'reconnecting'
  return (
    <div class={`app ${alone ? 'single' : ''} ${sheetOpen.value ? 'sheet-open' : ''}`}>
      <Skip />
      <Header />
      <main class="stage" id="content" tabIndex={-1}>
        <h1 class="hidden">Linkwise: {title}</h1>
        <Stage />
      </main>
      {!alone && (
      <aside class="panel" ref={panel} aria-label="Details" tabIndex={0}>
        {at.view === 'cluster' && <WaitingPanel />}
        {at.view === 'node' && <NodePanel key={at.name} name={at.name} />}
        {at.view === 'pod' && <PodPanel key={`${at.namespace}/${at.name}`} namespace={at.namespace} name={at.name} />}
        {at.view === 'group' && <GroupPanel key={`${at.namespace}/${at.name}`} namespace={at.namespace} name={at.name} />}
        {at.view === 'plan' && <PlanPanel />}
      </aside>
      )}
      <Peek />
    </div>
  )
}

const Skip = () => (
  <a
    class="skip"
    href="#content"
    onClick={(event) => {
      event.preventDefault()
      document.getElementById('content')?.focus()
      asTable.value = true
    }}
  >
    Skip to the nodes as a table
  </a>
)

/** On a phone: what opens the sheet. */
function Peek() {
  beat.value
  if (!loaded.value || sheetOpen.value) return null
  const waits = cluster.totals.waitingPods
  const text = route.value.view === 'cluster' ? (waits ? `${count(waits, 'pod')} waiting, and what still fits` : 'What still fits') : route.value.view === 'plan' ? 'Back to the manifest' : `Details of ${titleOf(route.value)}`
  return (
    <button type="button" class="peek" onClick={() => (sheetOpen.value = true)}>
      {text}
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
        <path d="M3 10l5-5 5 5" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" />
      </svg>
    </button>
  )
}
