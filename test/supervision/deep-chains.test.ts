/** Chains of requests that are longer than a stack is deep: each turn waits for the next one. */
import t from 'tap'
import { ASKS, REQUEST } from '../../src/mailbox/frame.ts'
import { ORCHESTRATOR_INDEX } from '../../src/runtime/host/directory.ts'
import { BareSupervisor } from './bare-supervisor.ts'
import { never } from './teams.ts'

const DEPTH = 5_000

/** Two agents that are at such a chain of turns; the first request is the script's. */
function deepChain() {
  const role = { communication: { mailboxCapacity: DEPTH, mailboxBytes: DEPTH * 1_000 } }
  const bare = new BareSupervisor({ ann: () => never, bob: () => never }, [], { roles: { ann: role, bob: role } })
  const { host, run } = bare
  const agents = [host.directory.cell('ann')!, host.directory.cell('bob')!]
  const script = host.directory.cells[ORCHESTRATOR_INDEX]!
  let [caller, turn] = [script, 0]
  for (let n = 1; n <= DEPTH; n++) {
    const callee = agents[n % 2]!
    const fields = { sender: caller.index, recipient: callee.index, run: run.index, turn, correlation: n }
    const { memory, bytes } = host.frames.make({ kind: REQUEST, ...fields, content: `${n}`, flags: ASKS })
    host.journal.appendOwned(run, memory, bytes)
    host.admission.message({ sender: caller, run, memory, at: 0 })
    const { envelope } = caller.open.get(n)!
    callee.mailbox.hand(envelope)
    caller = callee
    turn = envelope.turn
  }
  return { host, agents, script }
}

t.test('a chain that is withdrawn at its beginning is withdrawn to its end', async (t) => {
  const { host, agents, script } = deepChain()
  const turns = agents.flatMap(({ mailbox }) => [...mailbox.handed.values()])
  host.cancellation.cancel(script, 1, undefined)
  t.equal(turns.length, DEPTH)
  t.ok(turns.every(({ cancelled }) => cancelled))
  t.ok([script, ...agents].every(({ open }) => open.size === 0))
})
