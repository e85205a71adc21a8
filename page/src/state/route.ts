// Addresses of the page, below the place where the service serves it.
import { signal } from '@preact/signals'
import { PAGE } from './server'

export type Route =
  | { view: 'cluster' | 'plan' | 'usage' | 'policies' }
  | { view: 'node'; name: string }
  | { view: 'pod' | 'group'; namespace: string; name: string }
  | { view: 'unknown'; path: string }

export function parse(path: string): Route {
  const parts = path.split('/').filter(Boolean).map(decode)
  const [kind, first, second] = parts
  if (!kind) return { view: 'cluster' }
  if (parts.length === 1 && (kind === 'plan' || kind === 'usage' || kind === 'policies')) return { view: kind }
  if (parts.length === 2 && kind === 'nodes' && first) return { view: 'node', name: first }
  if (parts.length === 3 && (kind === 'pods' || kind === 'groups') && first && second)
    return { view: kind === 'pods' ? 'pod' : 'group', namespace: first, name: second }
  return { view: 'unknown', path }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export const nodePath = (name: string): string => `nodes/${encodeURIComponent(name)}`
export const podPath = (key: string): string => `pods/${key.split('/').map(encodeURIComponent).join('/')}`
export const groupPath = (key: string): string => `groups/${key.split('/').map(encodeURIComponent).join('/')}`

/** The absolute address of a path of the page; an empty path is the cluster. */
export const href = (path: string): string => new URL(path || './', PAGE).pathname

const current = (): Route => {
  const { pathname } = location
  return parse(pathname.startsWith(PAGE.pathname) ? pathname.slice(PAGE.pathname.length) : '')
}

export const route = signal<Route>(current())

export function go(path: string): void {
  const address = href(path)
  if (address !== location.pathname) history.pushState(null, '', address)
  route.value = current()
}

addEventListener('popstate', () => {
  route.value = current()
})
