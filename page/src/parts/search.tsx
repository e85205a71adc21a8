// Search in the header: a combobox over nodes, pods and groups; the field fades what does not match.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { find, type Found } from '../search'
import { cluster } from '../state/live'
import { go, groupPath, nodePath, podPath } from '../state/route'
import { searched, sheetOpen } from '../state/view'

const pathOf = ({ kind, key }: Found): string => (kind === 'node' ? nodePath(key) : kind === 'pod' ? podPath(key) : groupPath(key))

function* waitingKeys(kind: 'pod' | 'group'): Iterable<string> {
  const held = kind === 'pod' ? cluster.pods : cluster.groups
  yield* held.keys()
  for (const one of cluster.waiting) {
    const key = `${one.namespace}/${one.name}`
    if (one.kind === kind && !held.has(key)) yield key
  }
}

function about({ kind, key }: Found): string {
  if (kind === 'node') return cluster.nodes.get(key)?.model ?? ''
  if (kind === 'group') return 'group'
  const nodes = [...(cluster.pods.get(key) ?? [])]
  return nodes.length ? (nodes.length === 1 ? `on ${nodes[0]}` : `on ${nodes.length} nodes`) : 'waiting'
}

export function Search() {
  const input = useRef<HTMLInputElement>(null)
  const text = useSignal('')
  const open = useSignal(false)
  const at = useSignal(0)
  const found = open.value && text.value.trim() ? find(text.value, [['node', cluster.nodes.keys()], ['pod', waitingKeys('pod')], ['group', waitingKeys('group')]]) : []

  useEffect(() => {
    const slash = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement
      if (event.key !== '/' || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return
      event.preventDefault()
      input.current?.focus()
      input.current?.select()
    }
    addEventListener('keydown', slash)
    return () => removeEventListener('keydown', slash)
  }, [])

  const close = (): void => {
    open.value = false
    searched.value = ''
  }
  const choose = (one: Found | undefined): void => {
    if (!one) return
    text.value = ''
    close()
    input.current?.blur()
    sheetOpen.value = true
    go(pathOf(one))
  }
  const type = (value: string): void => {
    text.value = value
    open.value = true
    at.value = 0
    searched.value = value.trim()
  }

  return (
    <div class="search">
      <svg viewBox="0 0 16 16" width="15" height="15" aria-hidden="true" class="glass">
        <circle cx="7" cy="7" r="4.6" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="M10.5 10.5L14 14" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" />
      </svg>
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label="Find nodes, pods or groups"
        aria-expanded={found.length > 0}
        aria-controls="found"
        aria-autocomplete="list"
        aria-activedescendant={found.length ? `found-${at.value}` : undefined}
        placeholder="Find nodes, pods or groups"
        autocomplete="off"
        spellcheck={false}
        value={text.value}
        onInput={(event) => type(event.currentTarget.value)}
        onFocus={() => type(text.value)}
        onBlur={close}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
            event.preventDefault()
            const size = found.length || 1
            at.value = (at.value + (event.key === 'ArrowDown' ? 1 : size - 1)) % size
          } else if (event.key === 'Enter') choose(found[at.value])
          else if (event.key === 'Escape') {
            event.stopPropagation()
            text.value = ''
            close()
            input.current?.blur()
          }
        }}
      />
      <kbd aria-hidden="true">/</kbd>
      {open.value && text.value.trim() && (
        <div class="found">
          <ul id="found" role="listbox" aria-label="Matches">
            {found.map((one, index) => (
              <li
                key={`${one.kind} ${one.key}`}
                id={`found-${index}`}
                role="option"
                aria-selected={index === at.value}
                onPointerMove={() => (at.value = index)}
                onPointerDown={(event) => {
                  event.preventDefault()
                  choose(one)
                }}
              >
                <span class="kind">{one.kind}</span>
                <span class={one.kind === 'node' ? 'mono name' : 'name'}>{one.key}</span>
                <span class="muted">{about(one)}</span>
              </li>
            ))}
          </ul>
          {found.length === 0 && <p class="muted none-found">No node, pod or group matches.</p>}
        </div>
      )}
    </div>
  )
}
