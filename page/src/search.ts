// Search of nodes, pods and groups: exact names first, then beginnings, then beginnings of words, then the rest.

import { natural } from './text'

export interface Found {
  kind: 'node' | 'pod' | 'group'
  key: string
}

/** Lower is better; Infinity if the text does not occur. */
export function rank(key: string, text: string): number {
  const at = key.indexOf(text)
  if (at < 0) return Infinity
  const name = key.slice(key.indexOf('/') + 1)
  if (name === text || key === text) return 0
  if (name.startsWith(text)) return 1
  if (key.startsWith(text)) return 2
  return /[-./_]/.test(key[at - 1] ?? '') ? 3 : 4
}

/** The best matches of each kind in one list; equal ones by kind, then by name. */
export function find(text: string, sources: Iterable<readonly [Found['kind'], Iterable<string>]>, limit = 12): Found[] {
  const wanted = text.trim().toLowerCase()
  if (!wanted) return []
  const buckets: Found[][] = [[], [], [], [], []]
  for (const [kind, keys] of sources) {
    for (const key of keys) {
      // names of Kubernetes are lower case
      const value = rank(key, wanted)
      if (value !== Infinity) buckets[value]!.push({ kind, key })
    }
  }
  const found: Found[] = []
  for (const bucket of buckets) {
    if (found.length >= limit) break
    // thousands of equal matches are in no order: the next letter makes them fewer
    if (bucket.length > 3000) found.push(...bucket.slice(0, limit))
    else found.push(...bucket.sort((a, b) => natural(a.key, b.key)))
  }
  return found.slice(0, limit)
}
