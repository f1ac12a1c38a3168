/** Runs the examples one after the other, without a key: `npm run examples [-- name ...]`. Exit code 1 if one fails. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { withoutKeys } from './lib/without-keys.ts'

const SHOWS: Readonly<Record<string, string>> = {
  'agent-workbench': 'tasks are routed by capability and skill, voted on, and taken apart; a teammate comes later',
  'support-desk':
    'customers are handed to specialists, finance approves refunds, a model server dies; it does what is expected',
  'research-desk':
    'an orchestrator plans sub-tasks with roles and tools; researchers share a queue; what fails is planned anew',
  'review-desk': 'a reader of reviews is measured over sentences that people have labelled, against a simpler one',
  'writing-pipeline': 'a researcher, a writer and an editor work one after the other',
  'web-team': 'a manager plans, approves and sends back; two developers write and test',
  'api-debate': 'an advocate and a critic argue with evidence; a judge decides',
  'data-desk': 'analysts share a blackboard; one of them loses its thread, and its work goes on',
  'cluster-demo': 'three processes share a team; one is killed and one is frozen, and nothing is lost or done twice',
  'night-desk': 'a process is killed three times, and each next one goes on with what the log has',
  'coding-desk': 'an orchestrator asks, plans and delegates; an executor writes and tests a program',
  'city-desk': 'a question goes to the experts that it concerns, and comes back as one answer',
}

/** Needs more than Node, a PostgreSQL, and is run by its name alone. */
const ALONE = ['cluster-demo']

const LONGEST_MS = 120_000

/** Undefined: it did what it is for. */
function failureOf(name: string): string | undefined {
  const main = fileURLToPath(new URL(`${name}/main.js`, import.meta.url))
  const env = withoutKeys(process.env)
  const { status, signal, error } = spawnSync(process.execPath, [main], { stdio: 'inherit', env, timeout: LONGEST_MS })
  if (signal === 'SIGINT') process.exit(130) // Ctrl-C is meant for all of them
  if (status === 0) return undefined
  return error?.message ?? `exit code ${status ?? signal}`
}

const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => !Object.hasOwn(SHOWS, name))
if (unknown.length > 0) {
  console.error(`There is no example ${unknown.join(', ')}. There are ${Object.keys(SHOWS).join(', ')}.`)
  process.exit(1)
}
const names = wanted.length > 0 ? wanted : Object.keys(SHOWS).filter((name) => !ALONE.includes(name))
const failures: string[] = []
for (const name of names) {
  console.log(`\n======== ${name}: ${SHOWS[name]}\n`)
  const failure = failureOf(name)
  if (failure === undefined) continue
  failures.push(name)
  console.log(`\n${name} failed: ${failure}`)
}
console.log(`\n======== ${names.length - failures.length} of ${names.length} examples did what they are for`)
if (failures.length > 0) process.exitCode = 1
