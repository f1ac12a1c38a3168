/** A load test as text for people. */
import { oneLine } from '../../src/service/shared/failure.ts'
import { numberText } from '../report.ts'
import type { Growing, Loaded } from './load.ts'
import type { Sample } from './sampler.ts'
import type { Trend } from './trend.ts'

const MIB = 2 ** 20
/** Rows of the table of memory over time. */
const ROWS = 12

export function loadText(loaded: Loaded): string {
  const { plan, latenciesMs, samples } = loaded
  const lines = [
    `${plan.file}: ${askedFor(loaded)}`,
    '',
    field('executes', executes(loaded)),
    ...loaded.failures.map(({ code, count, message }) =>
      field('', `${count} ${code}, the first: ${oneLine(message, 300)}`),
    ),
    field('throughput', `${numberText(loaded.throughput)} answered/s over ${numberText(loaded.seconds)} s`),
    field(
      'latency',
      latenciesMs === null
        ? 'nothing was answered'
        : `p50 ${ms(latenciesMs.p50)}, p90 ${ms(latenciesMs.p90)}, p99 ${ms(latenciesMs.p99)}, p99.9 ${ms(latenciesMs.p999)}, max ${ms(latenciesMs.max)}`,
    ),
    field('restarts', String(loaded.restarts)),
    field('dead letters', String(loaded.deadLetters)),
    field('host busy', `${percent(loaded.hostBusy)} of the time, the load's own work included`),
    field('growing', growth(loaded.growing)),
    '',
    ...table(samples),
  ]
  return `${lines.join('\n')}\n`
}

function askedFor({ plan, interrupted }: Loaded): string {
  const { concurrency, rate, seconds, size } = plan
  const pace = [
    rate !== null && `${rate} executes per second`,
    concurrency !== null && `${concurrency} at a time`,
  ].filter(Boolean)
  return `${pace.join(', ')}, ${size} bytes each, for ${seconds} s${interrupted ? ', interrupted' : ''}`
}

function executes({ begun, answered, failed, unfinished, notBegun }: Loaded): string {
  const counts = [
    `${begun} begun`,
    `${answered} answered`,
    `${failed} failed`,
    unfinished > 0 && `${unfinished} not finished`,
    notBegun > 0 && `${notBegun} due but never begun`,
  ]
  return counts.filter(Boolean).join(', ')
}

const names: Record<keyof Growing, string> = {
  rss: 'memory of the process (rss)',
  heap: "the host's heap",
  external: "the host's external memory",
  queued: 'what waits (queued)',
}

function growth(growing: Growing | null): string {
  if (growing === null) return 'too short to tell; it takes 10 s'
  const found = (Object.entries(growing) as [keyof Growing, Trend][]).map(([name, { perSecond, overSeconds }]) => {
    const unit = name === 'queued' ? '' : ' MB'
    const slope = numberText(name === 'queued' ? perSecond : perSecond / MIB)
    return `${names[name]}: +${slope}${unit}/s over the last ${numberText(overSeconds)} s`
  })
  return found.length === 0 ? 'nothing' : found.join('; ')
}

function table(samples: readonly Sample[]): string[] {
  const last = samples.length - 1
  const rows = Math.min(ROWS, last)
  const chosen = Array.from(
    { length: rows + 1 },
    (_, row) => samples[rows === 0 ? 0 : Math.round((row * last) / rows)]!,
  )
  return [
    tableRow(['s', 'rss MB', 'heap MB', 'external MB', 'queued', 'host busy']),
    ...chosen.map(({ seconds, rss, heap, external, queued, busy }) =>
      tableRow([seconds.toFixed(1), mb(rss), mb(heap), mb(external), String(queued), percent(busy)]),
    ),
  ]
}

const field = (name: string, text: string) => name.padEnd(14) + text
const tableRow = (cells: string[]) => cells.map((cell) => cell.padStart(12)).join('')
const mb = (bytes: number) => (bytes / MIB).toFixed(1)
const ms = (value: number) => `${numberText(value)} ms`
const percent = (share: number) => `${Math.round(share * 100)}%`
