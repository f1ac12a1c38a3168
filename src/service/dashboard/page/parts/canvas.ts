/** Drawing: colours of the page as they are now, and a canvas as sharp as the screen. */

const NAMES = [
  'ground',
  'panel',
  'raised',
  'line',
  'text',
  'dim',
  'accent',
  'good',
  'wait',
  'bad',
  'tool',
  'tint',
] as const
export type Colours = Readonly<Record<(typeof NAMES)[number], string>>

/** With forced colours the system has the say. */
const FORCED: Colours = {
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

/** Returns the colours: what a pair of light and dark comes to, only an element can tell. */
export function coloursOf(element: HTMLElement): Colours {
  if (matchMedia('(forced-colors: active)').matches) return FORCED
  const probe = element.appendChild(document.createElement('span'))
  const found = NAMES.map((name) => {
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
