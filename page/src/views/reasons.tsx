// What speaks against the nodes, and what would let a pod or group start: shared by pods, groups and plans.
import { NodeLink, PodLink, Say, Section } from '../parts/common'
import { count, reasonText } from '../text'

export interface Against {
  code: string
  count: number
  text: string
  temporary: boolean
  nearest: string
  sentence: string
}

/** One bar over all nodes, then one entry per reason. */
export function Reasons({ nodes, fitting, against, whom = 'can take it' }: { nodes: number; fitting: number; against: Against[]; whom?: string }) {
  const total = Math.max(1, nodes)
  const sorted = [...against].sort((a, b) => Number(b.temporary) - Number(a.temporary))
  const kinds = [fitting > 0 && 'fits', sorted.some(({ temporary }) => temporary) && 'soon', sorted.some(({ temporary }) => !temporary) && 'never'].filter(Boolean)
  return (
    <Section title={`${count(nodes, 'node')}, by what speaks against each`}>
      <svg class="bar" viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label={summary(nodes, fitting, sorted)}>
        <Segments parts={[...(fitting > 0 ? [{ count: fitting, kind: 'fits' }] : []), ...sorted.map((one) => ({ count: one.count, kind: one.temporary ? 'soon' : 'never' }))]} total={total} />
      </svg>
      <p class="legend small">
        {kinds.includes('fits') && <Mark kind="fits" text="fits now" />}
        {kinds.includes('soon') && <Mark kind="soon" text="changes when pods finish" />}
        {kinds.includes('never') && <Mark kind="never" text="does not change by itself" />}
      </p>
      <ul class="reasons">
        {fitting > 0 && (
          <li>
            <i class="mark fits" />
            <b>{fitting}</b>
            <div>{whom} now</div>
          </li>
        )}
        {sorted.map((one) => (
          <li key={`${one.code} ${one.text}`}>
            <i class={`mark ${one.temporary ? 'soon' : 'never'}`} />
            <b>{one.count}</b>
            <div>
              {reasonText(one.text)}
              {one.nearest && (
                <p class="nearest">
                  nearest <NodeLink name={one.nearest} />
                  {one.sentence && <>: <Say text={one.sentence} plain /></>}
                </p>
              )}
            </div>
          </li>
        ))}
      </ul>
    </Section>
  )
}

function Segments({ parts, total }: { parts: { count: number; kind: string }[]; total: number }) {
  let from = 0
  return (
    <>
      {parts.map((part, index) => {
        const x = (1000 * from) / total
        from += part.count
        const width = Math.max(3, (1000 * part.count) / total - (index < parts.length - 1 ? 4 : 0))
        return <rect key={index} x={x} y="0" width={width} height="14" class={part.kind} />
      })}
    </>
  )
}

const Mark = ({ kind, text }: { kind: string; text: string }) => (
  <span>
    <i class={`mark ${kind}`} />
    {text}
  </span>
)

const summary = (nodes: number, fitting: number, against: Against[]): string =>
  [`${count(nodes, 'node')}`, ...(fitting ? [`${fitting} fit now`] : []), ...against.map((one) => `${one.count} ${reasonText(one.text)}`)].join('; ')

export function Pods({ pods, limit = 8 }: { pods: { pod: string; text: string }[]; limit?: number }) {
  return (
    <p class="pods">
      {pods.slice(0, limit).map(({ pod, text }, index) => (
        <span key={pod + index}>
          {pod ? <PodLink pod={pod} /> : 'a pod of another namespace'} <span class="muted">{text}</span>
          {index < Math.min(pods.length, limit) - 1 ? ', ' : ''}
        </span>
      ))}
      {pods.length > limit && <span class="muted"> and {pods.length - limit} more</span>}
    </p>
  )
}

/** "When these 2 pods finish" beside the node, if the card shows all that the sentence says. */
function short(title: string, nodes: string[], pods: { pod: string }[]): string | null {
  if (!nodes.length || !pods.length || !/finish(es)?\.?$/.test(title)) return null
  return pods.length === 1 ? 'When this pod finishes' : `When these ${pods.length} pods finish`
}

interface Remedy {
  title: string
  nodes: string[]
  pods: { pod: string; text: string }[]
}

export function Remedies({ remedies, unresolved }: { remedies: Remedy[]; unresolved: string }) {
  if (!remedies.length && !unresolved) return null
  return (
    <Section title="What would let it start">
      {remedies.map(({ title, nodes, pods }, index) => {
        const brief = short(title, nodes, pods)
        // The complete sentence names the nodes itself, as links.
        const named = new Set(title.split(/[\s,:;]+/))
        const others = brief ? nodes : nodes.filter((node) => !named.has(node))
        return (
          <div class="card-box" key={index}>
            <div class="card-line">
              <b>{brief ?? <Say text={title} />}</b>
              <span class="card-nodes">
                {others.slice(0, 3).map((node) => (
                  <NodeLink name={node} key={node} />
                ))}
                {others.length > 3 && <span class="muted">and {others.length - 3} more</span>}
              </span>
            </div>
            {pods.length > 0 && brief && <Pods pods={pods} />}
          </div>
        )
      })}
      {unresolved && (
        <p class="unresolved">
          <Say text={unresolved} />
        </p>
      )}
    </Section>
  )
}
