/**
 * What watches a team that is served: a Grafana dashboard with a panel for each metric that the code has, and alert
 * rules for Prometheus. `make-reference.mjs` writes both into docs/production/.
 */
import { stringify } from 'yaml'

/** Rows of the dashboard. A metric stands in the first row whose pattern fits its name. */
const ROWS = [
  ['HTTP', /^http_/],
  ['Tasks', /^(runs|run_|questions_|limit_waits)/],
  ['Agents', /^(agent_|agents_|threads$|stale_frames)/],
  ['Messages', /^(messages_|dead_letters|turn_)/],
  ['Models', /^model_/],
  ['Tools', /^tool_/],
  ['Log and process', /./],
]

/** Labels by which the lines of a panel are kept apart, beside the team. The first pattern that fits holds. */
const LABELS = [
  [/^http_request_/, ['route', 'status']],
  [/^messages_dead_lettered/, ['agent', 'reason']],
  [/^limit_waits/, ['limit']],
  [/^runs_ended/, ['ending']],
  [/^runs$/, ['state']],
  [/^threads$/, ['use']],
  [/^process_memory/, ['kind']],
  [/^model_tokens/, ['agent', 'model', 'direction']],
  [/^model_errors/, ['model', 'reason']],
  [/^model_call_duration/, ['model']],
  [/^model_/, ['agent', 'model']],
  [/^tool_errors/, ['tool', 'code']],
  [/^tool_duration/, ['tool']],
  [/^tool_/, ['agent', 'tool']],
  [/^(agent_|messages_|turn_|stale_frames)/, ['agent']],
  [/./, []],
]

const WIDTH = 24
const PANEL = { w: 8, h: 8 }

/**
 * Returns the dashboard, for Grafana's import.
 *
 * @param metrics `{ name, kind, help }` of each, in the order of the panels
 */
export function dashboard(metrics) {
  const panels = []
  let y = 0
  for (const [title, pattern] of ROWS) {
    const own = metrics.filter(({ name }) => rowOf(name) === pattern)
    if (own.length === 0) continue
    panels.push({ id: panels.length + 1, type: 'row', title, collapsed: false, gridPos: { x: 0, y, w: WIDTH, h: 1 } })
    y += 1
    for (const [at, metric] of own.entries()) {
      const x = (at * PANEL.w) % WIDTH
      panels.push({ id: panels.length + 1, ...panelOf(metric), gridPos: { x, y, ...PANEL } })
      if (x + PANEL.w === WIDTH || at === own.length - 1) y += PANEL.h
    }
  }
  return {
    title: 'dramatis',
    uid: 'dramatis',
    tags: ['dramatis'],
    editable: true,
    graphTooltip: 1,
    schemaVersion: 39,
    refresh: '10s',
    time: { from: 'now-1h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' },
        {
          name: 'team',
          type: 'query',
          label: 'Team',
          datasource: DATASOURCE,
          query: { query: 'label_values(dramatis_threads, team)', refId: 'team' },
          refresh: 2,
          includeAll: true,
          multi: true,
          allValue: '.*',
          current: { selected: true, text: 'All', value: '$__all' },
        },
      ],
    },
    panels,
  }
}

const DATASOURCE = { type: 'prometheus', uid: '$datasource' }
const short = (name) => name.replace(/^dramatis_/, '')
const rowOf = (name) => ROWS.find(([, pattern]) => pattern.test(short(name)))[1]
const labelsOf = (name) => LABELS.find(([pattern]) => pattern.test(short(name)))[1]

function panelOf({ name, kind, help }) {
  const words = short(name)
    .replace(/_total$/, '')
    .replace(/_seconds$/, '')
    .replaceAll('_', ' ')
  const isTime = /_seconds(_total)?$/.test(name)
  return {
    type: 'timeseries',
    title: `${words[0].toUpperCase()}${words.slice(1)}${kind === 'counter' && !isTime ? ' per second' : ''}`,
    description: help,
    datasource: DATASOURCE,
    fieldConfig: { defaults: { unit: unitOf(name, kind), min: 0, custom: { fillOpacity: 10 } }, overrides: [] },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
    targets: targetsOf(name, kind).map((target, at) => ({
      refId: 'ABC'[at],
      datasource: DATASOURCE,
      range: true,
      ...target,
    })),
  }
}

