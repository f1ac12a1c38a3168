/**
 * Rule 14: an agent that watches another is notified once when that agent is gone permanently, also if it is gone
 * already. A watch is kept here, not in the watcher's thread, so it survives the watcher's restarts; it ends with its
 * run.
 */
import type { Verb } from '../../actors/definition/trust.ts'
import type { DramatisError } from '../../errors.ts'
import { jsonIn } from '../../mailbox/codec.ts'
import { recipientOf } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { HostMessages } from '../admission/host-messages.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState, Watch } from '../state/run-state.ts'
import type { RunTable } from '../state/run-table.ts'
import type { HostVerb } from './host-verb.ts'

export interface WatchNeeds {
  readonly directory: AgentDirectory
  readonly hostMessages: HostMessages
  readonly runs: RunTable
}

export const watchVerbs = (needs: WatchNeeds): [Verb, HostVerb][] => [
  [
    'watch',
    (args, { cell, run }) => watch(needs, cell, run, needs.directory.require((args as { agent: string }).agent, run)),
  ],
]

/** Starts a watch. However often the watcher asks, it is notified once of each end that it has watched for. */
export function watch(needs: WatchNeeds, watcher: Cell, run: RunState, { index, name, gone }: Cell): void {
  const key = `${watcher.index} ${index}`
  const known = run.watches.get(key) ?? {
    watcher: watcher.index,
    index,
    agent: name,
    told: undefined,
    open: false,
  }
  run.watches.set(key, known)
  if (!gone) known.open = true
  else if (known.told !== gone) tell(needs, run, known, gone)
}

/** Notes that a watcher was notified, in an earlier process, if that is what the host's report says. */
export function noteTold(run: RunState, memory: Memory, at: number): void {
  const { event, agent } = Object(jsonIn(readBody(memory, at).data)) as { event?: unknown; agent?: unknown }
  if (event !== 'terminated') return
  const watcher = recipientOf(memory, at)
  for (const known of run.watches.values()) if (known.watcher === watcher && known.agent === agent) known.open = false
}

/** Notifies the watchers of an agent that is gone permanently. */
export function tellWatchers(needs: WatchNeeds, { index, gone }: Cell): void {
  if (!gone) return
  for (const run of needs.runs.values())
    for (const known of run.watches.values())
      if (known.index === index && known.open && !run.ending) tell(needs, run, known, gone)
}

function tell(needs: WatchNeeds, run: RunState, known: Watch, end: DramatisError): void {
  known.open = false
  known.told = end
  const { watcher, agent } = known
  const content = `Agent "${agent}" is gone for good: ${end.message}`
  needs.hostMessages.report(run, watcher, content, { event: 'terminated', agent, reason: end.message })
}
