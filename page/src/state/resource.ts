// One document of the service that the page shows, loaded again when its subject changes.
import { useEffect, useRef, useState } from 'preact/hooks'
import { load, refusalOf, type Refused } from './server'
import { delayAfter } from './stream'

export interface Resource<T> {
  data: T | null
  error: Refused | null
  /** when the service said that the subject is gone, although it was shown before */
  gone: Date | null
}

const PAUSE = 1500 // ms between two loads of the same document

/** Load `path`, and again when `stamp` changes; the content stays visible meanwhile. */
export function useResource<T>(path: string, stamp: number | string): Resource<T> {
  const [shown, setShown] = useState<Resource<T> & { path: string }>({ path, data: null, error: null, gone: null })
  const last = useRef({ path: '', at: 0 })

  useEffect(() => {
    const abort = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let failures = 0
    const wait = last.current.path === path ? Math.max(0, last.current.at + PAUSE - Date.now()) : 0
    const attempt = async (): Promise<void> => {
      try {
        const data = await load<T>(path, { signal: abort.signal })
        if (abort.signal.aborted) return
        last.current = { path, at: Date.now() }
        setShown({ path, data, error: null, gone: null })
      } catch (error) {
        if (abort.signal.aborted) return
        const refused = refusalOf(error)
        setShown((before) => {
          const data = before.path === path ? before.data : null
          const gone = data && refused.status === 404 ? (before.gone ?? new Date()) : null
          return { path, data, error: refused, gone }
        })
        if (refused.status === 0 || refused.status === 429 || refused.status >= 500) {
          failures += 1
          timer = setTimeout(() => void attempt(), 1000 * delayAfter(failures, Math.random()))
        }
      }
    }
    timer = setTimeout(() => void attempt(), wait)
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [path, stamp])

  return shown.path === path ? shown : { data: null, error: null, gone: null }
}
