import { expect, test } from 'vitest'
import { nodes } from '../fixtures/cluster'
import { cornerOf, deviceAt, hit, layout, SIZES, sizeFor, step } from '../src/field/layout'

for (const count of [10, 60, 5000])
  for (const width of [360, 640, 900])
    for (const size of Object.values(SIZES))
      test(`every device of ${count} nodes is found where it is drawn, ${width} pixels wide, ${size.device} per device`, () => {
        const field = layout(nodes(count), 'model', size, width)
        for (const group of field.groups)
          for (const [index, name] of group.nodes.entries()) {
            if (count > 100 && index % 37) continue
            const corner = cornerOf(group, index)
            const at = deviceAt(group, size, 3)
            expect(hit(field, corner.x + at.x + size.device / 2, corner.y + at.y + size.height / 2)).toEqual({ node: name, device: 3 })
          }
      })

test('just below its devices a node still answers with one of them', () => {
  const field = layout(nodes(60), 'model', SIZES.medium, 900)
  const corner = cornerOf(field.groups[0]!, 0)
  const below = corner.y + SIZES.medium.name + SIZES.medium.height + 2
  expect(hit(field, corner.x + 2, below)?.device).toBe(0)
})

test('nothing leaves the field, and groups do not overlap', () => {
  const field = layout(nodes(200), 'rack', SIZES.medium, 900)
  let bottom = 0
  for (const group of field.groups) {
    expect(group.top).toBeGreaterThanOrEqual(bottom)
    bottom = group.first + group.rows * group.pitchY - SIZES.medium.row
    expect(cornerOf(group, group.columns - 1).x + group.width).toBeLessThanOrEqual(900)
  }
  expect(field.height).toBeGreaterThanOrEqual(bottom)
})

test('the keyboard reaches every node from the first one', () => {
  const field = layout(nodes(60), 'model', SIZES.medium, 900)
  const seen = new Set<string>()
  let at = step(field, '', 'home')
  while (!seen.has(at)) {
    seen.add(at)
    at = step(field, at, 'right')
  }
  expect(seen.size).toBe(field.places.size)
})

test('down and up come back to the same column', () => {
  const field = layout(nodes(60), 'model', SIZES.medium, 900)
  const start = field.groups.find(({ rows }) => rows > 2)!.nodes[1]!
  expect(step(field, step(field, start, 'down'), 'up')).toBe(start)
})

test('few nodes are large, and names stay for as long as they can be read', () => {
  expect(sizeFor('auto', 10)).toBe(SIZES.large)
  expect(sizeFor('auto', 60)).toBe(SIZES.medium)
  expect(sizeFor('auto', 5000)).toBe(SIZES.tiny)
})
