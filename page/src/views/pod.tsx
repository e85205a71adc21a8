// Details of a pod: why it has its devices, or what it waits for.
import type { Links, NodePage, PodPage } from '../api'
import { beat, cluster } from '../state/live'
import { useResource } from '../state/resource'
import { capital, sentence } from '../text'
import { Machine } from '../machine/machine'
import { GroupLink, Head, Key, NodeLink, Notes, PodLink, Printed, Remarks, Say, Section, Shown } from '../parts/common'
import { Pods, Reasons, Remedies } from './reasons'
import { useSlowStamp } from './stamp'

export function PodPanel({ namespace, name }: { namespace: string; name: string }) {
  beat.value
  const key = `${namespace}/${name}`
  const on = cluster.stampOfPod(key)
  const slow = useSlowStamp()
  const resource = useResource<PodPage>(`page/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, on || `waiting ${slow}`)
  return (
    <Shown resource={resource} what={`Pod ${key}`}>
      {(page) => (
        <>
          <Head title={<Key namespace={page.namespace} name={page.name} />} badge={badgeOf(page)} sub={<Sub page={page} />} />
          <PodDetails page={page} />
        </>
      )}
    </Shown>
  )
}

/** States in which a pod waits for devices, in one word. */
const WAITS = new Set(['grouped', 'unschedulable', 'schedulable'])

export const badgeOf = ({ state }: { state: string }): string => (WAITS.has(state) ? 'waiting' : state)

function Sub({ page }: { page: PodPage }) {
  return (
    <>
      {page.request && <>requests {page.request}</>}
      {page.policy && <> · policy {page.policy}</>}
      {page.code && page.code !== 'Placed' && (
        <>
          {' '}
          · reason <code>{page.code}</code>
        </>
      )}
      {page.group && (
        <>
          {' '}
          · group <GroupLink group={page.group} />
        </>
      )}
    </>
  )
}

export function PodDetails({ page, plan = false }: { page: PodPage; plan?: boolean }) {
  const { placed, waiting } = page
  return (
    <>
      {(!plan || (!placed && !waiting)) && (
        <p class="headline">
          {plan ? sentence(capital(page.headline)) : <Say text={page.headline} />}
        </p>
      )}
      <Remarks remarks={page.remarks} />
      <Notes notes={page.notes} />
      {placed && <Placed placed={placed} would={page.state === 'schedulable'} />}
      {waiting && (
        <>
          <Reasons nodes={waiting.nodes} fitting={waiting.fitting} against={waiting.against} />
          <Remedies remedies={waiting.remedies.map(({ title, node, pods }) => ({ title, nodes: node ? [node] : [], pods }))} unresolved={waiting.unresolved} />
          {waiting.victims && (
            <Section title="Preemption">
              <div class="card-box">
                <p>
                  <Say text={waiting.victims.sentence} />
                </p>
                <Pods pods={waiting.victims.pods} />
              </div>
            </Section>
          )}
          {waiting.holders.length > 0 && (
            <Section title="Who holds the devices">
              <ul class="holders">
                {waiting.holders.map((holder, index) => (
                  <li key={index}>
                    <span>{holder.pod ? <PodLink pod={holder.pod} /> : <span class="muted">a pod of another namespace</span>}</span>
                    <NodeLink name={holder.node} />
                    <span class="muted">{holder.text}</span>
                  </li>
                ))}
              </ul>
            </Section>
          )}
        </>
      )}
      {!plan && <Printed lines={page.lines} command={`linkwise explain pod/${page.name} -n ${page.namespace}`} />}
    </>
  )
}

/** Reasons without what the title, the runner-up and the next node say already. */
const reasonsOf = (placed: NonNullable<PodPage['placed']>): string[] =>
  placed.reasons.filter((reason) => !/^(it requests|runner-up) /.test(reason) && reason !== placed.nextNode?.sentence)

/** With `would`, the pod is not there: it would go there now. */
function Placed({ placed, would }: { placed: NonNullable<PodPage['placed']>; would: boolean }) {
  beat.value
  const node = useResource<NodePage>(`page/nodes/${encodeURIComponent(placed.node)}`, cluster.stampOf(placed.node))
  const strip = cluster.nodes.get(placed.node)
  const links: Links | null = node.data?.links ?? null
  return (
    <>
      {strip && links && <Machine links={links} node={strip} chosen={placed.devices} {...(placed.runnerUp ? { runnerUp: placed.runnerUp.devices } : {})} />}
      <Section title={would ? 'Where it would go now' : 'Why these devices'}>
        <div class="card-box">
          <div class="card-line">
            <b>
              {would ? 'Would get' : 'Chosen'} {`{${placed.devices.join(', ')}}`}
            </b>
            {placed.slowest && <span class="muted">slowest link {placed.slowest}</span>}
          </div>
          {reasonsOf(placed).map((reason) => (
            <p key={reason}>
              <Say text={reason} />
            </p>
          ))}
          {placed.certainty && (
            <p>
              <Say text={placed.certainty} />
            </p>
          )}
        </div>
        {placed.runnerUp && (
          <div class="card-box">
            <b>Runner-up {`{${placed.runnerUp.devices.join(', ')}}`}</b>
            <p>
              <Say text={placed.runnerUp.sentence} />
            </p>
          </div>
        )}
        {placed.nextNode && (
          <div class="card-box">
            <b>Next best node</b>
            <p>
              <Say text={placed.nextNode.sentence} />
            </p>
          </div>
        )}
      </Section>
    </>
  )
}
