/** Whether tests that pages name by their titles are there. */
import { readFileSync } from 'node:fs'

/** The titles of a file's tests as they are written there: what is filled in may be anything. */
function titlesOf(file: string): RegExp[] {
  const calls = /\.test\(\s*(?:(['"])((?:\\.|(?!\1).)*)\1|`([^`]*)`)/g
  return [...readFileSync(file, 'utf8').matchAll(calls)].map(([, , text = '', template]) => {
    const parts = template?.split(/\$\{[^}]*\}/) ?? [text.replaceAll(/\\(.)/g, '$1')]
    return new RegExp(`^${parts.map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.*')}$`)
  })
}

export const hasTest = (file: string, title: string): boolean => titlesOf(file).some((pattern) => pattern.test(title))
