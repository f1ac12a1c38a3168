/** A table of which only the rows in sight are there: all rows have one height. */
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { isNarrow } from './canvas.ts'

export interface TableColumn {
  title: string
  /** Track of the grid, such as '90px' or 'minmax(90px, 2fr)'. */
  width: string
  isNumber?: boolean
  /** Track on a narrow page; 'line': the last column gets a line of its own there. */
  narrow?: string
}

interface Props {
  label: string
  columns: readonly TableColumn[]
  rows: number
  cells(row: number): readonly ComponentChildren[]
  keyOf?(row: number): string | number
  selected?: number | undefined
  choose?(row: number): void
  /** Rows that are shown at most before the table scrolls; none: it fills its place. */
  mostShown?: number
  empty?: string
}

const LINE_PX = 28
const MORE = 6

const [GAP_PX, EDGE_PX] = [10, 10]

/** Width below which columns would be cut, by the first length of each track. */
const leastWidth = (tracks: readonly string[]): number =>
  tracks.reduce((sum, width) => sum + Number(/\d+(?=px)/.exec(width)?.[0] ?? 0), 0) +
  GAP_PX * (tracks.length - 1) +
  2 * EDGE_PX

export function VirtualTable(props: Props): JSX.Element {
  const { label, columns, rows, cells, keyOf, selected, choose, mostShown, empty } = props
  const hasLine = isNarrow.value && columns.at(-1)?.narrow === 'line'
  const rowPx = hasLine ? 2 * LINE_PX : LINE_PX
  const scroller = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const [height, setHeight] = useState(400)
  useLayoutEffect(() => {
    const element = scroller.current!
    const observer = new ResizeObserver(() => setHeight(element.clientHeight))
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  useEffect(() => {
    const element = scroller.current
    if (!element || selected === undefined || selected < 0) return
    const at = selected * rowPx
    if (at < element.scrollTop || at > element.scrollTop + element.clientHeight - 2 * rowPx)
      element.scrollTop = at - element.clientHeight / 2
  }, [selected])
  const first = Math.max(0, Math.min(Math.floor(top / rowPx) - MORE, rows - 1))
  const last = Math.min(rows, Math.ceil((top + height) / rowPx) + MORE)
  const pool = 2 ** Math.ceil(Math.log2(last - first + 1)) // after a far jump the elements are used again
  const tracks = (hasLine ? columns.slice(0, -1) : columns).map(({ width, narrow }) =>
    isNarrow.value && narrow ? narrow : width,
  )
  const style = { gridTemplateColumns: tracks.join(' '), rowGap: 0, height: `${rowPx}px` }
  const placeOf = (column: number) => (hasLine && column === columns.length - 1 ? { gridColumn: '1 / -1' } : {})
  const least = { minWidth: `${leastWidth(tracks)}px` }
  return (
    <div class="virtual" role="table" aria-label={label} aria-rowcount={rows + 1}>
      <div role="rowgroup" style={least}>
        <div role="row" class="vrow vhead" style={style} aria-rowindex={1}>
          {columns.map(({ title, isNumber }, column) => (
            <div key={title} role="columnheader" class={isNumber ? 'number' : ''} style={placeOf(column)}>
              {title}
            </div>
          ))}
        </div>
      </div>
      <div
        class="vscroll"
        role="rowgroup"
        tabIndex={0}
        ref={scroller}
        style={mostShown === undefined ? least : { ...least, maxHeight: `${mostShown * rowPx}px` }}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        {rows === 0 && (
          <div role="row">
            <div role="cell" class="empty">
              {empty}
            </div>
          </div>
        )}
        {rows > 0 && <div role="presentation" style={{ height: `${first * rowPx}px` }} />}
        {Array.from({ length: Math.max(0, last - first) }, (_, at) => {
          const row = first + at
          return (
            <div
              role="row"
              key={keyOf?.(row) ?? row % pool}
              class={`vrow${row === selected ? ' selected' : ''}`}
              style={style}
              aria-rowindex={row + 2}
              onClick={choose && (() => choose(row))}
            >
              {cells(row).map((cell, column) => (
                <div key={column} role="cell" class={columns[column]?.isNumber ? 'number' : ''} style={placeOf(column)}>
                  {cell}
                </div>
              ))}
            </div>
          )
        })}
        {rows > 0 && <div role="presentation" style={{ height: `${(rows - last) * rowPx}px` }} />}
      </div>
    </div>
  )
}
