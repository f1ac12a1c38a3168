/** A table of which only the rows in sight are there: all rows have one height. */
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

export interface TableColumn {
  title: string
  /** Track of the grid, such as '90px' or 'minmax(90px, 2fr)'. */
  width: string
  isNumber?: boolean
}

interface Props {
  label: string
  columns: readonly TableColumn[]
  rows: number
  cells(row: number): readonly ComponentChildren[]
  keyOf?(row: number): string | number
  selected?: number | undefined
  /** Called with the row that somebody chooses. */
  choose?(row: number): void
  /** Rows that are shown at most before the table scrolls; none: it fills its place. */
  mostShown?: number
  empty?: string
}

const ROW_PX = 28
const MORE = 6

const [GAP_PX, EDGE_PX] = [10, 10]

/** Width below which columns would be cut, by the first length of each track. */
const leastWidth = (columns: readonly TableColumn[]): number =>
  columns.reduce((sum, { width }) => sum + Number(/\d+(?=px)/.exec(width)?.[0] ?? 0), 0) +
  GAP_PX * (columns.length - 1) +
  2 * EDGE_PX

export function VirtualTable(props: Props): JSX.Element {
  const { label, columns, rows, cells, keyOf, selected, choose, mostShown, empty } = props
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
    const at = selected * ROW_PX
    if (at < element.scrollTop || at > element.scrollTop + element.clientHeight - 2 * ROW_PX)
      element.scrollTop = at - element.clientHeight / 2
  }, [selected])
  const first = Math.max(0, Math.min(Math.floor(top / ROW_PX) - MORE, rows - 1))
  const last = Math.min(rows, Math.ceil((top + height) / ROW_PX) + MORE)
  const pool = 2 ** Math.ceil(Math.log2(last - first + 1)) // after a far jump the elements are used again
  const grid = columns.map(({ width }) => width).join(' ')
  const style = { gridTemplateColumns: grid }
  const least = { minWidth: `${leastWidth(columns)}px` }
  return (
    <div class="virtual" role="table" aria-label={label} aria-rowcount={rows + 1}>
      <div role="rowgroup" style={least}>
        <div role="row" class="vrow vhead" style={style} aria-rowindex={1}>
          {columns.map(({ title, isNumber }) => (
            <div key={title} role="columnheader" class={isNumber ? 'number' : ''}>
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
        style={mostShown === undefined ? least : { ...least, maxHeight: `${mostShown * ROW_PX}px` }}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        {rows === 0 && (
          <div role="row">
            <div role="cell" class="empty">
              {empty}
            </div>
          </div>
        )}
        {rows > 0 && <div role="presentation" style={{ height: `${first * ROW_PX}px` }} />}
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
                <div key={column} role="cell" class={columns[column]?.isNumber ? 'number' : ''}>
                  {cell}
                </div>
              ))}
            </div>
          )
        })}
        {rows > 0 && <div role="presentation" style={{ height: `${(rows - last) * ROW_PX}px` }} />}
      </div>
    </div>
  )
}
