/** Details that a view asks for, and asks for again as long as they change. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { gently } from './gently.ts'
import { ask, Refused } from './service.ts'

/**
 * Returns the answer to a GET, or its refusal; undefined as long as there is none, or no path. It is asked for again
 * when `key` has changed. What was found stays until then.
 */
export function useAsked<T>(
  path: string | undefined,
  key: string,
  query: Readonly<Record<string, string>> = {},
): T | Refused | undefined {
  const of = path === undefined ? '' : `${path} ${JSON.stringify(query)}`
  const [found, setFound] = useState<{ of: string; answer: T | Refused } | undefined>(undefined)
  const again = useRef(() => {})
  useEffect(() => {
    const over = new AbortController()
    again.current = gently(async () => {
      if (path === undefined || over.signal.aborted) return
      const answer = await ask<T>(path, { query, signal: over.signal }).catch(refusalIn)
      if (!over.signal.aborted) setFound({ of, answer })
    })
    return () => over.abort()
  }, [of])
  useEffect(() => again.current(), [of, key])
  return found?.of === of ? found.answer : undefined
}

/** @throws what is no refusal: nobody has answered. */
function refusalIn(error: unknown): Refused {
  if (error instanceof Refused) return error
  throw error
}
