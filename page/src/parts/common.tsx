// Small parts that several views use.
import type { ComponentChildren } from 'preact'
import { go, groupPath, href, nodePath, podPath } from '../state/route'
import { sheetOpen } from '../state/view'
import { reveal } from '../field/field'
import type { Resource } from '../state/resource'
import { cluster, live } from '../state/live'
import { capital, clock, holderText, sentence } from '../text'
import type { Held } from '../api'

/** A link inside the page: an ordinary address for everything but a plain click. */
export function Link({ to, children, class: name, onGo, label }: { to: string; children: ComponentChildren; class?: string; onGo?: () => void; label?: string }) {
  return (
    <a
      href={href(to)}
      class={name}
      aria-label={label}
      onClick={(event) => {
        if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
        event.preventDefault()
        go(to)
        onGo?.()
      }}
    >
      {children}
    </a>
  )
}

export function NodeLink({ name, class: extra = '' }: { name: string; class?: string }) {
  return (
    <Link
      to={nodePath(name)}
      class={`mono node-link ${extra}`}
      onGo={() => {
        reveal.value = name
        sheetOpen.value = true
      }}
    >
      {name}
    </Link>
  )
}

export function PodLink({ pod, short = false }: { pod: string; short?: boolean }) {
  const [namespace, name] = pod.split('/')
  return (
    <Link to={podPath(pod)} class="pod-link" onGo={() => (sheetOpen.value = true)}>
      {!short && <span class="namespace">{namespace}/</span>}
      {name}
    </Link>
  )
}

export function GroupLink({ group }: { group: string }) {
  return (
    <Link to={groupPath(group)} class="pod-link" onGo={() => (sheetOpen.value = true)}>
      {group}
    </Link>
  )
}

export const HolderLink = ({ held }: { held: Held }) => (held.pod ? <PodLink pod={held.pod} /> : held.group ? <GroupLink group={held.group} /> : <span class="muted">{holderText(held)}</span>)

/** A sentence of the service, with links for the nodes, pods and groups that it names. */
export function Say({ text, plain = false }: { text: string; plain?: boolean }) {
  const parts = (plain ? text : sentence(text)).split(/(\b(?:node|pod|group) [\w./-]*\w)/i)
  return (
    <>
      {parts.map((part, index) => {
        if (index % 2 === 0) return <Nodes text={part} key={index} />
        const [kind, name] = part.split(' ') as [string, string]
        if (location.pathname.endsWith(`/${name}`)) return part
        if (/^node$/i.test(kind) && cluster.nodes.has(name)) return <span key={index}>{kind} <NodeLink name={name} /></span>
        if (!/^node$/i.test(kind) && /^[^/]+\/[^/]+$/.test(name)) return <span key={index}>{kind} {/^pod$/i.test(kind) ? <PodLink pod={name} /> : <GroupLink group={name} />}</span>
        return part
      })}
    </>
  )
}

/** A text with links for the names of nodes that the page knows, which do not break at their hyphens. */
function Nodes({ text }: { text: string }) {
  const parts = text.split(/([a-z0-9][a-z0-9.-]*[a-z0-9])/)
  const here = decodeURIComponent(location.pathname.slice(location.pathname.lastIndexOf('/') + 1))
  return <>{parts.map((part, index) => (index % 2 && part !== here && /[\d.-]/.test(part) && cluster.nodes.has(part) ? <NodeLink name={part} key={index} /> : part))}</>
}

/** namespace/name as a heading, the namespace quieter. */
export const Key = ({ namespace, name }: { namespace: string; name: string }) => (
  <>
    <span class="namespace">{namespace}/</span>
    {name}
  </>
)

export function Section({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="section">
      <h3>{title}</h3>
      {children}
    </section>
  )
}

const TONES: Record<string, string> = {
  running: 'good', placed: 'good', bound: 'good', idle: 'good', binding: 'good', schedulable: 'good',
  waiting: 'warn', pending: 'warn', planned: 'warn', planning: 'warn', reserved: 'warn', unschedulable: 'warn', gated: 'warn', terminating: 'warn',
  scheduling: 'warn', claimed: 'warn', booked: 'warn',
  failed: 'bad', error: 'bad', invalid: 'bad', not: 'bad',
}

