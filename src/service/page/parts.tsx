/** Pieces that several views are made of: buttons, fields, lists and cards. */
import type { ButtonHTMLAttributes, ComponentChildren, JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { Fill } from './folds.ts'
import { goTo, linkTo, type Place, place } from './place.ts'
import { messageOf } from './service.ts'
import { Words } from './words.tsx'

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  text: string
  /** Key that presses it. */
  hint?: string | undefined
}

export const Button = ({ text, hint, ...rest }: ButtonProps): JSX.Element => (
  <button type="button" {...rest}>
    {text}
    {hint !== undefined && <kbd>{hint}</kbd>}
  </button>
)

export const PlaceLink = ({ text, to }: { text: string; to: Partial<Place> }): JSX.Element => (
  <a class="button" href={linkTo(to)}>
    {text}
  </a>
)

export const Find = ({ what }: { what: string }): JSX.Element => (
  <input
    type="search"
    id="filter"
    placeholder={what}
    aria-label={what}
    value={place.value.filter ?? ''}
    onInput={(event) => goTo({ filter: event.currentTarget.value || undefined }, true)}
  />
)

export const Verbatim = ({ text }: { text: string }): JSX.Element => (
  <pre tabIndex={0}>
    <Words text={text} />
  </pre>
)

/** Depth below which data is shown as JSON, and fields or items of one value that are shown. */
const DEEPEST = 6
const MOST_ROWS = 200

/** Shows JSON with the names of its fields, as a person reads it. */
export function Data({ value, depth = 0 }: { value: unknown; depth?: number }): JSX.Element {
  if (typeof value !== 'object' || value === null) return <Words text={String(value)} />
  const all = Object.entries(value)
  if (all.length === 0 || depth === DEEPEST) return <Words text={JSON.stringify(value)} />
  const rows = all.slice(0, MOST_ROWS).map(([name, each]) => (
    <div key={name}>
      <dt class="dim">
        <Words text={Array.isArray(value) ? `${Number(name) + 1}.` : name} />
      </dt>
      <dd>
        <Data value={each} depth={depth + 1} />
      </dd>
    </div>
  ))
  return (
    <dl class="data">
      {rows}
      {all.length > MOST_ROWS && (
        <div>
          <dt class="dim">…</dt>
          <dd>{all.length - MOST_ROWS} more</dd>
        </div>
      )}
    </dl>
  )
}

export const Failure = ({ text }: { text: string }): JSX.Element | null =>
  text === '' ? null : (
    <p class="failure" role="alert">
      <Words text={text} />
    </p>
  )

/** Shows how much of its context an agent has used. */
export const ContextMeter = ({ of, fill: { tokens, maxTokens } }: { of: string; fill: Fill }): JSX.Element => (
  <meter min={0} max={maxTokens} high={maxTokens * 0.85} value={tokens} aria-label={`context of ${of}`} />
)

interface Sending {
  readonly isSent: boolean
  /** Why it was refused; '' as long as it was not. */
  readonly failure: string
  send(work: () => Promise<unknown>): Promise<void>
}

/** State of what is sent to the service. `isOnce`: what was taken is not sent again. */
export function useSending(isOnce: boolean): Sending {
  const [isSent, setSent] = useState(false)
  const [failure, setFailure] = useState('')
  const send = async (work: () => Promise<unknown>) => {
    setSent(true)
    setFailure('')
    try {
      await work()
      setSent(isOnce)
    } catch (error) {
      setSent(false)
      setFailure(messageOf(error))
    }
  }
  return { isSent, failure, send }
}

interface ListProps<Row> {
  /** Title of each column, and classes of its cells. */
  columns: readonly (readonly [title: string, classes?: string])[]
  rows: readonly Row[]
  keyOf(row: Row): string | number
  /** Those that no column has a title for are left out. */
  cells(row: Row): readonly ComponentChildren[]
  isSelected?(row: Row): boolean
}

export function List<Row>({ columns, rows, keyOf, cells, isSelected }: ListProps<Row>): JSX.Element {
  const rowOf = (row: Row) => {
    const shown = cells(row)
    return (
      <tr key={keyOf(row)} class={isSelected?.(row) ? 'selected' : ''}>
        {columns.map(([_, classes], at) => (
          <td key={at} class={classes}>
            {shown[at]}
          </td>
        ))}
      </tr>
    )
  }
  return (
    <table class="list">
      <thead>
        <tr>
          {columns.map(([title, classes], at) => (
            <th key={at} class={classes}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{rows.map(rowOf)}</tbody>
    </table>
  )
}

interface TileProps {
  title: string
  value: string
  isBad?: boolean
  /** Leads there. */
  to?: Partial<Place>
  isCurrent?: boolean
}

/** Figure that is seen at once, in a list of such. */
export function Tile({ title, value, isBad = false, to, isCurrent = false }: TileProps): JSX.Element {
  const words = (
    <>
      <strong>{value}</strong> {title}
    </>
  )
  const link = to && (
    <a href={linkTo(to)} aria-current={isCurrent ? 'true' : undefined}>
      {words}
    </a>
  )
  return <li class={isBad ? 'some' : ''}>{link ?? words}</li>
}

interface CardProps {
  kind: 'failed' | 'waiting' | 'slow' | 'stuck'
  sign: string
  word: string
  /** Default: its word. */
  label?: string
  who: ComponentChildren
  aside?: ComponentChildren
  buttons?: ComponentChildren
  children: ComponentChildren
}

/** Tells of something that went wrong, or does not go on. */
export const TroubleCard = ({ kind, sign, word, label = word, who, aside, buttons, children }: CardProps) => (
  <article class={kind === 'slow' || kind === 'stuck' ? `trouble ${kind}` : 'trouble'} aria-label={label}>
    <header class="row">
      <span class={`mark ${kind}`}>
        <span aria-hidden="true">{sign}</span> {word}
      </span>
      <strong>{who}</strong>
      {aside && <span class="dim">{aside}</span>}
      <span class="grow" />
      {buttons}
    </header>
    {children}
  </article>
)

export const Victim = ({ name, otherwise }: { name: string | null; otherwise: string }): JSX.Element => (
  <p>
    {name === null ? (
      otherwise
    ) : (
      <>
        Victim: <Words text={name} />. Its wait was given up, so that the others go on.
      </>
    )}
  </p>
)
