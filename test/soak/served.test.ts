/**
 * A desk that is served with a durable log: customers in threads, approvals, readers of events and an open dashboard, while
 * its process ends again and again, in order and killed. Nothing is lost or paid twice, and nothing climbs: neither what
 * a task costs, nor what a process holds, nor what a start takes.
 *
 *   npm run test:soak -- served   for SOAK_MINUTES (30)      npm run test:deep   for one      npm test   for some seconds, no slopes
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { type ChatBody, modelServer } from '../fixtures/model-server.ts'
import { Customers } from './customers.ts'
import { DeskProcess, sizeOf } from './desk-process.ts'
import { climb } from './slopes.ts'

const MIB = 2 ** 20
const minutes = Number(process.env.SOAK_MINUTES ?? (process.env.DRAMATIS_DEEP ? 1 : 0.05))
const ms = minutes * 60_000
/** Lives of the process: enough to tell a slope. The first ones warm up. */
const LIVES = minutes >= 5 ? 30 : 2
const WARM_UP = 4
const lifeMs = ms / LIVES
/** Time under load again before the process is ended. */
const LAST_MS = Math.min(1_000, lifeMs / 4)

/** What may climb from the first life to the last, beside a quarter of the median. */
const ALLOWED = {
  cpuMsATask: 2,
  bytesATask: 1_024,
  heap: 6 * MIB,
  openCpuMs: 150,
  files: 6,
  threads: 2,
}
type Series = keyof typeof ALLOWED
const series: Record<Series, number[]> = {
  cpuMsATask: [],
  bytesATask: [],
  heap: [],
  openCpuMs: [],
  files: [],
  threads: [],
}

t.test(`${minutes} minutes of a served desk whose process ends again and again`, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-soak-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const [log, payments] = [join(folder, 'log'), join(folder, 'payments')]
  const models = await modelServer(t)
  models.always(({ body }) => {
    models.forget()
    return answerTo(body)
  })
  const customers = new Customers()
  let desk = await DeskProcess.start([log, payments, models.baseURL])
  t.teardown(() => desk.end('SIGKILL'))
  customers.url = desk.url
  customers.begin()
  const begun = performance.now()
  for (let life = 1; life <= LIVES; life++) {
    const before = { ...(await desk.usage()), ...bytesOf(log), done: customers.done }
    const leftMs = begun + life * lifeMs - performance.now() // its start and its end took some of it
    await pause(Math.max(lifeMs / 2, leftMs))
    await customers.rest()
    const usage = await desk.usage()
    const tasks = Math.max(1, customers.done - before.done)
    series.cpuMsATask.push((usage.cpuMs - before.cpuMs) / tasks)
    series.bytesATask.push((sizeOf(log).bytes - before.bytes) / tasks)
    series.openCpuMs.push(desk.openCpuMs)
    for (const name of ['heap', 'files', 'threads'] as const) series[name].push(usage[name])
    customers.resume()
    await pause(LAST_MS) // it ends with work under way
    await desk.end(life % 3 === 0 ? 'SIGTERM' : 'SIGKILL')
    desk = await DeskProcess.start([log, payments, models.baseURL])
    customers.url = desk.url
  }
  await customers.end()
  await desk.end('SIGTERM')

  const { done, streams, wrong } = customers
  t.comment(`${done} tasks, ${customers.payments} payments, ${streams} streams, ${sizeOf(log).files} files of the log`)
  for (const [name, values] of Object.entries(series)) t.comment(`${name}: ${values.map((value) => Math.round(value))}`)
  t.same(wrong, [], 'each task ends as it must, and each stream is whole')
  t.ok(done > LIVES, `${done} tasks`)
  const paid = existsSync(payments) ? readFileSync(payments, 'utf8').trim().split('\n') : []
  t.equal(new Set(paid).size, paid.length, 'nothing is paid twice')
  if (LIVES > WARM_UP) t.same(climbing(), [], 'nothing climbs')
})

/** Orders are answered with their own words; those that pay are paid first. */
function answerTo({ messages }: ChatBody) {
  const at = messages.findLastIndex(({ content }) => content?.includes('order '))
  const order = /order \w+ \d+/.exec(messages[at]?.content ?? '')?.[0] ?? 'nothing'
  const isPaid = messages.slice(at).some(({ role }) => role === 'tool')
  if (order.includes('pay') && !isPaid) return { toolCalls: [{ name: 'pay', input: { order } }] }
  return { text: `done ${order}` }
}

function climbing(): string[] {
  return Object.entries(ALLOWED).flatMap(([name, allowed]) => {
    const values = series[name as Series].slice(WARM_UP)
    const middle = values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
    const rise = climb(values, Math.max(allowed, middle / 4))
    return rise
      ? [`${name}: by ${Math.round(rise)} in ${values.length} lives, ${Math.round(middle)} in the middle`]
      : []
  })
}

const bytesOf = (log: string) => ({ bytes: sizeOf(log).bytes })
