/** `dramatis replay <run> --log <folder>`: the moments of a run of a log, and the state of the run at one of them. */
import type { MailboxView, RunMoment, RunView } from '../../index.ts'
import { logFolder, recordedRun } from '../../runtime/replay/find-run.ts'
import { LoggedReplay } from '../../runtime/replay/run-replay.ts'
import { environmentRedactor } from '../environment-redactor.ts'
import { EXIT } from '../failure.ts'
import { jsonText } from '../json-text.ts'
import { oneLine } from '../one-line.ts'
import type { Surroundings } from './run.ts'

export interface ReplayFlags {
  log: string
  /** Number of the moment whose state is printed; Infinity is the last one. */
  at?: number
  json?: boolean
}

/** Prints the moments, or the state at one, and resolves to the exit code. Rejects if there is no such log or run. */
export async function replay(
  runId: string,
  { log, at, json = false }: ReplayFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const redactor = environmentRedactor(folder)
  const past = new LoggedReplay(await recordedRun(logFolder(log, folder), runId), redactor)
  const { moments } = past
  if (at === undefined) {
    if (json) await answer.write(jsonText(moments))
    else if (moments.length === 0) stderr.write('The log has nothing of the run but its launch.\n')
    else await answer.write(moments.map(momentLine).join(''))
    return EXIT.done
  }
  const next = moments.findIndex(({ seq }) => seq > at)
  const count = next < 0 ? moments.length : next
  const stand = { moment: moments[count - 1], previous: moments[count - 2]?.seq, next: moments[count]?.seq }
  const view = past.at(at)
  await answer.write(json ? jsonText(data(stand, view)) : text(stand, view))
  return EXIT.done
}

/** Place among the moments. `moment`: undefined before the first one. */
interface Stand {
  moment: RunMoment | undefined
  previous: number | undefined
  next: number | undefined
}

const data = ({ moment = undefined, previous, next }: Stand, view: RunView): object => ({
  moment: moment ?? null,
  previous: previous ?? null,
  next: next ?? null,
  ...view,
})

const momentLine = ({ seq, at, sentence }: RunMoment): string =>
  `${String(seq).padStart(SEQ_WIDTH)}  ${new Date(at).toISOString()}  ${oneLine(sentence)}\n`

const SEQ_WIDTH = 6

function text({ moment, previous, next }: Stand, { agents, mailboxes, waits, board, tasks }: RunView): string {
  const parts = [
    list(
      'agents',
      agents.map(({ agent, status }) => `${agent}: ${status}`),
    ),
    list('mailboxes', mailboxes.flatMap(messagesIn)),
    list(
      'waits',
      waits.map(
        ({ agent, for: whom, kind }) => `${agent} waits${whom.length > 0 ? ` for ${whom.join(', ')}` : ''} (${kind})`,
      ),
    ),
    list(
      'board',
      Object.entries(board).map(([key, value]) => `${key}: ${JSON.stringify(value)}`),
    ),
    list(
      'tasks',
      tasks.map(({ status, assignedTo, description }) => `${status}, ${assignedTo ?? 'nobody'}: ${description}`),
    ),
    steps(previous, next),
  ]
  return `${moment ? momentLine(moment) : 'before the first moment\n'}\n${parts.join('\n')}`
}

function list(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? `${title}: none\n` : `${title}\n${lines.map((line) => `  ${oneLine(line)}\n`).join('')}`
}

function messagesIn({ agent, messages }: MailboxView): string[] {
  return messages.map(({ type, from, content, attempt, inTurn }) => {
    const state = [inTurn && 'in a turn', attempt > 1 && `attempt ${attempt}`].filter((part) => part !== false)
    return `${agent} has a ${type} of ${from}${state.length > 0 ? ` (${state.join(', ')})` : ''}: ${content}`
  })
}

/** Names the moments beside this one. */
function steps(previous: number | undefined, next: number | undefined): string {
  const places = [previous !== undefined && `previous: ${previous}`, next !== undefined && `next: ${next}`]
  return `${places.filter((place) => place !== false).join('  ') || 'no other moment'}\n`
}
