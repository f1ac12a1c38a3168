/** Which detectors the team of a measurement has, to say what they cost: `none`, `all`, or the default ones. */
import type { SupervisionConfig } from 'dramatis'

export const DETECTORS = 'BENCH_DETECTORS'
export type Detectors = 'none' | 'default' | 'all'

/** It watches, and what is measured is nothing to it though nothing comes of it. */
const NEVER = 1_000_000_000

const SETTINGS: Readonly<Record<Detectors, SupervisionConfig>> = {
  none: { deadlock: false },
  default: {},
  all: { livelock: { maxRepeats: NEVER, maxMessagesWithoutProgress: NEVER } },
}

export const supervision: SupervisionConfig = SETTINGS[(process.env[DETECTORS] ?? 'default') as Detectors]
