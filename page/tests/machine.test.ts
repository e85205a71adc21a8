import { describe, expect, test } from 'vitest'
import { links } from '../fixtures/cluster'
import { kindClass, place, thickness } from '../src/machine/layout'

const SHAPES = ['hub', 'rings', 'quads', 'pairs', 'islands', 'tree'] as const

describe.each(SHAPES)('a machine of shape %s', (shape) => {
  test.each([4, 8, 16])('keeps %i devices apart and inside the picture', (count) => {
    if (shape === 'quads' && count !== 8) return
    const drawing = place(links(shape, count), count)
    expect(drawing.points).toHaveLength(count)
    drawing.points.forEach((a, i) => {
      expect(a.x).toBeGreaterThanOrEqual(drawing.radius - 1)
      expect(a.x).toBeLessThanOrEqual(drawing.width - drawing.radius + 1)
      expect(a.y).toBeGreaterThanOrEqual(drawing.radius - 1)
      expect(a.y).toBeLessThanOrEqual(drawing.height - drawing.radius + 1)
      drawing.points.slice(0, i).forEach((b) => expect(Math.hypot(a.x - b.x, a.y - b.y)).toBeGreaterThan(2 * drawing.radius))
    })
  })
})

test('a DGX-1 is two quads whose crossing links run straight', () => {
  const { points } = place(links('quads'), 8)
  for (const [i, j] of [[0, 4], [1, 5], [2, 6], [3, 7]] as const) expect(points[i]!.y).toBe(points[j]!.y)
})

test('a switch is a hub with one spoke per device', () => {
  const { hub, edges } = place(links('hub'), 8)
  expect(hub?.label).toBe('NVSwitch')
  expect(edges).toHaveLength(8)
})

test('a machine that was only measured draws all but its slowest links', () => {
  const measured = links('quads')
  measured.kinds = measured.kinds.map((kind) => ({ ...kind, direct: false }))
  expect(place(measured, 8).edges).toHaveLength(place(links('quads'), 8).edges.length)
})

test('faster links are thicker, and PCIe is thin and grey', () => {
  const machine = links('quads')
  expect(thickness(96, 0, machine)).toBeGreaterThan(thickness(48, 1, machine))
  expect(thickness(48, 1, machine)).toBeGreaterThan(thickness(16, 2, machine))
  expect(machine.kinds.map((_, kind) => kindClass(kind, machine))).toEqual(['k-first', 'k-second', 'k-slow'])
})