function unitOf(name, kind) {
  if (kind === 'counter' && name.endsWith('_seconds_total')) return 'percentunit' // seconds a second
  if (name.endsWith('_seconds')) return 's'
  return name.endsWith('_bytes') ? 'bytes' : 'short'
}

function targetsOf(name, kind) {
  const isOfTeam = !/^http_/.test(short(name))
  const by = [...(isOfTeam ? ['team'] : []), ...labelsOf(name)]
  const chosen = isOfTeam ? '{team=~"$team"}' : ''
  const legend = by.map((label) => `{{${label}}}`).join(' ')
  const grouped = (labels, text) => (labels.length > 0 ? `sum by (${labels.join(', ')}) (${text})` : `sum(${text})`)
  if (kind === 'histogram')
    return [0.5, 0.95].map((share) => ({
      expr: `histogram_quantile(${share}, ${grouped(['le', ...by], `rate(${name}_bucket${chosen}[$__rate_interval])`)})`,
      legendFormat: `p${share * 100} ${legend}`,
    }))
  const value = kind === 'counter' ? `rate(${name}${chosen}[$__rate_interval])` : `${name}${chosen}`
  return [{ expr: grouped(by, value), legendFormat: legend || short(name) }]
}

const DEAD = 'dramatis_messages_dead_lettered_total{reason!="cancelled"}'

