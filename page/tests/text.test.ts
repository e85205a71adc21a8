import { expect, test } from 'vitest'
import { nodes } from '../fixtures/cluster'
import { fastest } from './fastest'
import { ColourBook, HUES } from '../src/colours'
import { find, rank } from '../src/search'
import { positionsOf } from '../src/state/cluster'
import { delayAfter, EventParser } from '../src/state/stream'
import { count, devicesText, memoryText, natural, nodeText, reasonText, secondsText, sentence, shorten } from '../src/text'

test('devices are written as people write them', () => {
  expect(devicesText([0, 1, 2, 3])).toBe('0-3')
  expect(devicesText([5, 0, 1])).toBe('0, 1, 5')
  expect(devicesText([])).toBe('')
})

test('a line of the command line becomes a sentence, and names keep their case', () => {
  expect(sentence('it needs 12 nodes')).toBe('It needs 12 nodes.')
  expect(sentence('dgx-a100-0 has none')).toBe('dgx-a100-0 has none.')
  expect(sentence('Already one.')).toBe('Already one.')
  expect(sentence('')).toBe('')
})

test('a reason stands beside its number', () => {
  expect(reasonText('8 nodes had too few free devices')).toBe('had too few free devices')
  expect(reasonText("1 node didn't match the pod's node selector")).toBe("didn't match the pod's node selector")
  expect(reasonText('node(s) use a different sharing mode')).toBe('use a different sharing mode')
  expect(reasonText('node dgx-1: the pod requests whole devices')).toBe('node dgx-1: the pod requests whole devices')
})

test('numbers have a noun and a separator', () => {
  expect(count(1, 'pod')).toBe('1 pod')
  expect(count(2601, 'pod')).toBe('2,601 pods')
  expect(secondsText(90)).toBe('90 seconds')
  expect(secondsText(600)).toBe('10 minutes')
  expect(memoryText(81920, 'MiB')).toBe('80 GiB')
  expect(memoryText(22, 'GiB')).toBe('22 GiB')
})

test('a long name keeps both ends', () => {
  expect(shorten('gke-pool-a-1234567890-x7f2', 13)).toBe('gke-po…0-x7f2')
  expect(shorten('short', 10)).toBe('short')
})

test('a node is described in words for screen readers', () => {
  const [node] = nodes(60)
  expect(nodeText(node!)).toContain(`${node!.name}, ${node!.model}, `)
  expect(nodeText(node!, 0)).toContain('device 0')
})

test('devices have the numbers that tools give them', () => {
  const held = [{ pod: 'x/p', group: '', state: 'bound' as const, devices: [0, 1] }]
  const node = { name: 'n', model: 'm', rack: '', marks: '...', held, mode: 'whole', note: '', indices: [4, 5, 7] }
  expect(nodeText(node, 0)).toBe('n, device 4: x/p: devices 4, 5, in use.')
  expect(nodeText(node, 2)).toBe('n, device 7: idle.')
  expect(positionsOf(node, [7, 4, 9])).toEqual([2, 0])
})

test('exact names come first, then beginnings, then words, then the rest', () => {
  expect(rank('llm/train', 'train')).toBe(0)
  expect(rank('llm/train-1', 'train')).toBe(1)
  expect(rank('llm/pre-train', 'train')).toBe(3)
  expect(rank('llm/pretrain', 'train')).toBe(4)
  expect(rank('llm/other', 'train')).toBe(Infinity)
  const keys = ['a/pretrain', 'a/train-10', 'a/train-9', 'b/train', 'a/other']
  expect(find('Train', [['pod', keys]]).map(({ key }) => key)).toEqual(['b/train', 'a/train-9', 'a/train-10', 'a/pretrain'])
})

test('search in forty thousand pods takes less time than to sort their names', () => {
  const keys = Array.from({ length: 40_000 }, (_, index) => `team-${index % 50}/job-${index}`)
  const sorted = fastest(() => [...keys].sort())
  expect(find('job-3', [['pod', keys]])).toHaveLength(12)
  expect(fastest(() => find('job-3', [['pod', keys]]))).toBeLessThan(sorted)
})

test('names sort by their numbers', () => {
  expect(['n-10', 'n-9'].sort(natural)).toEqual(['n-9', 'n-10'])
})

test('six namespaces have six hues, and a colour stays with its namespace', () => {
  const book = new ColourBook()
  const names = ['llm', 'research', 'serving', 'vision', 'audio', 'robotics']
  book.add(names)
  const first = names.map((name) => book.of(name))
  expect(new Set(first.map((colour) => colour % HUES.length)).size).toBe(6)
  book.add(['another', ...names])
  expect(names.map((name) => book.of(name))).toEqual(first)
  expect(new Set(first).has(book.of('another'))).toBe(false)
})

test('events of a stream arrive whole, however the text is cut', () => {
  const text = ': heartbeat\n\nevent: change\ndata: {"a":1}\n\nevent: bye\ndata: {"reason":\ndata: "x"}\n\n'
  for (let cut = 1; cut < text.length; cut += 1) {
    const parser = new EventParser()
    const events = [...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))]
    expect(events).toEqual([{ event: 'change', data: '{"a":1}' }, { event: 'bye', data: '{"reason":\n"x"}' }])
  }
})

test('attempts to reconnect become rarer, up to half a minute', () => {
  expect(delayAfter(1, 0.5)).toBe(1)
  expect(delayAfter(3, 0.5)).toBe(4)
  expect(delayAfter(50, 0.5)).toBe(30)
})
