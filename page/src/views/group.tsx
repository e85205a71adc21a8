// Details of a group: its members, its plan, and what is missing.
import type { GroupPage } from '../api'
import { beat } from '../state/live'
import { podPath } from '../state/route'
import { useResource } from '../state/resource'
import { nameOf } from '../state/cluster'
import { capital, count, devicesText, secondsText } from '../text'
import { Head, Key, Link, NodeLink, Notes, Printed, Say, Section, Shown } from '../parts/common'
import { Reasons, Remedies, type Against } from './reasons'
import { useSlowStamp } from './stamp'

export function GroupPanel({ namespace, name }: { namespace: string; name: string }) {
  beat.value
  const resource = useResource<GroupPage>(`page/groups/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, useSlowStamp())
  return (
    <Shown resource={resource} what={`Group ${namespace}/${name}`}>
      {(page) => (
        <>
          <Head kind="group" title={<Key namespace={page.namespace} name={page.name} />} badge={page.stage} sub={<Sub page={page} />} />
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
      {page.code && (
        <>
          {' '}
          · <code>{page.code}</code>
        </>
      )}
    </>
  )
}

const MEMBERS = 24

/** With `plan` the group does not exist: its members have no pages. */
export function GroupDetails({ page, headline = true, plan = false }: { page: GroupPage; headline?: boolean; plan?: boolean }) {
  const against = page.against as unknown as Against[]
  // the nodes that could take a member are counted in a line of their own
  const able = /^(\d+) of \d+ nodes can take a member/.exec(page.lines.find((line) => line.includes('can take a member')) ?? '')
  const fitting = Number(able?.[1] ?? 0)
  const nodes = against.reduce((sum, one) => sum + one.count, fitting)
  return (
    <>
      {headline && (
        <p class="headline">
          <Say text={page.headline} />
        </p>
      )}
      <Notes notes={page.notes} />
      <Facts page={page} />
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
      {page.hosts.length > 0 && (
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
                    Slowest
                  </th>
                </tr>
              </thead>
              <tbody>
                {page.hosts.map((host, index) => (
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
        </Section>
      )}
      {against.length > 0 && <Reasons nodes={nodes} fitting={fitting} against={against} whom="can take a member" />}
      <Remedies remedies={page.remedies} />
      {!plan && <Printed lines={page.lines} command={`linkwise explain group/${page.name} -n ${page.namespace}`} />}
    </>
  )
}

function Facts({ page }: { page: GroupPage }) {
  const facts: [string, string][] = []
  if (page.heldSeconds > 0) facts.push(['Plan expires in', secondsText(page.heldSeconds)])
  if (page.slowest && !page.levels.length) facts.push(['Slowest link', page.slowest])
  // the aims of a plan, the most important one first
  for (const { name, value, proven } of page.levels) facts.push([capital(name), `${value}${proven ? '' : ' (there may be better ones)'}`])
  if (!facts.length) return null
  return (
    <dl class="facts">
      {facts.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
