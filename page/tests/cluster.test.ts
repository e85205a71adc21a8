import { describe, expect, test } from 'vitest'
import { change, cluster, nodes, random } from '../fixtures/cluster'
import { ClusterState, stripOf } from '../src/state/cluster'
import type { NodeStrip } from '../src/api'
import { fastest } from './fastest'

const node = (held: NodeStrip['held'], marks = '........', name = 'n'): NodeStrip => ({ name, model: 'm', rack: '', marks, held, mode: 'whole', note: '' })

describe('the state of the cluster', () => {
  test('changes one by one give what a whole cluster gives', () => {
    const world = cluster(60)
    const state = new ClusterState()
    state.replace(structuredClone(world))
    const next = random(3)
    for (let version = 2; version < 500; version += 1) state.apply(change(world.nodes, next, version))
    const fresh = new ClusterState()
    fresh.replace(world)
    expect([...state.nodes].sort()).toEqual([...fresh.nodes].sort())
    expect([...state.pods].map(([pod, on]) => [pod, [...on].sort()]).sort()).toEqual([...fresh.pods].map(([pod, on]) => [pod, [...on].sort()]).sort())
    expect([...state.namespaces].sort()).toEqual([...fresh.namespaces].sort())
    expect([...state.groups].sort()).toEqual([...fresh.groups].sort())
  })

  test('a node that is gone takes its pods with it', () => {
    const state = new ClusterState()
    state.replace({ ...cluster(10), nodes: [node([{ pod: 'a/p', group: '', state: 'bound', devices: [0] }])] })
    const { shape } = state
    state.apply({ version: '2', at: '', gone: ['n'] })
    expect(state.pods.size).toBe(0)
    expect(state.namespaces.size).toBe(0)
    expect(state.shape).toBeGreaterThan(shape)
  })

  test('a pod that moves only changes the stamps of its nodes', () => {
    const state = new ClusterState()
    const [first, second] = [node([], '....', 'a'), node([], '....', 'b')]
    state.replace({ ...cluster(10), nodes: [first, second] })
    const before = state.stampOf('b')
    const shape = state.shape
    state.apply({ version: '2', at: '', nodes: [{ ...first, held: [{ pod: 'x/p', group: '', state: 'bound', devices: [1] }] }] })
    expect(state.stampOf('b')).toBe(before)
    expect(state.stampOf('a')).not.toBe(before)
    expect(state.shape).toBe(shape)
  })

  test('five thousand nodes are indexed in about the time in which they are read', () => {
    const world = { ...cluster(10), nodes: nodes(5000, 1, 6) }
    const state = new ClusterState()
    const text = JSON.stringify(world)
    expect(fastest(() => state.replace(world))).toBeLessThan(10 * fastest(() => JSON.parse(text)))
    expect(state.nodes.size).toBe(world.nodes.length)
  })
})

describe('a strip of devices', () => {
  test('neighbours of one pod are one bar, and a gap separates pods', () => {
    const { bars } = stripOf(node([{ pod: 'a/p', group: '', state: 'bound', devices: [0, 1, 4] }, { pod: 'a/q', group: '', state: 'bound', devices: [2, 3] }]))
    expect(bars.map(({ from, count, held }) => [from, count, held.pod])).toEqual([[0, 2, 'a/p'], [2, 2, 'a/q'], [4, 1, 'a/p']])
  })

  test('shares of one device are stacked and never exceed it', () => {
    const share = (pod: string, part: number) => ({ pod, group: '', state: 'bound' as const, devices: [0], part })
    const { shares, inUse } = stripOf(node([share('a/p', 60), share('b/q', 30), share('b/r', 30)], '..'))
    expect(shares[0]!.parts.map(({ from, to }) => [from, to])).toEqual([[0, 60], [60, 90], [90, 100]])
    expect(inUse).toBe(1)
  })

  test('a pod that leaves keeps its device until another one may use it', () => {
    const { bars, inUse } = stripOf(node([{ pod: 'a/new', group: '', state: 'claimed', devices: [0] }, { pod: 'a/old', group: '', state: 'terminating', devices: [0] }], '..'))
    expect(bars.map(({ held }) => held.pod)).toEqual(['a/old'])
    expect(inUse).toBe(1)
  })
})
