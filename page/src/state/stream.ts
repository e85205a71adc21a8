// Server-sent events, read with fetch: unlike EventSource it shows the status and the sentence of a refusal.

export interface StreamEvent {
  event: string
  data: string
}

/** Splits the text of a stream into events; comment lines are heartbeats and yield nothing. */
export class EventParser {
  private rest = ''
  private event = ''
  private data: string[] = []

  push(text: string): StreamEvent[] {
    const found: StreamEvent[] = []
    const lines = (this.rest + text).split(/\r\n|\n/)
    this.rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line === '') {
        if (this.data.length) found.push({ event: this.event || 'message', data: this.data.join('\n') })
        this.event = ''
        this.data = []
      } else if (line.startsWith('event:')) this.event = line.slice(6).trim()
      else if (line.startsWith('data:')) this.data.push(line.slice(line[5] === ' ' ? 6 : 5))
    }
    return found
  }
}

/** Seconds until the next attempt: doubling up to 30 s, and a random part so that pages do not return all at once. */
export function delayAfter(failures: number, random: number): number {
  return Math.min(30, 2 ** Math.max(0, failures - 1)) * (0.75 + random * 0.5)
}
