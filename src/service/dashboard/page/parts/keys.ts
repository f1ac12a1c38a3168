/** Keys of the page. They do nothing while somebody writes. */
import { useLayoutEffect } from 'preact/hooks'

type Press = (event: KeyboardEvent) => void

const pressed = new Map<string, Press[]>()

addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
  const { target } = event
  if (event.key === 'Escape' && target instanceof HTMLElement && isWritten(target)) target.blur()
  if (
    target instanceof HTMLElement &&
    (isWritten(target) || (event.key === ' ' && target.matches('button, a, summary')))
  )
    return
  const presses = pressed.get(event.key)
  const press = presses?.at(-1)
  if (!press) return
  event.preventDefault()
  press(event)
})

const isWritten = (element: HTMLElement): boolean =>
  element.matches('textarea, select, input:not([type=range]):not([type=checkbox])')

/**
 * Takes keys as long as the component is shown. The component that came last has a key that several take. A key that is
 * pressed right after a change already acts on what is shown.
 */
export function useKeys(keys: Readonly<Record<string, Press>>): void {
  useLayoutEffect(() => {
    for (const [key, press] of Object.entries(keys)) pressed.set(key, [...(pressed.get(key) ?? []), press])
    return () => {
      for (const [key, press] of Object.entries(keys))
        pressed.set(
          key,
          (pressed.get(key) ?? []).filter((each) => each !== press),
        )
    }
  })
}

/** Moves the focus by that many rows of lists. */
export function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')]
  const at = rows.indexOf(document.activeElement as HTMLElement)
  rows[Math.min(rows.length - 1, Math.max(0, at < 0 && by > 0 ? 0 : at + by))]?.focus()
}

/** Goes to the first button of that kind: it takes another key to press it. */
export const goToButton = (name: string): void => document.querySelector<HTMLElement>(`[data-press="${name}"]`)?.focus()
