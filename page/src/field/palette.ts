// Colours of the canvas, from the custom properties of the style sheet in the theme of the moment.
import { COLOURS } from '../colours'
import type { Palette } from './draw'

export function readPalette(): Palette {
  const probe = document.createElement('span')
  document.body.append(probe)
  const read = (name: string): string => {
    probe.style.color = `var(--${name})`
    return getComputedStyle(probe).color
  }
  const palette: Palette = {
    ink: read('ink'),
    muted: read('muted'),
    faint: read('faint'),
    line: read('line'),
    card: read('card'),
    track: read('track'),
    fill: read('fill'),
    accent: read('accent'),
    soft: read('accent-soft'),
    amber: read('amber'),
    amberSoft: read('amber-soft'),
    red: read('red'),
    idle: read('idle'),
    other: read('other'),
    states: { use: read('n0'), start: read('n1'), leave: read('n4') },
    hues: Array.from({ length: COLOURS }, (_, index) => read(`n${index}`)),
  }
  probe.remove()
  return palette
}
