// A manifest that is only tried: where its pods would go now, and why.
import { useComputed, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { PlanPage } from '../api'
import { reveal } from '../field/field'
import { positionsOf } from '../state/cluster'
import { cluster } from '../state/live'
import { load, refusalOf } from '../state/server'
import { planned } from '../state/view'
import { capital, count, devicesText, sentence } from '../text'
import { Head, Key, NodeLink, Printed, Section, SignedOut, Badge, Say } from '../parts/common'
import { GroupDetails } from './group'
import { PodDetails } from './pod'

const EXAMPLE = `apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  parallelism: 3
  completions: 3
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: train
          image: train
          resources:
            limits:
              nvidia.com/gpu: 4
`
const KEY = 'linkwise.plan'
const remembered = (): string => {
  try {
    return sessionStorage.getItem(KEY) ?? EXAMPLE
  } catch {
    return EXAMPLE
  }
}

export function PlanPanel() {
  const text = useSignal(remembered())
  const busy = useSignal(false)
  const result = useSignal<PlanPage | null>(null)
  const failure = useSignal<{ status: number; message: string } | null>(null)
  const editor = useRef<HTMLTextAreaElement>(null)
  const errors = useComputed(() => result.value?.errors ?? [])

  useEffect(() => () => void (planned.value = null), [])

  const run = async (): Promise<void> => {
    if (busy.value) return
    busy.value = true
    failure.value = null
    try {
      const page = await load<PlanPage>('page/plan', { method: 'POST', headers: { 'content-type': 'application/yaml' }, body: text.value })
      result.value = page
      const places = new Map<string, Set<number>>()
      for (const { node, devices } of page.places) {
        const set = places.get(node) ?? new Set<number>()
        const strip = cluster.nodes.get(node)
        for (const position of strip ? positionsOf(strip, devices) : devices) set.add(position)
        places.set(node, set)
      }
      planned.value = places.size ? places : null
      reveal.value = page.places[0]?.node ?? ''
      const first = page.errors[0]
      if (first) jump(first.line, first.column)
    } catch (error) {
      const { status, message } = refusalOf(error)
      failure.value = { status, message }
    } finally {
      busy.value = false
    }
  }

  const jump = (line: number, column: number): void => {
    const area = editor.current
    if (!area || line < 1) return
    const lines = text.value.split('\n')
    const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + Math.max(0, column - 1)
    area.focus()
    area.setSelectionRange(start, start)
    area.scrollTop = Math.max(0, (line - 4) * 20)
  }

  const type = (value: string): void => {
    text.value = value
    if (result.value?.errors.length) result.value = null
    try {
      sessionStorage.setItem(KEY, value)
    } catch {
      // the text then lasts as long as the page
    }
  }

  if (failure.value?.status === 401) return <SignedOut />
  const page = result.value
  return (
    <>
      <Head title="Where would it go?" sub="Paste a manifest. Nothing is created or reserved." />
      <Editor area={editor} text={text.value} errors={errors.value} onType={type} onRun={() => void run()} />
      <div class="actions">
        <button class="button primary" type="button" disabled={busy.value || !text.value.trim()} onClick={() => void run()}>
          {busy.value ? 'Planning…' : 'Plan it'}
        </button>
        <span class="muted">
          <kbd>Ctrl</kbd> <kbd>Enter</kbd>
        </span>
        <span class="spring" />
        {text.value !== '' && (
          <button class="button quiet" type="button" onClick={() => { type(''); result.value = null; planned.value = null; editor.current?.focus() }}>
            Clear
          </button>
        )}
      </div>
      <div role="status">
        {failure.value && <p class="banner bad">{sentence(capital(failure.value.message))}</p>}
        {errors.value.length > 0 && (
          <ul class="errors">
            {errors.value.map((error, index) => (
              <li key={index}>
                {error.line > 0 && (
                  <button type="button" class="line-link" onClick={() => jump(error.line, error.column)}>
                    {`line ${error.line}${error.column > 0 ? `, column ${error.column}` : ''}`}
                  </button>
                )}
                <span>{error.line > 0 ? error.sentence : sentence(capital(error.sentence))}</span>
              </li>
            ))}
          </ul>
        )}
        {page && !errors.value.length && (
          <p class="headline">
            <Say text={page.headline} />
          </p>
        )}
      </div>
      {page && !errors.value.length && <Outcome page={page} />}
    </>
  )
}

function Outcome({ page }: { page: PlanPage }) {
  // what is said about a pod alone is also said about its group of one
  const alone = new Set(page.pods.map(({ namespace, name }) => `${namespace}/${name}`))
  const groups = page.groups.filter(({ members }) => members.length !== 1 || !alone.has(members[0]!.pod))
  return (
    <div class="outcome">
      {page.places.length > 0 && (
        <Section title={`${count(page.places.length, 'pod')} on the picture`}>
          <div class="table-box">
            <table class="table">
              <thead>
                <tr>
                  <th scope="col">Pod</th>
                  <th scope="col">Node</th>
                  <th scope="col">Devices</th>
                </tr>
              </thead>
              <tbody>
                {page.places.map(({ pod, node, devices }) => (
                  <tr key={pod}>
                    <th scope="row">{pod.slice(pod.indexOf('/') + 1)}</th>
                    <td>
                      <NodeLink name={node} />
                    </td>
                    <td class="mono">{devicesText(devices)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Section>
      )}
      {groups.map((group) => (
        <article class="planned" key={`${group.namespace}/${group.name}`}>
          <h3 class="planned-title">
            group <Key namespace={group.namespace} name={group.name} /> <Verdict group={group} />
          </h3>
          <GroupDetails page={group} plan headline={group.headline !== page.headline} />
        </article>
      ))}
      {page.pods.map((pod) => (
        <article class="planned" key={`${pod.namespace}/${pod.name}`}>
          <h3 class="planned-title">
            <Key namespace={pod.namespace} name={pod.name} />
          </h3>
          <PodDetails page={pod} plan />
        </article>
      ))}
      <Printed lines={page.lines} command="linkwise plan -f FILE" />
    </div>
  )
}

/** Whether the members of a group would start. */
function Verdict({ group }: { group: PlanPage['groups'][number] }) {
  if (group.stage !== 'schedulable') return <Badge text={group.stage === 'unschedulable' ? 'does not fit now' : group.stage} tone="warn" />
  return group.members.some(({ state }) => state === 'left out') ? <Badge text="fits in part" tone="warn" /> : <Badge text="fits now" tone="good" />
}

interface EditorProps {
  area: { current: HTMLTextAreaElement | null }
  text: string
  errors: PlanPage['errors']
  onType: (text: string) => void
  onRun: () => void
}

/** A text area with line numbers; a layer below it, with the same text, carries the marks of errors. */
function Editor({ area, text, errors, onType, onRun }: EditorProps) {
  const gutter = useRef<HTMLPreElement>(null)
  const marks = useRef<HTMLPreElement>(null)
  const lines = text.split('\n')
  const wrong = new Map(errors.filter(({ line }) => line > 0).map((error) => [error.line, error]))
  const follow = (): void => {
    const top = area.current?.scrollTop ?? 0
    if (gutter.current) gutter.current.scrollTop = top
    if (marks.current) {
      marks.current.scrollTop = top
      marks.current.scrollLeft = area.current?.scrollLeft ?? 0
    }
  }
  return (
    <div class="editor">
      <pre class="gutter" ref={gutter} aria-hidden="true">
        {lines.map((_, index) => (
          <span key={index} class={wrong.has(index + 1) ? 'wrong' : ''}>
            {index + 1}
            {'\n'}
          </span>
        ))}
      </pre>
      <div class="sheet-of-text">
        <pre class="marks" ref={marks} aria-hidden="true">
          {lines.map((line, index) => {
            const error = wrong.get(index + 1)
            if (!error) return line + '\n'
            const at = Math.max(0, Math.min(line.length, error.column - 1))
            const end = Math.max(at + 1, at + (/^[\w./:"'-]+/.exec(line.slice(at))?.[0].length ?? 1))
            return (
              <span class="wrong-line" key={index}>
                {line.slice(0, at)}
                <u>{line.slice(at, end) || ' '}</u>
                {line.slice(end) + '\n'}
              </span>
            )
          })}
        </pre>
        <textarea
          ref={area}
          class="text"
          value={text}
          spellcheck={false}
          autocomplete="off"
          wrap="off"
          aria-label="Manifest"
          aria-invalid={errors.length > 0}
          onInput={(event) => onType(event.currentTarget.value)}
          onScroll={follow}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
              event.preventDefault()
              onRun()
            }
          }}
        />
      </div>
    </div>
  )
}
