/**
 * What comes of messages and runs while an agent dies of every n-th message: the order and the delivery of numbered messages
 * of two senders, then runs that each ask that agent for one thing, and of which every third kills it.
 *
 *   faults.js <messages of each sender> <runs> <every>
 */
import { createTeam } from 'dramatis'
import type { Noted, Numbered } from '../agents/mortal.ts'

export interface Faults {
  messages: number
  handled: number
  outOfOrder: number
  runs: number
  completed: number
  /** Deaths, and those after which the message was handled. */
  crashes: number
  recovered: number
}

const SENDERS = ['left', 'right']
const DIES_IN = 3
const [count = 0, runs = 0, every = 1] = process.argv.slice(2).map(Number)
const module = (name: string) => new URL(`../agents/${name}.js`, import.meta.url)
let noted: Noted = {}

const team = createTeam({
  agents: [
    { name: 'mortal', module: module('mortal'), data: { every } },
    ...SENDERS.map((name) => ({ name, module: module('numberer') })),
  ],
  logger: { debug() {}, info() {}, warn() {}, error: console.error },
  supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 0, capMs: 0 } },
  orchestration: {
    strategy: 'custom',
    async run(orchestrator, query) {
      if (query === 'send') {
        const outcomes = await orchestrator.requestAll(SENDERS, 'go', { structuredData: { to: 'mortal', count } })
        for (const outcome of outcomes) if (!outcome.ok) throw outcome.error
        noted = (await orchestrator.request<undefined, Noted>('mortal', 'what have you got?')).structuredData
      } else {
        const structuredData: Numbered = { number: Number(query) }
        await orchestrator.request('mortal', 'note', { structuredData })
      }
      return 'done'
    },
  },
})
let crashes = 0
let recovered = 0
team.events.subscribe((event) => {
  if (event.type === 'agent.crashed') crashes += 1
  if (event.type === 'turn.finished' && event.attempt === 2) recovered += 1
})
const sent = await team.execute('send')
if (!sent.success) throw sent.error
const results = await Promise.all(
  Array.from({ length: runs }, (_, i) => team.execute(`${i % DIES_IN === 0 ? every : 1}`)),
)
await team.close()

const senders = Object.values(noted)
const faults: Faults = {
  messages: count * SENDERS.length,
  handled: senders.reduce((sum, sender) => sum + sender.count, 0),
  outOfOrder: senders.reduce((sum, sender) => sum + sender.outOfOrder, 0),
  runs,
  completed: results.filter(({ success }) => success).length,
  crashes,
  recovered,
}
console.log(JSON.stringify(faults))
