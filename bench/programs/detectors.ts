/** Which detectors the team of a measurement has, to say what they cost: `none`, `all`, or the default ones. */
import type { SupervisionConfig } from 'dramatis'

export const DETECTORS = 'BENCH_DETECTORS'
export type Detectors = 'none' | 'default' | 'all'

const SETTINGS: Readonly<Record<Detectors, SupervisionConfig>> = {
  none: { deadlock: false },
  default: {},
  all: { livelock: {} },
}

export const supervision: SupervisionConfig = SETTINGS[(process.env[DETECTORS] ?? 'default') as Detectors]
