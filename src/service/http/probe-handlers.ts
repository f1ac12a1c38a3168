/** Probes and metrics, for what watches the service. */
import type { Metric } from '../../index.ts'
import { counter, gauge, histogram, prometheusText } from '../../runtime/metrics/prometheus.ts'
import { type Call, type Handlers, json } from './call.ts'
import type { RequestTimes } from './request-times.ts'
import type { ServedTeams } from './served-teams.ts'
import type { Streams } from './streams.ts'
import type { Tasks } from './tasks.ts'
import type { Unread } from './unread.ts'

interface Needs {
  readonly teams: ServedTeams
  readonly tasks: Tasks
  readonly streams: Streams
  readonly unread: Unread
  readonly times: RequestTimes
  readonly openapi: () => object
}

type Own = 'live' | 'ready' | 'health' | 'metrics' | 'openapi'

export function probeHandlers({ teams, tasks, streams, unread, times, openapi }: Needs): Pick<Handlers, Own> {
  let document: object | undefined
  const isLive = () => teams.all.every(({ team }) => team.health().live)
  const isReady = () => !tasks.isDraining && teams.all.every(({ team }) => team.health().ready)
  const answer = ({ caller }: Call, isWell: boolean): Response => {
    const health = () => Object.fromEntries(teams.all.map(({ name, team }) => [name, team.health()]))
    const status = isWell ? 'ok' : 'unavailable'
    return json({ status, ...(caller.may.includes('watch') && { teams: health() }) }, isWell ? 200 : 503)
  }
  return {
    live: (call) => answer(call, isLive()),
    ready: (call) => answer(call, isReady()),
    health: (call) => answer(call, isLive() && isReady()),
    metrics() {
      const text = prometheusText([...joined(teams), ...httpMetrics(times.samples(), streams.open, unread)])
      return new Response(text, { headers: { 'content-type': 'text/plain; version=0.0.4' } })
    },
    openapi() {
      document ??= openapi()
      return json(document)
    },
  }
}

/** Returns the metrics of the service itself. */
export const httpMetrics = (
  times: Metric['samples'],
  streams: number,
  { bytes, cuts }: Pick<Unread, 'bytes' | 'cuts'> = { bytes: 0, cuts: 0 },
): Metric[] => [
  histogram('http_request_duration', 'Time until the response of a route begins.', times),
  gauge('http_streams', 'Open event streams.', [{ labels: {}, value: streams }]),
  gauge('http_unread_bytes', 'Bytes of answers and streams that clients have not read.', [
    { labels: {}, value: bytes },
  ]),
  counter('http_unread_cuts', 'Answers and streams that were cut since nobody read them.', [
    { labels: {}, value: cuts },
  ]),
]

/** Returns the metrics of all teams, each sample with the name of its team. */
function joined(teams: ServedTeams): Metric[] {
  const byName = new Map<string, Metric>()
  for (const { name: team, team: served } of teams.all)
    for (const metric of served.metrics()) {
      const samples = metric.samples.map((sample) => ({ ...sample, labels: { team, ...sample.labels } }))
      const known = byName.get(metric.name)
      if (known) known.samples.push(...samples)
      else byName.set(metric.name, { ...metric, samples })
    }
  return [...byName.values()]
}
