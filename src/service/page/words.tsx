/** Texts of agents and people: never more than text. What cannot be seen in them is shown. */

import { lexer, type Token, type Tokens } from 'marked'
import type { ComponentChildren, JSX } from 'preact'
import { visible } from '../../shared/text.ts'
import { own } from '../../shared/values.ts'

/** Characters that are not seen, and are needed: lines, tabs, wide spaces, the looks of emoji. */
const KEPT = '\n\t\u00a0\u3000\ufe0f'

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
function Link({ href, text }: { href: string; text: string }): JSX.Element {
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

const MOST = 65_536
/** Depth of lists and quotes below which all is text. */
const DEEPEST = 12

export function Markdown({ text }: { text: string }): JSX.Element {
  const cut = text.slice(0, MOST)
  return (
    <div class="markdown">
      {blocks(tokensOf(shown(cut)), 0)}
      {text.length > MOST && <p class="dim">… {text.length - MOST} more characters</p>}
    </div>
  )
}

function tokensOf(text: string): Token[] {
  try {
    return lexer(text, { gfm: true })
  } catch {
    return [{ type: 'paragraph', raw: text, text }]
  }
}

const blocks = (tokens: readonly Token[] | undefined, depth: number): ComponentChildren =>
  (tokens ?? []).map((token, at) => <Block key={at} token={token} depth={depth} />)

function Block({ token, depth }: { token: Token; depth: number }): JSX.Element | null {
  if (depth > DEEPEST) return <p>{token.raw}</p>
  switch (token.type) {
    case 'space':
    case 'def':
      return null
    case 'heading': {
      const level = Math.min(6, (token as Tokens.Heading).depth + 2)
      const Heading = `h${level}` as 'h3'
      return <Heading>{spans(token.tokens, depth)}</Heading>
    }
    case 'code':
      return (
        <pre tabIndex={0}>
          <code>{(token as Tokens.Code).text}</code>
        </pre>
      )
    case 'blockquote':
      return <blockquote>{blocks(token.tokens, depth + 1)}</blockquote>
    case 'list': {
      const { items, ordered, start } = token as Tokens.List
      const rows = items.map((item, at) => <li key={at}>{blocks(item.tokens, depth + 1)}</li>)
      return ordered ? <ol start={Number(start) || 1}>{rows}</ol> : <ul>{rows}</ul>
    }
    case 'table': {
      const { header, rows } = token as Tokens.Table
      const cells = (row: Tokens.TableCell[], Cell: 'td' | 'th') =>
        row.map((cell, at) => <Cell key={at}>{spans(cell.tokens, depth)}</Cell>)
      return (
        <table>
          <thead>
            <tr>{cells(header, 'th')}</tr>
          </thead>
          <tbody>
            {rows.map((row, at) => (
              <tr key={at}>{cells(row, 'td')}</tr>
            ))}
          </tbody>
        </table>
      )
    }
    case 'hr':
      return <hr />
    default:
      return <p>{'tokens' in token && token.tokens ? spans(token.tokens, depth) : token.raw}</p>
  }
}

function spans(tokens: readonly Token[] | undefined, depth: number): ComponentChildren {
  if (depth > DEEPEST) return (tokens ?? []).map(({ raw }) => raw).join('')
  return (tokens ?? []).map((token, at) => <Span key={at} token={token} depth={depth + 1} />)
}

function Span({ token, depth }: { token: Token; depth: number }): ComponentChildren {
  switch (token.type) {
    case 'strong':
      return <strong>{spans(token.tokens, depth)}</strong>
    case 'em':
      return <em>{spans(token.tokens, depth)}</em>
    case 'del':
      return <del>{spans(token.tokens, depth)}</del>
    case 'codespan':
      return <code>{(token as Tokens.Codespan).text}</code>
    case 'br':
      return <br />
    case 'link':
    case 'image': {
      const { href, text } = token as Tokens.Link
      return <Link href={href} text={text || href} />
    }
    case 'escape':
      return <Words text={(token as Tokens.Escape).text} />
    case 'text':
      return token.tokens ? spans(token.tokens, depth) : token.raw
    default:
      return token.raw
  }
}

const SHAPES: Readonly<Record<string, string>> = {
  queued: '◌',
  starting: '◌',
  idle: '○',
  running: '●',
  waiting: '◐',
  restarting: '↻',
  passivated: '◍',
  stopped: '■',
  finished: '✓',
  failed: '✕',
  aborted: '■',
  interrupted: '‖',
}
const WORDS: Readonly<Record<string, string>> = { finished: 'done', aborted: 'stopped' }

export const shapeOf = (status: string): string => own(SHAPES, status) ?? '·'
export const wordOf = (status: string): string => own(WORDS, status) ?? status

export const Mark = ({ status }: { status: string }): JSX.Element => (
  <span class={`mark ${status}`}>
    <span aria-hidden="true">{shapeOf(status)}</span> {wordOf(status)}
  </span>
)

/** Times of the service, as people of this place read them. */
const clockFormat = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
})
const dayFormat = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' })
const DAY_MS = 86_400_000

/** 14:02:13, with the day if it was another one. */
export function clock(at: number, now: number): string {
  const time = clockFormat.format(at)
  return Math.abs(now - at) < DAY_MS / 2 ? time : `${dayFormat.format(at)} ${time}`
}

export const exactClock = (at: number): string =>
  `${clockFormat.format(at)}.${String(Math.floor(at) % 1_000).padStart(3, '0')}`

/** Returns a time span of the machine's work, in words: 12 ms, 3.4 s, 12 s, 3 min. */
export const shortSpan = (ms: number): string => {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 100_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`
}
