/** HTML in which every value is text: only what stands in the template itself is markup. */
import { own } from '../../own.ts'
import { visible } from '../../visible.ts'

export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Value = Html | readonly Html[] | string | number | undefined

/** Characters that are not seen, and are needed: lines, tabs, wide spaces, the looks of emoji. */
const KEPT = '\n\t\u00a0\u3000\ufe0f'
const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Makes HTML of a template. Characters that are not seen, or that change the order of others, are written out. */
export function html({ raw }: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(raw.reduce((made, part, at) => `${made}${markupOf(values[at - 1])}${part}`))
}

function markupOf(value: Value): string {
  if (value === undefined) return ''
  if (value instanceof Html) return value.text
  if (typeof value === 'object') return value.map(({ text }) => text).join('')
  return visible(String(value), KEPT).replaceAll(/[&<>"']/g, (character) => own(ENTITIES, character)!)
}
