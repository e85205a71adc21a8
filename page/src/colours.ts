// Colours of namespaces: six hues that colour-blind readers can tell apart, then the same hues in another lightness.

export const HUES = ['blue', 'teal', 'pink', 'orange', 'violet', 'green'] as const
export const COLOURS = HUES.length * 2

function hash(text: string): number {
  let value = 2166136261
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 16777619)
  return value >>> 0
}

/**
 * Gives each namespace a colour: the one of its hash, or the next free one. The first six have the six hues, and a
 * colour stays with its namespace for as long as the page is open.
 */
export class ColourBook {
  private readonly given = new Map<string, number>()

  add(namespaces: Iterable<string>): void {
    for (const name of [...namespaces].filter((one) => !this.given.has(one)).sort()) this.given.set(name, this.next(name))
  }

  of(namespace: string): number {
    const known = this.given.get(namespace)
    if (known !== undefined) return known
    this.add([namespace])
    return this.given.get(namespace) ?? 0
  }

  private next(name: string): number {
    const taken = new Set(this.given.values())
    const first = hash(name) % HUES.length
    for (let step = 0; step < COLOURS; step += 1) {
      const row = Math.floor(step / HUES.length)
      const colour = row * HUES.length + ((first + step) % HUES.length)
      if (!taken.has(colour)) return colour
    }
    return hash(name) % COLOURS
  }
}

export const colours = new ColourBook()
