/** Pages of the project and of production: what they name is there. */

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { type AgentInstance, defineAgent, defineTool, type Run, type Team } from '../../src/index.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { LAST_EVENTS_MS } from '../../src/service/api/api.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { httpMetrics } from '../../src/service/api/record-handlers.ts'
import { KEEP_ALIVE_MS, LAST_READ_MS } from '../../src/service/api/server.ts'
import { routes } from '../../src/service/http/routes.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { blocksOf, read } from './page.ts'

// The files of docs/production: what they name is there, and their times fit each other.

const file = (name: string) => read(`docs/production/${name}`)
const dockerfile = file('Dockerfile')
const unit = file('dramatis.service')
const nginx = file('nginx.conf')
const traefik = parse(file('traefik.yaml'))
const kubernetes = parseAllDocuments(file('kubernetes.yaml')).map((document) => {
  if (document.errors.length > 0) throw document.errors[0]
  return document.toJS()
})
const pod = kubernetes.find(({ kind }) => kind === 'StatefulSet').spec.template.spec
const [container] = pod.containers
const alerts: { alert: string; expr: string; annotations: Record<string, string> }[] = parse(
  file('prometheus-alerts.yaml'),
).groups.flatMap(({ rules }: { rules: unknown[] }) => rules)
const dashboard = JSON.parse(file('grafana-dashboard.json'))
const queries: string[] = dashboard.panels.flatMap(({ targets = [] }: { targets?: { expr: string }[] }) =>
  targets.map(({ expr }) => expr),
)

/** Commands of the service, as the files start it. */
const commands = {
  Dockerfile: JSON.parse(/^CMD (.*)$/m.exec(dockerfile)![1]!),
  'dramatis.service': /^ExecStart=((?:.*\\\n)*.*)$/m.exec(unit)![1]!.replaceAll('\\\n', ' ').split(/\s+/),
  'kubernetes.yaml': container.args,
} as Record<string, string[]>

/** The longest time from SIGTERM to the end of the process. */
function endMs(command: string[]): number {
  const { supervision } = settingsFrom({ agents: [{ name: 'any', module: 'any' }] }).agents[0]!
  const [, drain] = /--drain[= ](\d+)/.exec(command.join(' '))!
  return Number(drain) + supervision.stopGraceMs + LAST_EVENTS_MS + LAST_READ_MS
}

t.test('each command is one of the command line, with a token, and with options that it has', async (t) => {
  const help = read('docs/reference/command-line.md') // its parts are generated
  for (const [name, command] of Object.entries(commands)) {
    t.ok(command.includes('node_modules/dramatis/dist/src/service/cli.js'), name)
    t.ok(command.some((word) => word.startsWith('--token-env')))
    const options = command.filter((word) => word.startsWith('--')).map((word) => word.split('=')[0]!)
    t.ok(options.length > 3)
    for (const option of options) t.match(help, new RegExp(`${option}\\b`), `${name}: ${option}`)
  }
})

t.test('whoever ends the process waits longer than it takes', async (t) => {
  const seconds = (pattern: RegExp, text: string) => Number(pattern.exec(text)![1]) * 1_000
  t.ok(seconds(/--stop-timeout (\d+)/, dockerfile) > endMs(commands.Dockerfile!))
  t.ok(seconds(/^TimeoutStopSec=(\d+)$/m, unit) > endMs(commands['dramatis.service']!))
  const [, preStop] = container.lifecycle.preStop.exec.command
  const grace = pod.terminationGracePeriodSeconds * 1_000
  t.ok(grace > Number(preStop) * 1_000 + endMs(commands['kubernetes.yaml']!))
  t.match(unit, /^KillSignal=SIGTERM$/m)
  const page = read('docs/how-to/run-in-production.md')
  t.match(page, `TimeoutStopSec=40\`, \`terminationGracePeriodSeconds: ${pod.terminationGracePeriodSeconds}\``)
})

t.test('probes ask routes that need no token, at the port of the service', async (t) => {
  const open = Object.values(routes).flatMap((route) => ('isOpen' in route && route.isOpen ? [route.path] : []))
  const [{ name, containerPort }] = container.ports
  t.equal(containerPort, Number(/--port=(\d+)/.exec(container.args.join(' '))![1]))
  for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe']) {
    const { path, port } = container[probe].httpGet
    t.ok(open.includes(path), path)
    t.equal(port, name)
  }
  t.ok(open.includes(traefik.http.services.desk.loadBalancer.healthCheck.path))
})

t.test('the service runs without root, and writes nothing but its log and temporary files', async (t) => {
  t.match(dockerfile, /^USER node$/m)
  t.match(unit, /^ProtectSystem=strict$/m)
  t.match(pod.securityContext, { runAsNonRoot: true })
  t.match(container.securityContext, { readOnlyRootFilesystem: true, allowPrivilegeEscalation: false })
  t.same(container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath).sort(), ['/data', '/tmp'])
})

