/** Texts of agents and people: never more than text. What cannot be seen in them is shown. */
import type { JSX } from 'preact'
import { visible } from '../../../../visible.ts'

/** Characters that are not seen, and are needed: lines, tabs, wide spaces, the looks of emoji. */
const KEPT = '\n\t\u00a0\u3000\ufe0f'
/** Characters that are laid out at most. */
const MOST = 65_536

/** Returns the text with what steers the order of letters, and what is not seen, in words. */
export const shown = (text: string): string => visible(text, KEPT)

/** Shows a text as it is. `most`: characters of a text that is one line in a list. */
export function Words({ text, most = MOST }: { text: string; most?: number }): JSX.Element {
  const isCut = text.length > most
  const rest = isCut && most === MOST ? ` (${text.length - most} more characters)` : ''
  return (
    <bdi class="words">
      {shown(isCut ? text.slice(0, most) : text)}
      {isCut && `…${rest}`}
    </bdi>
  )
}

/** Shows a link that somebody else has written: only to the web, with its host, and the host learns nothing of us. */
export function Link({ href, text }: { href: string; text: string }): JSX.Element {
  const url = URL.canParse(href) ? new URL(href) : undefined
  if (!url || !/^https?:$/.test(url.protocol)) return <Words text={text === href ? text : `${text} (${href})`} />
  return (
    <>
      <a href={url.href} target="_blank" rel="noopener noreferrer" referrerpolicy="no-referrer">
        <Words text={text} />
      </a>
      <small class="dim"> ({shown(url.host)})</small>
    </>
  )
}
