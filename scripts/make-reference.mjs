/**
 * Writes what is made from the code: the parts of docs/reference/ between `<!-- generated: NAME -->` and `<!-- end -->`,
 * and the dashboard and the alert rules of docs/production/.
 *
 *   npm run reference            writes them
 *   npm run reference -- --check says which differ, with exit code 1
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { httpMetrics } from '../dist/src/service/api/record-handlers.js'
import { main } from '../dist/src/service/commands/program.js'
import { routes } from '../dist/src/service/http/routes.js'
import { testTeam } from '../dist/src/testing.js'
import { root } from './files.mjs'
import { alertRules, dashboard } from './monitoring.mjs'

const parts = {
  metrics: () => table(['metric', 'type', 'what it counts'], metrics()),
  'http-routes': () => table(['route', 'right', 'what it does', 'answers'], httpRoutes()),
  run: () => help('run'),
  chat: () => help('chat'),
  top: () => help('top'),
  serve: () => help('serve'),
  mcp: () => help('mcp'),
  acp: () => help('acp'),
  rehearse: () => help('rehearse'),
  eval: () => help('eval'),
  'eval-cases': () => help('eval', 'cases'),
  trace: () => help('trace'),
  replay: () => help('replay'),
  runs: () => help('runs'),
  resume: () => help('resume'),
  questions: () => help('questions'),
  answer: () => help('answer'),
  'log-check': () => help('log', 'check'),
  'log-compact': () => help('log', 'compact'),
  'log-repair': () => help('log', 'repair'),
}
const pages = ['metrics', 'command-line', 'http'].map((name) => join(root, 'docs/reference', `${name}.md`))
const check = process.argv.includes('--check')

for (const page of pages) {
  const old = readFileSync(page, 'utf8')
  let made = old
  for (const [, name] of old.matchAll(/^<!-- generated: ([\w-]+) -->$/gm)) {
    const text = await parts[name]()
    const place = new RegExp(`(<!-- generated: ${name} -->\n)[\\s\\S]*?(<!-- end -->)`)
    made = made.replace(place, (_, begin, end) => `${begin}\n${text}\n${end}`)
  }
  keep(page, old, made)
}

const monitoring = {
  'grafana-dashboard.json': `${JSON.stringify(dashboard(allMetrics()), null, 2)}\n`,
  'prometheus-alerts.yaml': alertRules(),
}
for (const [name, made] of Object.entries(monitoring)) {
  const path = join(root, 'docs/production', name)
  keep(path, existsSync(path) ? readFileSync(path, 'utf8') : '', made)
}

/** Writes a file that differs from what is made now, or says so. */
function keep(path, old, made) {
  if (made === old) return
  if (check) {
    console.log(`${path} differs from the code: npm run reference`)
    process.exitCode = 1
  } else writeFileSync(path, made)
}

/** Every route of the HTTP API, in the order of its table. */
function httpRoutes() {
  return Object.values(routes).map(({ method, path, also = [], rights, summary, query, answers }) => {
    const names = Object.keys(query.shape)
    const asked = names.length > 0 ? `?${names.join('&')}` : ''
    const shown = [path, ...also].map((each) => each.replace(/\{.*\}/, '')) // without the pattern of a parameter
    const paths = shown.map((each) => `\`${method} ${each}${asked}\``).join(', ')
    return [paths, rights.join(', '), summary, Object.keys(answers).join(', ')]
  })
}

/** Every metric of a service, in the order in which it has them: those of a team, and those of HTTP. */
function metrics() {
  return allMetrics().map(({ name, kind, help }) => [`\`${name}\``, kind, help])
}

function allMetrics() {
  const team = testTeam(
    { agents: [{ name: 'any' }], orchestration: { strategy: 'sequential' } },
    { modules: { any: { receive: () => 'any' } } },
  )
  return [...team.metrics(), ...httpMetrics([], 0)]
}

async function help(...command) {
  let text = ''
  const answer = {
    async write(piece) {
      text += piece
    },
  }
  await main([...command, '--help'], { answer, stderr: { write: () => true } })
  return `\`\`\`text\n${text.trimEnd()}\n\`\`\`\n`
}

function table(head, rows) {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at].length)))
  const line = (cells) => `| ${cells.map((cell, at) => cell.padEnd(widths[at])).join(' | ')} |\n`
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('')
}