t.test('proxies wait for a task as long as it may take, and buffer no stream', async (t) => {
  const { globalTimeoutMs } = settingsFrom({ agents: [{ name: 'any', module: 'any' }] })
  t.ok(Number(/proxy_read_timeout (\d+)s;/.exec(nginx)![1]) * 1_000 > globalTimeoutMs)
  t.match(nginx, /proxy_buffering off;/)
  t.match(file('Caddyfile'), /flush_interval -1/)
  t.equal(traefik.http.serversTransports.desk.forwardingTimeouts.responseHeaderTimeout, '0s')
})

t.test('proxies give idle connections up before the service does, so that no request meets a closed one', async (t) => {
  const idle = [/keepalive_timeout (\d+)s;/.exec(nginx), /keepalive (\d+)s/.exec(file('Caddyfile'))].map(
    (found) => found![1],
  )
  idle.push(/^(\d+)s$/.exec(traefik.http.serversTransports.desk.forwardingTimeouts.idleConnTimeout)![1])
  for (const seconds of idle) t.ok(Number(seconds) * 1_000 < KEEP_ALIVE_MS)
})

t.test('dashboard and alerts ask for metrics that there are, by labels that these have', async (t) => {
  const { names, labels } = await servedMetrics(t.teardown)
  const ofOthers = /_event_loop_|_durable_log_/ // of threads, and of a log on a disk
  const without = [...names].filter((name) => !labels.has(name) && !ofOthers.test(name))
  const never = ['dramatis_limit_waits', 'dramatis_model_money_total', 'dramatis_model_switches_total']
  t.same(without, never, 'nothing of that happens here')
  for (const expr of [...queries, ...alerts.map((rule) => rule.expr)]) {
    const asked = (expr.match(/\bdramatis_\w+/g) ?? []).map(baseOf)
    t.ok(asked.length > 0 || expr.startsWith('up{'), expr)
    for (const name of asked) {
      t.ok(names.has(name), name)
      const known = labels.get(name)
      const used = [
        ...Array.from(expr.matchAll(/\bby \(([^)]*)\)/g), ([, by]) => by!.split(', ')).flat(),
        ...Array.from(expr.matchAll(/(\w+)!?=~?"/g), ([, label]) => label!),
      ]
      if (known) for (const label of used) t.ok(label === 'instance' || known.has(label), `${name}: ${label}`)
    }
  }
  for (const name of names)
    t.ok(
      queries.some((query) => query.includes(name)),
      `no panel shows ${name}`,
    )
})

/** The name of a metric without the ending of a series of a histogram. */
const baseOf = (name: string): string => name.replace(/_seconds_(?:bucket|sum|count)$/, '_seconds')

t.test('an alert on a single event sees the first one, which comes with a new series', async (t) => {
  const always = /dramatis_runs_ended_total/ // its series are there from the start, as zeros
  const single = alerts.filter(({ expr }) => /increase\(.*\) > 0(?: |$)/.test(expr) && !always.test(expr))
  t.ok(single.length > 0)
  for (const { alert, expr } of single) t.match(expr, /unless .* offset/, alert)
})

t.test('what alerts tell to ask is a route', async (t) => {
  const paths = Object.values(routes).map(({ method, path }) => `${method} ${path}`)
  for (const { alert, annotations } of alerts) {
    const text = annotations.description!.replaceAll('{{ $labels.agent }}', ':name')
    for (const [named] of text.matchAll(/\b(?:GET|POST) \/[\w/:-]+/g)) t.ok(paths.includes(named), `${alert}: ${named}`)
  }
})

/** The metrics of a service, and their labels, when everything has happened that is counted. */
async function servedMetrics(atEnd: (task: () => Promise<void>) => void) {
  const broken = defineTool({
    name: 'broken',
    description: 'fails',
    input: z.object({}),
    run() {
      throw new Error('no ink')
    },
  })
  const worker = defineAgent({
    async receive(_message, context) {
      await context.tool('broken', {}).catch(() => {})
      await context.send('nobody', 'hello').catch(() => {})
      return 'done'
    },
  })
  const team = testTeam(
    {
      agents: [{ name: 'worker', tools: [broken] }, { name: 'writer' }],
      orchestration: { strategy: 'sequential' },
      budget: { perTeam: { tokens: 100_000, period: 'day' } },
    },
    { modules: { worker }, model: scriptedModel([{ agent: 'writer', fail: 'server' }]) },
  )
  const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'me', may: ['run', 'watch'] }) })
  atEnd(() => api.close({ teams: true }))
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ query: 'go' })
  await api.fetch(new Request('http://localhost/api/tasks', { method: 'POST', headers, body }))
  const page = await (await api.fetch(new Request('http://localhost/metrics'))).text()
  const labels = new Map<string, Set<string>>()
  for (const [, name, text = ''] of page.matchAll(/^(dramatis_\w+)(?:\{(.*)\})? \S+$/gm)) {
    const known = labels.get(baseOf(name!)) ?? new Set()
    for (const [, label] of text.matchAll(/(\w+)="/g)) known.add(label!)
    labels.set(baseOf(name!), known)
  }
  return { names: new Set([...team.metrics(), ...httpMetrics([], 0)].map(({ name }) => name)), labels }
}

// The page of what a team can do: the types here have no member that it does not name.

/** Does not compile when a member is missing. */
type Members<T> = Record<Extract<keyof T, string>, true>

const team: Members<Team> = {
  addAgent: true,
  answer: true,
  beginThread: true,
  broadcast: true,
  budgets: true,
  canDelegate: true,
  circleIn: true,
  close: true,
  currency: true,
  deadLetters: true,
  delegateTask: true,
  digestOf: true,
  events: true,
  execute: true,
  flush: true,
  getAgent: true,
  getAgentStatus: true,
  getBlackboard: true,
  getDelegationGraph: true,
  getMessageHistory: true,
  getRun: true,
  getTaskStatus: true,
  health: true,
  isForgotten: true,
  judgement: true,
  launch: true,
  listAgents: true,
  listRuns: true,
  logName: true,
  logPath: true,
  metrics: true,
  orchestration: true,
  questions: true,
  reload: true,
  reloadAgent: true,
  removeAgent: true,
  replay: true,
  restartAgent: true,
  resume: true,
  resumePending: true,
  runLimits: true,
  sendMessage: true,
  start: true,
  stream: true,
  thread: true,
  turns: true,
  waitCycles: true,
  waits: true,
  watch: true,
}

const run: Members<Run> = {
  answer: true,
  blackboard: true,
  board: true,
  cancel: true,
  events: true,
  id: true,
  messageHistory: true,
  metadata: true,
  money: true,
  query: true,
  questions: true,
  result: true,
  speaker: true,
  startedAt: true,
  status: true,
  steer: true,
  steers: true,
  stream: true,
  tasks: true,
  tenant: true,
  text: true,
  trace: true,
  usage: true,
  usageByAgent: true,
}

const agent: Members<AgentInstance> = {
  config: true,
  getContext: true,
  getContextSummary: true,
  getMessageHistory: true,
  getProgress: true,
  getTokenUsage: true,
  name: true,
  receiveMessage: true,
  role: true,
  run: true,
  status: true,
  workspace: true,
}

t.test('docs/reference/team.md has each member of a team, a run and an agent', async (t) => {
  const [, ...parts] = read('docs/reference/team.md').split(/^## /m)
  for (const [heading, members] of [
    ['A team', team],
    ['A run', run],
    ['An agent', agent],
  ] as const) {
    const part = parts.find((each) => each.startsWith(`${heading}\n`)) ?? ''
    t.same(
      Object.keys(members).filter((name) => !part.includes(`\`${name}\``)),
      [],
      heading,
    )
  }
})

// The commands of docs/project/open-questions.md run, and print what it shows. Requirement P31.

const page = readFileSync('docs/project/open-questions.md', 'utf8') // tests are started in the project's folder
const blocks = blocksOf(page)
const cli = JSON.stringify(resolve('dist/src/service/cli.js'))
// A benchmark's figures differ from run to run: its own tests are in test/bench/.
const shown = blocks.flatMap(({ language, text }, at) =>
  language === 'sh' && !text.includes(' bench ') ? [{ command: text.trim(), printed: blocks[at + 1] }] : [],
)

t.test('each answer names tests, and they are there', async (t) => {
  const named = page.match(/^Tests: .+$/gm) ?? []
  t.equal(named.length, 6)
  for (const line of named) {
    const files = [...line.matchAll(/`([^`]+)`/g)].map(([, name]) => `test/${name}.test.ts`)
    t.ok(files.length > 0, line)
    for (const file of files) t.ok(existsSync(file), file)
  }
})

t.test('each command stands before what it prints', async (t) => {
  t.ok(shown.length >= 5)
  for (const { command, printed } of shown) {
    t.match(command, /^npm run -s dramatis -- run examples\//)
    t.equal(printed?.language, 'text', command)
  }
})

for (const { command, printed } of shown)
  t.test(command, async (t) => {
    const line = command.replace('npm run -s dramatis --', `"$NODE" ${cli}`).replace('| node ', '| "$NODE" ')
    const env = { ...process.env, NODE: process.execPath, NO_COLOR: '1', FORCE_COLOR: '0' }
    const { status, stdout, stderr } = spawnSync(line, { encoding: 'utf8', shell: true, env })
    t.equal(status, 0, stderr)
    t.equal(stdout, printed?.text)
  })
