/** What customers have sent back, as the desk finds it in the evening. */
export interface Return {
  order: string
  /** Price that was paid, in cents. */
  cents: number
  letter: string
}

export const returns: readonly Return[] = [
  { order: 'A-1041', cents: 8_900, letter: 'The kettle arrived with a crack in its side, and water runs out of it.' },
  { order: 'A-1042', cents: 4_500, letter: 'The scarf is lovely, but the colour does not suit me after all.' },
  { order: 'A-1043', cents: 129_900, letter: 'The screen of the laptop stays black. I tried another charger, too.' },
  { order: 'A-1044', cents: 2_300, letter: 'The birthday was on Friday. The book came on Tuesday.' },
  { order: 'A-1045', cents: 6_700, letter: 'One of the four cups was broken when I opened the box.' },
  { order: 'A-1046', cents: 15_900, letter: 'I ordered two of these by mistake and need only one.' },
]

/** Why something comes back, as the reader names it. */
export const REASONS = ['broken', 'late', 'unwanted'] as const
export type Reason = (typeof REASONS)[number]
