/** Markdown as elements. marked only cuts it into tokens: no string of HTML is made of it, and HTML in it is text. */
import { lexer, type Token, type Tokens } from 'marked'
import type { ComponentChildren, JSX } from 'preact'
import { Link, shown, Words } from './words.tsx'

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
    case 'paragraph':
      return <p>{token.tokens ? spans(token.tokens, depth) : token.raw}</p>
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
