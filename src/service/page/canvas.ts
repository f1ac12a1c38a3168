import { signal } from '@preact/signals'
import { useLayoutEffect } from 'preact/hooks'

/** Drawing: colours of the page as they are now, and a canvas as sharp as the screen. */

const FORCED = {
  ground: 'Canvas',
  panel: 'Canvas',
  raised: 'Canvas',
  line: 'GrayText',
  text: 'CanvasText',
  dim: 'GrayText',
  accent: 'LinkText',
  good: 'CanvasText',
  wait: 'GrayText',
  bad: 'Highlight',
  tool: 'LinkText',
  tint: 'Canvas',
}
export type Colours = Readonly<typeof FORCED>

/** Returns the colours: what a pair of light and dark comes to, only an element can tell. */
export function coloursOf(element: HTMLElement): Colours {
  if (matchMedia('(forced-colors: active)').matches) return FORCED
  const probe = element.appendChild(document.createElement('span'))
  const found = Object.keys(FORCED).map((name) => {
    probe.style.color = `var(--${name})`
    return [name, getComputedStyle(probe).color] as const
  })
  probe.remove()
  return Object.fromEntries(found) as Colours
}

/** Returns the drawing of a canvas of that size in CSS pixels, cleared. */
export function drawingOf(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1
  const [across, down] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))]
  if (canvas.width !== across) canvas.width = across
  if (canvas.height !== down) canvas.height = down
  const drawing = canvas.getContext('2d')!
  drawing.setTransform(ratio, 0, 0, ratio, 0, 0)
  drawing.clearRect(0, 0, width, height)
  return drawing
}

/** Calls back when light turns dark, or the other way round. */
export function onColours(changed: () => void): () => void {
  const queries = ['(prefers-color-scheme: dark)', '(forced-colors: active)'].map((query) => matchMedia(query))
  for (const query of queries) query.addEventListener('change', changed)
  return () => {
    for (const query of queries) query.removeEventListener('change', changed)
  }
}

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

export function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')]
  const at = rows.indexOf(document.activeElement as HTMLElement)
  rows[Math.min(rows.length - 1, Math.max(0, at < 0 && by > 0 ? 0 : at + by))]?.focus()
}

/** Goes to the first button of that kind: it takes another key to press it. */
export const goToButton = (name: string): void => document.querySelector<HTMLElement>(`[data-press="${name}"]`)?.focus()

const query = matchMedia('(max-width: 700px)')

export const isNarrow = signal(query.matches)

query.addEventListener('change', ({ matches }) => {
  isNarrow.value = matches
})
