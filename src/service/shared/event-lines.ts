/** Events in words: one line for each that is worth one. */
import type { RuntimeEvent } from '../../index.ts'
import { oneLine } from './failure.ts'

type EventOf<Type extends RuntimeEvent['type']> = Extract<RuntimeEvent, { type: Type }>
type TaskEvent = EventOf<'task'>

const LONGEST_REASON = 150

const TROUBLE: ReadonlySet<RuntimeEvent['type']> = new Set(['agent.crashed', 'message.dead'] as const)

/** Checks for an event that a person who looks away for a moment must still find later. */
export function isTrouble(event: RuntimeEvent): boolean {
  return 'sentence' in event || TROUBLE.has(event.type) || (event.type === 'sync' && event.result.timedOut)
}

/**
 * Makes the function from an event to its line, or to undefined if it is worth none. It remembers which agents were
 * ready and which tasks had begun, so that it says so once.
 */
export function eventLines(): (event: RuntimeEvent) => string | undefined {
  const ready = new Set<string>()
  const crashed = new Map<string, number>()
  const begun = new Set<string>()

  const words = (event: RuntimeEvent): string | undefined => {
    switch (event.type) {
      case 'agent.status':
        return statusWords(event, ready, crashed)
      case 'agent.crashed':
        crashed.set(event.agent, event.epoch)
        return `${event.agent} crashed: ${reasonWords(event.error.message)}; ${restartWords(event.restartInMs)}`
      case 'task':
        return taskWords(event.task, begun)
      case 'message.dead': {
        const { message, reason } = event.letter
        const to = Array.isArray(message.recipient) ? message.recipient.join(', ') : (message.recipient ?? 'nobody')
        return `dead letter: ${message.type} from ${message.sender} to ${to}: ${reason}`
      }
      case 'tool.started':
        return event.simulated ? `${event.agent} uses ${event.tool}: simulated, it does not run` : undefined
      case 'tool.progress':
        return `${event.agent} uses ${event.tool}: ${event.note}`
      case 'tool.finished':
        return event.error ? `${event.agent} uses ${event.tool}: ${reasonWords(event.error.message)}` : undefined
      case 'sync':
        return syncWords(event)
      default:
        return 'sentence' in event ? `${event.type}: ${event.sentence}` : undefined
    }
  }
  return (event) => {
    const line = words(event)
    return line === undefined ? undefined : oneLine(line)
  }
}

function statusWords(
  { agent, status, epoch }: EventOf<'agent.status'>,
  ready: Set<string>,
  crashed: Map<string, number>,
) {
  if (status === 'failed') return `${agent} is stopped for good`
  if (agent.startsWith('$') || (status !== 'idle' && status !== 'running')) return undefined // '$': the runtime's own
  if (epoch > (crashed.get(agent) ?? epoch)) {
    crashed.delete(agent)
    return `${agent} is ready again`
  }
  if (ready.has(agent)) return undefined
  ready.add(agent)
  return `${agent} is ready`
}

/** A sentence that another part follows: without its full stop, and short enough to leave room. */
function reasonWords(message: string): string {
  return oneLine(message.replace(/\.$/, ''), LONGEST_REASON)
}

function restartWords(restartInMs: number | null): string {
  if (restartInMs === null) return 'it does not restart'
  return restartInMs === 0 ? 'restarts at once' : `restarts in ${Math.round(restartInMs)} ms`
}

function syncWords({ point, result: { generation, arrived, missing } }: EventOf<'sync'>): string {
  const who = arrived.join(', ') || 'nobody'
  if (missing.length === 0) return `sync point ${point} (generation ${generation}): ${who} met`
  return `sync point ${point} (generation ${generation}) ended without ${missing.join(', ')}; ${who} arrived`
}

function taskWords(
  { id, status, assignedTo, description, reason }: TaskEvent['task'],
  begun: Set<string>,
): string | undefined {
  const what = `${assignedTo ?? 'nobody'}: ${oneLine(description, 80)}`
  switch (status) {
    case 'assigned':
    case 'in_progress':
      if (begun.has(id)) return undefined
      begun.add(id)
      return `task started: ${what}`
    case 'completed':
    case 'failed':
    case 'refused':
    case 'cancelled':
      begun.delete(id)
      return `task ${status}: ${what}`
    case 'handed_off':
      begun.delete(id)
      return `task handed off: ${what}`
    case 'skipped':
      return `task skipped: ${oneLine(description, 80)}: ${reasonWords(reason ?? '')}`
    default:
      return undefined
  }
}
