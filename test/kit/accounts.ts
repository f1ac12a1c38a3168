/** Rule 17 as a check: what a supervisor knows of its mailboxes has to add up at every moment. */
import type { Agent } from '../../src/runtime/host/agent.ts'
import type { RunState } from '../../src/runtime/host/run.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import { miscounts } from '../mailbox/recounts.ts'

/** What does not add up now; empty when all does. */
export function imbalances(host: Supervisor): string[] {
  const found: string[] = []
  const open = new Map<object, number>()
  for (const { name, mailbox, instances } of host.directory.byIndex) {
    const { accepted, handled, deadLettered, waiting, underWay, pending: parked } = mailbox
    const inHand = instances.flatMap((each) => [...each.mailbox.handed.all()])
    if (accepted !== handled + deadLettered + waiting + inHand.length || underWay !== inHand.length)
      found.push(
        `${name}: ${accepted} accepted, ${handled} handled, ${deadLettered} dead, ${waiting} + ${inHand.length}`,
      )
    for (const each of instances)
      found.push(...miscounts(each.mailbox).map((field) => `${name}: ${field} is miscounted`))
    for (const { run } of [...mailbox.queued(), ...inHand, ...parked]) open.set(run, (open.get(run) ?? 0) + 1)
  }
  for (const { envelope } of host.blocked.all) open.set(envelope.run, (open.get(envelope.run) ?? 0) + 1)
  for (const run of host.runs.values())
    if (run.open !== (open.get(run) ?? 0)) found.push(`run ${run.index}: open ${run.open}, but ${open.get(run) ?? 0}`)
  return found
}

/** Mailboxes that have more than was taken of their room: not so where every thread claims what it sends. */
export function unclaimed(host: Supervisor): string[] {
  return host.directory.byIndex.flatMap(({ name, index, mailbox, gone }) => {
    const { waiting, underWay, pending: parked, expected } = mailbox
    const there = waiting + underWay + (expected && parked.peek() === expected ? 1 : 0)
    const taken = host.team.taken(index)
    return gone || taken >= there ? [] : [`${name}: room for ${taken}, not ${there}`]
  })
}

/** Checks with every record of the supervisor; gives what did not add up so far. */
export function watchAccounts(host: Supervisor): string[] {
  const found: string[] = []
  const unretired = watchRetired(host)
  host.journal.records$.subscribe(() => found.push(...imbalances(host), ...unclaimed(host), ...unretired()))
  return found
}

/** Says with each batch which runs are over and quiet, and were with the batch before: they should have been retired. */
function watchRetired({ runs }: Supervisor): () => string[] {
  let before: readonly RunState[] = []
  return () => {
    const quiet = [...runs.values()].filter(({ over, open, onQuiet }) => over && open <= 0 && onQuiet)
    const late = quiet.filter((run) => before.includes(run))
    before = quiet
    return late.map(({ index }) => `run ${index}: over and quiet, but not retired`)
  }
}

/** What is left over when nobody has anything to do: waits, room that was not given back, permits. */
export function leftovers(host: Supervisor): string[] {
  const held = host.blocked.all.map(({ callee }) => `${callee.name}: held tasks`)
  const leftovers = host.directory.byIndex.flatMap((agent) => {
    const { name, mailbox, open, calls, acknowledgements: verdicts, suspects, gone, settings, instances } = agent
    const { capacity } = settings.mailbox
    const left = [
      mailbox.empty ? '' : 'messages',
      mailbox.pending.length === 0 ? '' : 'parked messages',
      open.size === 0 ? '' : 'open requests',
      calls.size + verdicts.size === 0 ? '' : 'open calls',
      suspects.size === 0 ? '' : 'suspects',
      instances.every(({ withoutPermit, promised }) => withoutPermit.size + promised.size === 0) ? '' : 'permits',
      gone || !settings.isAgent || roomOf(host, agent) === capacity ? '' : `room ${roomOf(host, agent)} of ${capacity}`,
    ]
    return left.filter((what) => what !== '').map((what) => `${name}: ${what}`)
  })
  return [...held, ...leftovers]
}

/** How many more messages its mailbox would take. */
export function roomOf({ team }: Supervisor, { index, settings }: Agent): number {
  let room = 0
  while (room <= settings.mailbox.capacity && team.reserve(index, 0)) room += 1
  for (let i = 0; i < room; i++) team.release(index, 0)
  return room
}
