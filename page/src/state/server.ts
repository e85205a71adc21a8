// Requests to the service, relative to the place of the page, so that they work behind a path prefix.

/** Where /page/ is: <base> is set by the service, read once because navigation must not move it. */
export const PAGE = new URL('./', document.baseURI)
const API = new URL('../v1/', PAGE)

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }
}

/** What went wrong in one sentence; status 0 if the service did not answer at all. */
export function refusalOf(error: unknown): Refused {
  if (error instanceof Refused) return error
  // JSON that ends too early, or is none: a proxy on the way cut or replaced it
  if (error instanceof SyntaxError) return new Refused(0, 'The service sent something that the page cannot read.')
  return new Refused(0, 'The service does not answer.')
}

export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const answer = await fetch(new URL(path, API), { credentials: 'same-origin', ...init })
  if (answer.ok) return answer
  const text = (await answer.text().catch(() => '')).trim()
  const readable = text && text.length < 600 && !text.startsWith('<')
  throw new Refused(answer.status, readable ? text : `The service answered with status ${answer.status}.`)
}

export async function load<T>(path: string, init: RequestInit = {}): Promise<T> {
  return (await (await request(path, init)).json()) as T
}