export function Badge({ text, tone }: { text: string; tone?: string }) {
  if (!text) return null
  return <span class={`badge ${tone ?? TONES[text.split(/[ :]/)[0]!.toLowerCase()] ?? ''}`}>{capital(text)}</span>
}

/** All that the command line prints about the same thing. */
export function Printed({ lines, command }: { lines: string[]; command: string }) {
  if (!lines.length) return null
  return (
    <details class="printed">
      <summary>
        As <code>{command}</code> prints it
      </summary>
      {/* wide lines scroll, and a scrolled region must be reachable by the keyboard */}
      <pre tabIndex={0} aria-label={`Output of ${command}`}>
        {lines.join('\n')}
      </pre>
    </details>
  )
}

export const Notes = ({ notes }: { notes: string[] }) => (notes.length ? <ul class="notes">{notes.map((note) => <li key={note}><Say text={note} /></li>)}</ul> : null)

/** Sentences about a state, below its headline. */
export const Remarks = ({ remarks }: { remarks: string[] }) => (remarks.length ? <ul class="plain remarks">{remarks.map((remark) => <li key={remark}><Say text={remark} /></li>)}</ul> : null)

/** Loading, failed or gone: what stands in place of, or above, a document. */
export function Shown<T>({ resource, what, children }: { resource: Resource<T>; what: string; children: (data: T) => ComponentChildren }) {
  const { data, error, gone } = resource
  if (data)
    return (
      <>
        {gone && (
          <p class="banner warn" role="status">
            {what} is gone since {clock(gone)}. This is its last known state.
          </p>
        )}
        {error && !gone && (
          <p class="banner warn" role="status">
            {sentence(capital(error.message))} The page tries again.
          </p>
        )}
        <div class={gone ? 'past' : undefined}>{children(data)}</div>
      </>
    )
  if (!error) return <Skeleton />
  if (error.status === 404) return <Empty title={`${what} does not exist`} text="It may have finished or been deleted, or its name is misspelled." />
  if (error.status === 401) return <SignedOut />
  if (error.status === 403) return <Empty title="Not permitted" text={sentence(capital(error.message))} />
  return <Empty title="Not available right now" text={`${sentence(capital(error.message))} The page tries again.`} />
}

export function Skeleton() {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      <i class="w60" />
      <i class="w90" />
      <i class="block" />
      <i class="w80" />
      <i class="w40" />
    </div>
  )
}

export function Empty({ title, text, children }: { title: string; text: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      <p>{text}</p>
      {children === undefined ? (
        <Link to="" class="button">
          Show the cluster
        </Link>
      ) : (
        children
      )}
    </div>
  )
}

export function SignedOut() {
  // on `linkwise up` the page itself needs no token, but the tables of the command line do
  if (live.value.state === 'live')
    return (
      <div class="empty">
        <h2>This view needs a token</h2>
        <p>
          Run <code>linkwise page</code>: it opens this page with the token of your kubeconfig.
        </p>
      </div>
    )
  return (
    <div class="empty">
      <h2>The session has expired</h2>
      <p>
        Run <code>linkwise page</code> again: it opens this page with a new token.
      </p>
      <button class="button" type="button" onClick={() => location.reload()}>
        Reload
      </button>
    </div>
  )
}

/** On a phone the sheet goes, and the selection stays in the field below it; elsewhere the details give way to the cluster. */
export function close(): void {
  const phone = matchMedia('(max-width: 760px)').matches
  if (!phone || !sheetOpen.value) go('')
  sheetOpen.value = false
}

/** Title of the details with what closes them. */
export function Head({ title, badge, tone, sub, kind }: { title: ComponentChildren; badge?: string; tone?: string; sub?: ComponentChildren; kind?: string }) {
  return (
    <header class="head">
      <div class="head-line">
        <h2 class="mono-title">
          {kind && <span class="namespace">{kind} </span>}
          {title}
        </h2>
        {badge && <Badge text={badge} {...(tone ? { tone } : {})} />}
        <button type="button" class="close" aria-label="Close the details" onClick={close}>
          <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
            <path d="M3 3l10 10M13 3L3 13" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" />
          </svg>
        </button>
      </div>
      {sub && <p class="sub">{sub}</p>}
    </header>
  )
}
