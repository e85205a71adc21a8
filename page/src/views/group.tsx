// Details of a group: its members, its plan, the links that it got, and what is missing.
import type { GroupPage, NodePage } from '../api'
import { Machine } from '../machine/machine'
import { beat, cluster } from '../state/live'
import { podPath } from '../state/route'
import { useResource } from '../state/resource'
import { nameOf } from '../state/cluster'
import { capital, count, devicesText, secondsText } from '../text'
import { Head, Key, Link, NodeLink, Notes, Printed, Remarks, Say, Section, Shown } from '../parts/common'
import { badgeOf } from './pod'
import { Reasons, Remedies } from './reasons'
import { useSlowStamp, useTick } from './stamp'

export function GroupPanel({ namespace, name }: { namespace: string; name: string }) {
  beat.value
  const resource = useResource<GroupPage>(`page/groups/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, useSlowStamp())
  return (
    <Shown resource={resource} what={`Group ${namespace}/${name}`}>
      {(page) => (
        <>
          <Head kind="group" title={<Key namespace={page.namespace} name={page.name} />} badge={badgeOf({ state: page.stage })} sub={<Sub page={page} />} />
          <GroupDetails page={page} />
        </>
      )}
    </Shown>
  )
}

function Sub({ page }: { page: GroupPage }) {
  return (
    <>
      {count(page.members.length, 'member')}
      {page.source && <> · {page.source}</>}
      {page.code && page.code !== 'Placed' && (
        <>
          {' '}
          · reason <code>{page.code}</code>
        </>
      )}
    </>
  )
}

const MEMBERS = 24
const HOSTS = 12

/** With `plan` the group does not exist: its members have no pages. */
export function GroupDetails({ page, headline = true, plan = false }: { page: GroupPage; headline?: boolean; plan?: boolean }) {
  const nodes = page.against.reduce((sum, one) => sum + one.count, page.fitting)
  return (
    <>
      {headline && (
        <p class="headline">
          <Say text={page.headline} />
        </p>
      )}
      <Remarks remarks={page.remarks} />
      <Notes notes={page.notes} />
      {page.lacks.length > 0 && (
        <Section title="What is missing">
          <ul class="plain">
            {page.lacks.map((lack) => (
              <li key={lack}>
                <Say text={lack} />
              </li>
            ))}
          </ul>
        </Section>
      )}
      <Facts page={page} />
      <Section title="Members">
        <ul class="members">
          {page.members.slice(0, MEMBERS).map((member) => (
            <li key={member.pod}>
              {plan ? (
                <span class={`chip ${member.node ? 'on' : ''}`}>{nameOf(member.pod)}</span>
              ) : (
                <Link to={podPath(member.pod)} class={`chip ${member.node ? 'on' : ''}`} label={`${member.pod}, ${member.state}${member.node ? ` on ${member.node}` : ''}`}>
                  {nameOf(member.pod)}
                </Link>
              )}
            </li>
          ))}
          {page.members.length > MEMBERS && <li class="muted">and {page.members.length - MEMBERS} more</li>}
          {page.missing > 0 && <li class="chip missing">{page.missing} not created yet</li>}
        </ul>
      </Section>
      {page.hosts.length > 0 && <Hosts hosts={page.hosts} slowest={page.levels.length ? '' : page.slowest} />}
      {page.against.length > 0 && <Reasons nodes={nodes} fitting={page.fitting} against={page.against} whom="can take a member" />}
      <Remedies remedies={page.remedies} unresolved={page.unresolved} />
      {!plan && <Printed lines={page.lines} command={`linkwise explain group/${page.name} -n ${page.namespace}`} />}
    </>
  )
}

function Hosts({ hosts, slowest }: { hosts: GroupPage['hosts']; slowest: string }) {
  return (
    <>
      <Section title="Links that it uses">
        {slowest && (
          <p>
            Slowest link <b>{slowest}</b>
          </p>
        )}
        {alike(hosts)
          .slice(0, MACHINES)
          .map((group) => (
            <Used hosts={group} key={group[0]!.node} />
          ))}
      </Section>
      <Section title="Nodes">
        <div class="table-box">
          <table class="table">
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col" class="right">
                  Members
                </th>
                <th scope="col">Devices</th>
                <th scope="col" class="right">
                  Slowest link
                </th>
              </tr>
            </thead>
            <tbody>
              {hosts.slice(0, HOSTS).map((host, index) => (
                <tr key={`${host.node} ${index}`}>
                  <th scope="row">
                    <NodeLink name={host.node} />
                  </th>
                  <td class="right">{host.members}</td>
                  <td class="mono">{devicesText(host.devices)}</td>
                  <td class="right nowrap">{host.slowest === null ? <span class="muted">–</span> : `${host.slowest} GB/s`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {hosts.length > HOSTS && <p class="muted small">and {count(hosts.length - HOSTS, 'more node')}</p>}
      </Section>
    </>
  )
}

const MACHINES = 3

/** Nodes of one model on which the same devices are used: one drawing shows them all. */
function alike(hosts: GroupPage['hosts']): GroupPage['hosts'][] {
  const groups = new Map<string, GroupPage['hosts']>()
  for (const host of hosts) {
    const key = `${cluster.nodes.get(host.node)?.model} ${host.devices.join()} ${host.slowest}`
    const same = groups.get(key)
    if (same) same.push(host)
    else groups.set(key, [host])
  }
  return [...groups.values()].sort((a, b) => b.length - a.length)
}

function Used({ hosts }: { hosts: GroupPage['hosts'] }) {
  const [first] = hosts
  const { node: name, devices } = first!
  const node = useResource<NodePage>(`page/nodes/${encodeURIComponent(name)}`, 0)
  const strip = cluster.nodes.get(name)
  const links = node.data?.links
  if (node.data && !links)
    return (
      <p class="muted">
        <NodeLink name={name} /> publishes no link data.
      </p>
    )
  return (
    <div class="used">
      <p class="muted small">
        Devices {devicesText(devices)} of <NodeLink name={name} />
        {hosts.length > 1 && `, and the same of ${count(hosts.length - 1, 'other node')}`}
      </p>
      {strip && links ? <Machine links={links} node={strip} chosen={devices} /> : <div class="machine-space" />}
    </div>
  )
}

function Facts({ page }: { page: GroupPage }) {
  if (!page.levels.length && page.heldSeconds <= 0) return null
  return (
    <Section title="Plan">
      <dl class="facts">
        {page.heldSeconds > 0 && <Expiry key={`${page.heldSeconds}`} seconds={page.heldSeconds} />}
        {/* the aims of a plan, the most important one first */}
        {page.levels.map(({ name, value }) => (
          <div key={name}>
            <dt>{capital(name)}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Section>
  )
}

/** How long the plan still reserves devices; it counts down until the service says more. */
function Expiry({ seconds }: { seconds: number }) {
  const left = Math.max(0, seconds - useTick(1))
  return (
    <div>
      <dt>Expires in</dt>
      <dd>{secondsText(left)}</dd>
    </div>
  )
}
