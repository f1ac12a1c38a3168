/** Labels along a line: those that would overlap an earlier one are left out. */

export interface AxisLabel {
  readonly text: string
  /** Place of its anchor, in px. */
  readonly at: number
  readonly align: 'left' | 'center' | 'right'
}

const GAP_PX = 6

/** Returns the labels for which there is room, in the order in which they were given: the first have precedence. */
export function roomyLabels(labels: readonly AxisLabel[], widthOf: (text: string) => number): AxisLabel[] {
  const taken: (readonly [number, number])[] = []
  return labels.filter(({ text, at, align }) => {
    const width = widthOf(text)
    const from = at - (align === 'left' ? 0 : align === 'center' ? width / 2 : width) - GAP_PX / 2
    const to = from + width + GAP_PX
    if (taken.some(([begin, end]) => from < end && to > begin)) return false
    taken.push([from, to])
    return true
  })
}