/** Alerts: what is asked, for how long it must hold, how urgent it is, and what a person reads. */
const ALERTS = [
  {
    alert: 'DramatisDown',
    expr: 'up{job="dramatis"} == 0',
    for: '1m',
    severity: 'critical',
    summary: '{{ $labels.instance }} cannot be reached',
    description:
      'The process has ended, or its host loop is stuck. The log of the service says why; a durable log is what the next process goes on with.',
  },
  {
    alert: 'DramatisAgentNotReady',
    expr: 'min by (instance, team, agent) (dramatis_agent_ready) == 0',
    for: '2m',
    severity: 'critical',
    summary: 'Agent {{ $labels.agent }} of {{ $labels.team }} is not ready',
    description:
      'It was stopped after too many crashes, or cannot start. GET /api/agents says how it is; the log of the service has the error. POST /api/agents/{{ $labels.agent }}/restart starts it again.',
  },
  {
    alert: 'DramatisAgentCrashes',
    expr: 'sum by (instance, team, agent) (increase(dramatis_agent_crashes_total[15m])) > 3',
    severity: 'warning',
    summary: 'Agent {{ $labels.agent }} of {{ $labels.team }} crashes again and again',
    description:
      'Its messages come again after each crash. GET /api/dead-letters?reason=poison lists those that ended its thread too often.',
  },
  {
    alert: 'DramatisDeadLetters',
    // the first one of its agent and reason comes with a new series, in which nothing has increased
    expr: `sum by (instance, team, agent, reason) (increase(${DEAD}[15m])) > 0 or sum by (instance, team, agent, reason) (${DEAD} unless ${DEAD} offset 15m) > 0`,
    severity: 'warning',
    summary: 'Messages to {{ $labels.agent }} of {{ $labels.team }} are not handled ({{ $labels.reason }})',
    description: 'GET /api/dead-letters has them with their errors; POST /api/dead-letters/:id/replay sends one again.',
  },
  {
    alert: 'DramatisTasksFail',
    expr: 'sum by (instance, team) (increase(dramatis_runs_ended_total{ending="failed"}[15m])) > 0.1 * sum by (instance, team) (increase(dramatis_runs_ended_total[15m]))',
    for: '5m',
    severity: 'critical',
    summary: 'More than a tenth of the tasks of {{ $labels.team }} fail',
    description: 'GET /api/tasks?status=failed lists them with their errors.',
  },
  {
    alert: 'DramatisTasksRefused',
    expr: 'sum by (instance, team) (increase(dramatis_runs_ended_total{ending="refused"}[5m])) > 0',
    severity: 'warning',
    summary: '{{ $labels.team }} is overloaded and refuses tasks',
    description:
      'Clients get 503 with Retry-After. See maxConcurrentRuns and maxQueuedRuns, and what tasks wait for (GET /api/waits).',
  },
  {
    alert: 'DramatisTasksSlow',
    expr: 'histogram_quantile(0.95, sum by (le, instance, team) (rate(dramatis_run_duration_seconds_bucket[15m]))) > 300',
    for: '15m',
    severity: 'warning',
    summary: 'One task of twenty of {{ $labels.team }} takes more than 5 minutes',
    description: 'Set the bound to what your callers wait for. GET /api/waits says what is waited for now.',
  },
  {
    alert: 'DramatisWaitsForLimit',
    expr: 'dramatis_limit_waits > 0',
    for: '10m',
    severity: 'warning',
    summary: 'Work of {{ $labels.team }} has waited for {{ $labels.limit }} for 10 minutes',
    description: 'Raise that option, or ask less at a time. For a rate limit of a provider, ask it for more.',
  },
  {
    alert: 'DramatisMailboxFills',
    expr: 'dramatis_messages_queued > 500',
    for: '5m',
    severity: 'warning',
    summary: 'Messages pile up before {{ $labels.agent }} of {{ $labels.team }}',
    description: 'By default a mailbox has room for 1,000. Give the agent instances or concurrency, or send it less.',
  },
  {
    alert: 'DramatisAgentsWaitForThread',
    expr: 'dramatis_agents_waiting_for_thread > 0',
    for: '5m',
    severity: 'warning',
    summary: 'Agents of {{ $labels.team }} have waited for a thread for 5 minutes',
    description: 'Raise threads.max, or passivate agents that have nothing to do.',
  },
  {
    alert: 'DramatisModelErrors',
    expr: 'sum by (instance, team, model) (increase(dramatis_model_errors_total[10m])) > 0.1 * sum by (instance, team, model) (increase(dramatis_model_calls_total[10m]))',
    for: '5m',
    severity: 'critical',
    summary: 'More than a tenth of the calls of {{ $labels.model }} fail',
    description: 'dramatis_model_errors_total has the reasons: key, quota, rate limit, outage.',
  },
  {
    alert: 'DramatisToolErrors',
    expr: 'sum by (instance, team, tool) (increase(dramatis_tool_errors_total[10m])) > 0.2 * sum by (instance, team, tool) (increase(dramatis_tool_calls_total[10m]))',
    for: '5m',
    severity: 'warning',
    summary: 'More than a fifth of the calls of {{ $labels.tool }} fail',
    description: 'dramatis_tool_errors_total has the codes of the errors.',
  },
  {
    alert: 'DramatisQuestionsWait',
    expr: 'dramatis_questions_open > 0',
    for: '1h',
    severity: 'info',
    summary: 'A question of {{ $labels.team }} has waited for a person for an hour',
    description: 'GET /api/questions lists them.',
  },
  {
    alert: 'DramatisHostBusy',
    expr: 'rate(dramatis_host_event_loop_active_seconds_total[5m]) / (rate(dramatis_host_event_loop_active_seconds_total[5m]) + rate(dramatis_host_event_loop_idle_seconds_total[5m])) > 0.9',
    for: '5m',
    severity: 'warning',
    summary: "The host's loop of {{ $labels.instance }} works more than nine tenths of the time",
    description:
      'All messages pass it. Look for code of yours in the host (protocols, aggregators, inline tools); else spread the teams over more processes.',
  },
  {
    alert: 'DramatisHttpFails',
    expr: 'sum by (instance) (rate(dramatis_http_request_duration_seconds_count{status=~"5..",status!="503"}[5m])) > 0.05 * sum by (instance) (rate(dramatis_http_request_duration_seconds_count[5m]))',
    for: '5m',
    severity: 'critical',
    summary: 'More than one request of twenty to {{ $labels.instance }} is answered with an error',
    description:
      '500: the log of the service says what has failed. 502 and 504: a team has failed, or run out of time.',
  },
]

const HEAD = `# Alert rules for teams that dramatis serves. Made from the code: npm run reference.
# The bounds are where to begin; set them to what your callers expect.
`

/** Returns the alert rules, as a file for Prometheus. */
export function alertRules() {
  const rules = ALERTS.map(({ alert, expr, for: duration, severity, ...annotations }) => ({
    alert,
    expr,
    ...(duration && { for: duration }),
    labels: { severity },
    annotations,
  }))
  return HEAD + stringify({ groups: [{ name: 'dramatis', rules }] }, { lineWidth: 0 })
}
